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

/* Of a network without blocks: what code that counts tokens finds. */
static vt_config config_of(const vt_network *n) {
    vt_config c = {.image = 1, .patch = 1, .dim = 1, .heads = 1, .hidden = 1, .ln_eps = 1e-6, .attn_scale = 1};
    snprintf(c.arch, sizeof c.arch, "onnx"), snprintf(c.attn, sizeof c.attn, "dot");
    c.classes = n->classes, c.foreign = n->shape, c.network = n;
    return c;
}

static vt_status fill_model(vt_model *m, const char *path, vt_err *e) {
    vt_network *n;
    VT_TRY(vt_network_open(&n, path, NULL, e));
    m->config = config_of(n);
    vt_sha *sha = vt_sha_new();
    if (!sha) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    vt_onnx_hash(n->file, sha);
    vt_sha_end(sha, m->sha256);
    snprintf(m->naming, sizeof m->naming, "ONNX, opset %lld", (long long)n->file->opset);
    m->path = strdup(path), m->part = strdup(""), m->parts = strdup("");
    return m->path && m->part && m->parts ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
}

vt_status vt_model_open_onnx(vt_model **out, const char *path, const vt_overrides *o, vt_err *e) {
    *out = NULL;
    if (!o || !o->onnx)
        return vt_fail(e, VT_E_FORMAT, "%s: is an ONNX file; probe and gradcheck read it, this command does not yet",
                       path);
    vt_model *m = calloc(1, sizeof *m);
    if (!m) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    vt_status s = fill_model(m, path, e);
    if (s == VT_OK)
        *out = m;
    else
        vt_model_close(m);
    return s;
}
