/* SPDX-License-Identifier: MIT */
/* x with slices replaced, at constant indices. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x = vt_input(im, 0), u = vt_input(im, 2), y, parts[2];
    VT_TRY(vt_input_count(im, 3, 3, e));
    if (!vt_attr_is(im, "reduction", "none", "none"))
        return vt_import_fail(im, e, "has a reduction, which is not read");
    const vt_value v = *vt_import_value(im, x), i = *vt_import_value(im, vt_input(im, 1));
    const vt_value w = *vt_import_value(im, u);
    const int rank = i.dims.rank, deep = rank ? (int)i.dims.d[rank - 1] : 0;
    if (!i.integers || deep < 1 || deep > v.dims.rank)
        return vt_import_fail(im, e, "has indices that are no constant lists of places");
    size_t slice = 1, n = i.n / (size_t)deep;
    for (int k = deep; k < v.dims.rank; k++) slice *= (size_t)v.dims.d[k];
    if (n * slice != w.n) return vt_import_fail(im, e, "has %zu updates, must have %zu", w.n, n * slice);
    int32_t *map = vt_import_take(im, v.n + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    for (size_t k = 0; k < v.n; k++) map[k] = (int32_t)k;
    for (size_t r = 0; r < n; r++) {
        size_t at = 0;
        for (int k = 0; k < deep; k++) {
            const int64_t p = i.integers[r * (size_t)deep + (size_t)k], side = v.dims.d[k];
            if (p < -side || p >= side)
                return vt_import_fail(im, e, "has index %lld of a side of %lld", (long long)p, (long long)side);
            at = at * (size_t)side + (size_t)(p < 0 ? p + side : p);
        }
        for (size_t k = 0; k < slice; k++) map[at * slice + k] = (int32_t)(v.n + r * slice + k);
    }
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){1, {(int64_t)v.n}}, &parts[0], e));
    VT_TRY(vt_emit_reshape(im, u, &(vt_dims){1, {(int64_t)w.n}}, &parts[1], e));
    VT_TRY(vt_emit_concat(im, parts, 2, 0, &y, e));
    VT_TRY(vt_emit_map(im, y, &v.dims, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(scatternd, "ScatterND", import, .summary = NULL)
