/* SPDX-License-Identifier: MIT */
#include "models/export/export.h"

#include <stdio.h>
#include <string.h>

#define VT_KIND vt_export_arch
#define VT_KIND_NAME(x) vt_export_arch_##x
#define VT_KIND_LIST "puts.inc"
#include "base/registry.inc"

static const vt_export_arch *find_arch(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (defs[i]->also && !strcmp(defs[i]->also, name)) return defs[i];
    return named(name);
}

void vt_export_statistics(const vt_config *c, double mean[3], double std[3]) {
    for (int k = 0; k < 3; k++) mean[k] = c->mean[c->bgr ? 2 - k : k], std[k] = c->std[c->bgr ? 2 - k : k];
}

/* Adds the input and what the session does before the architecture (models/net/session.c), in another order: the
 * normalisation stands first, where verifiers expect it, and commutes with the resampling. */
static int put_input(vt_export *x, vt_normalise how) {
    static const vt_interp_kind kinds[] = {VT_INTERP_BILINEAR, VT_INTERP_BICUBIC, VT_INTERP_NEAREST, VT_INTERP_BILINEAR,
                                           VT_INTERP_BICUBIC};
    const vt_config *c = x->c;
    const int64_t side = vt_config_input(c);
    double mean[3], std[3];
    vt_export_statistics(c, mean, std);
    int v = vt_put_input(x->p, "pixels", VT_DIMS(3, side, side));
    vt_put_scope(x->p, "input.");
    if (how == VT_NORMALISE_INSIDE) {
        v = vt_put_binary(x->p, "Sub", v, vt_put_reals(x->p, VT_DIMS(3, 1, 1), mean));
        v = vt_put_binary(x->p, "Div", v, vt_put_reals(x->p, VT_DIMS(3, 1, 1), std));
    }
    if (c->bgr) v = vt_put_along(x->p, "Gather", v, vt_put_integers(x->p, 3, (int64_t[]){2, 1, 0}), 1);
    const vt_export_grid grid = {kinds[c->native_filter], c->native_filter >= VT_NATIVE_BILINEAR_AA, c->native,
                                 c->image, 0};
    return c->native ? vt_export_resample_map(x, v, &grid) : v;
}

static void put_notes(vt_export *x, vt_normalise how) {
    const vt_config *c = x->c;
    char text[160];
    double mean[3], std[3];
    vt_export_statistics(c, mean, std);
    vt_put_note(x->p, "architecture", c->arch);
    vt_put_note(x->p, "attention", c->attn);
    vt_put_note(x->p, "normalisation", how == VT_NORMALISE_INSIDE ? "inside" : "outside");
    snprintf(text, sizeof text, "%.17g,%.17g,%.17g", mean[0], mean[1], mean[2]);
    vt_put_note(x->p, "mean", text);
    snprintf(text, sizeof text, "%.17g,%.17g,%.17g", std[0], std[1], std[2]);
    vt_put_note(x->p, "std", text);
    vt_put_note(x->p, "source_sha256", x->m->sha256);
}

/* VT_E_RANGE if a tensor has more than VT_GRAPH_VALUES numbers. */
static vt_status check_size(const vt_model *m, const char *path, vt_err *e) {
    for (int i = 0; i < m->params.count; i++)
        if (m->params.items[i].numel > VT_GRAPH_VALUES)
            return vt_fail(e, VT_E_RANGE, "%s: tensor %s has %zu numbers, an ONNX file's may have %zu", path,
                           m->params.items[i].name, m->params.items[i].numel, VT_GRAPH_VALUES);
    return VT_OK;
}

/* Opens x->p, to be closed also after a failure, and puts the whole network and its notes into it; path: for sentences.
 * VT_E_USAGE: an architecture without export; VT_E_RANGE: too large a tensor. */
static vt_status put_network(vt_export *x, const vt_model *m, vt_normalise how, const char *path, vt_err *e) {
    const vt_export_arch *arch = find_arch(m->config.arch);
    *x = (vt_export){.m = m, .c = &m->config};
    if (!arch)
        return vt_fail(e, VT_E_USAGE, "%s: is no network of vitrine's own architectures (%s): it cannot be written",
                       m->path ? m->path : path, m->config.arch);
    VT_TRY(check_size(m, path, e));
    VT_TRY(vt_attn_parse(&x->attn, m->config.attn, e));
    if (!(x->p = vt_put_open())) return vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    const int logits = arch->put(x, put_input(x, how));
    vt_put_output(x->p, logits, "logits", m->config.classes);
    put_notes(x, how);
    return VT_OK;
}

vt_status vt_model_export(const vt_model *m, vt_normalise how, const char *path, vt_export_size *size, vt_err *e) {
    vt_export x;
    vt_status s = put_network(&x, m, how, path, e);
    if (s == VT_OK) vt_put_size(x.p, &size->nodes, &size->numbers);
    if (s == VT_OK) s = vt_put_file(x.p, m->config.arch, path, e);
    vt_put_close(x.p);
    return s;
}

vt_status vt_model_export_stream(const vt_model *m, vt_normalise how, FILE *to, vt_err *e) {
    vt_export x;
    const char *path = m->path ? m->path : "model";
    vt_status s = put_network(&x, m, how, path, e);
    if (s == VT_OK) s = vt_put_stream(x.p, m->config.arch, to, path, e);
    vt_put_close(x.p);
    return s;
}

/* Writes the model as an ONNX file, for vt_mapped_make. */
static vt_status write_inside(const void *m, FILE *to, vt_err *e) {
    return vt_model_export_stream(m, VT_NORMALISE_INSIDE, to, e);
}

vt_status vt_model_network(vt_network **out, const vt_model *m, vt_err *e) {
    const char *path = m->path ? m->path : "model";
    vt_import_options how = {.classifier = true};
    vt_mapped file;
    if (m->config.network) how = m->config.network->how;
    how.fusion = VT_FUSE_GELU;
    if (m->config.network) return vt_network_open(out, path, &how, e);
    VT_TRY(vt_mapped_make(&file, path, write_inside, m, e));
    return vt_network_open_mapped(out, path, file, &how, e);
}
