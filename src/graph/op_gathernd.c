/* SPDX-License-Identifier: MIT */
/* Slices of x at constant lists of indices. */
#include "graph/op.h"

#ifndef VT_DOUBLE
/* Fails with VT_E_FORMAT for indices that are no constant lists of places, or beyond a side. */
vt_status vt_import_place_map(vt_import *im, int x, int k, int batch, int32_t **map, size_t *slice, vt_err *e) {
    const vt_value i = *vt_import_value(im, k);
    const vt_dims from = vt_import_value(im, x)->dims;
    const int rank = i.dims.rank, deep = rank ? (int)i.dims.d[rank - 1] : 0;
    size_t stacks = 1, own = 1;
    bool fits = i.integers && deep >= 1 && batch >= 0 && batch < rank && deep + batch <= from.rank;
    for (int d = 0; fits && d < batch; d++) fits = i.dims.d[d] == from.d[d], stacks *= (size_t)i.dims.d[d];
    if (!fits) return vt_import_fail(im, e, "has indices that are no constant lists of places");
    *slice = 1;
    for (int d = batch; d < from.rank; d++) *(d < batch + deep ? &own : slice) *= (size_t)from.d[d];
    const size_t lists = i.n / (size_t)deep, each = stacks ? lists / stacks : 0;
    size_t all;
    if (!vt_dims_count(&(vt_dims){2, {(int64_t)lists, (int64_t)*slice}}, &all))
        return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    if (!(*map = vt_import_take(im, all + 1, sizeof **map))) return vt_import_memory(im, e);
    for (size_t r = 0; r < lists; r++) {
        size_t at = 0;
        for (int d = 0; d < deep; d++) {
            const int64_t p = i.integers[r * (size_t)deep + (size_t)d], side = from.d[batch + d];
            if (p < -side || p >= side)
                return vt_import_fail(im, e, "has index %lld of a side of %lld", (long long)p, (long long)side);
            at = at * (size_t)side + (size_t)(p < 0 ? p + side : p);
        }
        for (size_t s = 0; s < *slice; s++) (*map)[r * *slice + s] = (int32_t)((r / each * own + at) * *slice + s);
    }
    return VT_OK;
}
#endif

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t batch = vt_attr_int(im, "batch_dims", 0);
    int k, y, x = vt_input(im, 0);
    int32_t *map;
    size_t slice;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    if (batch < 0 || batch > VT_RANK) return vt_import_fail(im, e, "has batch_dims %lld", (long long)batch);
    VT_TRY(vt_import_place_map(im, x, k, (int)batch, &map, &slice, e));
    const vt_dims d = vt_import_value(im, x)->dims, i = vt_import_value(im, k)->dims;
    const int inner = d.rank - (int)batch - (int)i.d[i.rank - 1];
    vt_dims to = {.rank = i.rank - 1 + inner};
    if (to.rank > VT_RANK) return vt_import_fail(im, e, "has a result of %d sides", to.rank);
    for (int s = 0; s < to.rank; s++) to.d[s] = s < i.rank - 1 ? i.d[s] : d.d[d.rank - to.rank + s];
    VT_TRY(vt_emit_map(im, x, &to, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(gathernd, "GatherND", import, .summary = "constant indices", .since = 11)
