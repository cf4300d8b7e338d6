/* SPDX-License-Identifier: MIT */
#include "graph/network.h"

#include <stdlib.h>
#include <string.h>
#include "base/gzip.h"
#include "graph/fuse.h"
#include "graph/parts.h"

vt_status vt_network_plan(vt_network *n, vt_err *e) {
    for (int k = 0; k < 2; k++) VT_TRY(vt_graph_plan(&n->plan[k], n->g, k == 1, e));
    return VT_OK;
}

/* Keeps the options by which the file is read. */
static void keep_options(vt_network *n, const vt_import_options *o) {
    n->how = *o;
    n->how.layout = !o->layout ? NULL : strcmp(o->layout, "nhwc") ? "nchw" : "nhwc";
    for (int i = 0; o->output && i < n->file->n_outputs; i++)
        if (!strcmp(n->file->outputs[i].name, o->output)) n->how.output = n->file->outputs[i].name;
}

/* Reads the graph of n->file. */
static vt_status read_network(vt_network *n, const char *path, const vt_import_options *o, vt_err *e) {
    if (o) keep_options(n, o);
    VT_TRY(vt_graph_import(&n->g, n->file, o, e));
    if (o && o->classifier && !o->normalise && !o->own_pixels && n->g->pixels == VT_PIXELS_BYTES) {
        vt_import_options bytes = *o;
        bytes.normalise = true;
        for (int k = 0; k < 3; k++) bytes.mean[k] = 0, bytes.std[k] = 1 / 255.0;
        vt_graph_free(n->g), n->g = NULL;
        VT_TRY(vt_graph_import(&n->g, n->file, &bytes, e));
        n->g->pixels = VT_PIXELS_BYTES;
        keep_options(n, &bytes);
    }
    VT_TRY(vt_graph_fuse(n->g, o ? o->fusion : VT_FUSE_ALL, e));
    VT_TRY(vt_network_plan(n, e));
    VT_TRY(vt_network_find_cuts(n, e));
    vt_onnx_release(n->file); /* constants are copies */
    const int64_t *d = n->g->values[n->g->input].dims.d, *z = n->g->values[n->g->output].dims.d;
    n->shape = (vt_shape){(int)d[1], (int)d[2], (int)d[3]};
    n->classes = (int)z[1];
    if (vt_shape_values(n->shape) > VT_SHAPE_VALUES || z[1] > 100000)
        return vt_fail(e, VT_E_FORMAT, "%s: has images of %lldx%lldx%lld and %lld classes, which is too many", path,
                       (long long)d[1], (long long)d[2], (long long)d[3], (long long)z[1]);
    return VT_OK;
}

vt_status vt_network_open(vt_network **out, const char *path, const vt_import_options *o, vt_err *e) {
    vt_mapped file;
    *out = NULL;
    VT_TRY(vt_unpacked_open(&file, path, e));
    return vt_network_open_mapped(out, path, file, o, e);
}

vt_status vt_network_open_mapped(vt_network **out, const char *path, vt_mapped file, const vt_import_options *o,
                                 vt_err *e) {
    *out = NULL;
    vt_network *n = calloc(1, sizeof *n);
    if (!n) {
        vt_mapped_close(&file);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    }
    vt_status s = vt_onnx_open_mapped(&n->file, path, file, e);
    if (s == VT_OK) s = read_network(n, path, o, e);
    if (s == VT_OK)
        *out = n;
    else
        vt_network_close(n);
    return s;
}

size_t vt_network_bytes(const vt_network *n) { return n->g->heap.bytes; }

void vt_network_close(vt_network *n) {
    if (!n) return;
    vt_graph_free(n->g);
    vt_onnx_close(n->file);
    free(n);
}
