/* SPDX-License-Identifier: MIT */
/* The slices of a side, or the numbers of x in a row, for which a constant condition holds. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t named;
    int axis = 0, k, y, x = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    const bool flat = !vt_onnx_int(vt_import_node(im), "axis", &named);
    if (flat)
        VT_TRY(vt_emit_reshape(im, x, &(vt_dims){1, {(int64_t)vt_import_value(im, x)->n}}, &x, e));
    else
        VT_TRY(vt_axis(im, named, vt_import_value(im, x)->dims.rank, &axis, e));
    const vt_value v = *vt_import_value(im, x), holds = *vt_import_value(im, k);
    vt_dims d = v.dims;
    size_t inner = 1, side = (size_t)d.d[axis], kept = 0, all;
    for (int s = axis + 1; s < d.rank; s++) inner *= (size_t)d.d[s];
    int32_t *at = vt_import_take(im, side + 1, sizeof *at);
    if (!at) return vt_import_memory(im, e);
    for (size_t i = 0; i < side && i < holds.n; i++)
        if (vt_value_real(&holds, i) != 0) at[kept++] = (int32_t)i;
    d.d[axis] = (int64_t)kept;
    int32_t *map = vt_dims_count(&d, &all) ? vt_import_take(im, all + 1, sizeof *map) : NULL;
    if (!map) return vt_import_memory(im, e);
    for (size_t i = 0; i < all; i++) {
        const size_t row = i / inner / kept;
        map[i] = (int32_t)((row * side + (size_t)at[i / inner % kept]) * inner + i % inner);
    }
    VT_TRY(vt_emit_map(im, x, &d, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(compress, "Compress", import, .summary = "constant condition", .since = 9)
