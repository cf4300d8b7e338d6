/* SPDX-License-Identifier: MIT */
#include "checkpoint/onnx_file.h"

#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "graph/network.h"

bool vt_is_onnx(const char *path) {
    uint8_t start[16];
    return vt_ends_in(path, ".onnx") || vt_onnx_begins(start, vt_file_start(path, start, sizeof start));
}

/* Fails with VT_E_USAGE for an option that describes a checkpoint's tensors, or for one of mean and std alone. */
static vt_status refuse_foreign_options(const char *path, const vt_overrides *o, vt_err *e) {
    const char *given = o->heads        ? "heads"
                        : o->ln_eps > 0 ? "ln-eps"
                        : o->attn_scale ? "attn-scale"
                        : o->preset     ? "preset"
                        : o->attn       ? "attn"
                        : o->n_form     ? "form"
                        : o->names      ? "names"
                        : o->part       ? "part"
                                        : NULL;
    if (!given && o->has_mean == o->has_std) return VT_OK;
    if (!given)
        return vt_fail(e, VT_E_USAGE, "%s: an ONNX file's input is scaled by both @mean and @std: give the other",
                       path);
    return vt_fail(e, VT_E_USAGE,
                   "%s: is an ONNX file, which brings its own network: " VT_OPTION "%s is of a checkpoint", path,
                   given);
}

/* Sets config, source and certainty of m by the network and the options. Values that count tokens are those of a
 * network without any. */
static void describe_network(vt_model *m, const vt_network *n, const vt_overrides *o) {
    static const char *const how[] = {[VT_PIXELS_OPEN] = "no node scales the input",
                                      [VT_PIXELS_UNIT] = "in the graph",
                                      [VT_PIXELS_BYTES] = "the graph takes bytes"};
    const bool told = o->has_mean || o->raw || o->own_pixels, bytes = !told && n->g->pixels == VT_PIXELS_BYTES;
    vt_config *c = &m->config;
    *c = (vt_config){.image = 1, .patch = 1, .dim = 1, .heads = 1, .hidden = 1, .ln_eps = 1e-6, .attn_scale = 1};
    snprintf(c->arch, sizeof c->arch, "onnx"), snprintf(c->attn, sizeof c->attn, "dot");
    c->classes = n->classes, c->foreign = n->shape, c->network = n, c->depth = n->n_cuts;
    for (int k = 0; k < 3; k++) {
        c->mean[k] = o->has_mean ? o->mean[k] : 0;
        c->std[k] = o->has_std ? o->std[k] : bytes ? 1 / 255.0 : 1;
    }
    for (int f = 0; f < VT_FIELD_COUNT; f++) snprintf(m->source[f], sizeof m->source[f], "the file");
    for (int f = VT_FIELD_MEAN; f <= VT_FIELD_STD; f++) {
        snprintf(m->source[f], sizeof m->source[f], "%s",
                 o->has_mean ? (f == VT_FIELD_MEAN ? VT_OPTION "mean" : VT_OPTION "std") : how[n->g->pixels]);
        m->certainty[f] = told || n->g->pixels ? VT_KNOWN : VT_OPEN;
    }
}

/* Opens the network of an ONNX file and sets m's config with it, its sources, SHA-256, naming and texts; what is set is
 * freed with m, on failure too. */
static vt_status fill_model(vt_model *m, const char *path, const vt_overrides *o, vt_err *e) {
    vt_network *n;
    vt_import_options how = {.output = o->output,
                             .layout = o->layout,
                             .normalise = o->has_mean,
                             .own_pixels = o->own_pixels,
                             .classifier = !o->raw};
    const int side = o->image ? o->image : o->shown;
    memcpy(how.mean, o->mean, sizeof how.mean), memcpy(how.std, o->std, sizeof how.std);
    memcpy(how.shape, o->shape, sizeof how.shape);
    if (!how.shape[0]) how.usual[1] = how.usual[2] = side;
    VT_TRY(vt_network_open(&n, path, &how, e));
    describe_network(m, n, o);
    vt_sha sha;
    vt_sha_begin(&sha);
    vt_onnx_hash(n->file, &sha);
    vt_sha_end(&sha, m->sha256);
    snprintf(m->naming, sizeof m->naming, "ONNX, opset %lld", (long long)n->file->opset);
    m->path = strdup(path), m->part = strdup(""), m->parts = strdup("");
    return m->path && m->part && m->parts ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
}

vt_status vt_model_open_onnx(vt_model **out, const char *path, const vt_overrides *o, vt_err *e) {
    *out = NULL;
    if (!o || !o->onnx)
        return vt_fail(e, VT_E_FORMAT, "%s: is an ONNX file: this command works on the tensors of a checkpoint", path);
    VT_TRY(refuse_foreign_options(path, o, e));
    vt_model *m = calloc(1, sizeof *m);
    if (!m) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    vt_status s = fill_model(m, path, o, e);
    if (s == VT_OK)
        *out = m;
    else
        vt_model_close(m);
    return s;
}
