/* SPDX-License-Identifier: MIT */
/* One of two values: the second where a place's number along a new side is the constant index there. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int k, n, values = vt_input(im, 2), axis, y;
    VT_TRY(vt_input_count(im, 3, 3, e));
    VT_TRY(vt_constant_input(im, 0, &k, e));
    VT_TRY(vt_constant_input(im, 1, &n, e));
    const vt_value i = *vt_import_value(im, k), count = *vt_import_value(im, n);
    const double depth = count.n == 1 ? vt_value_real(&count, 0) : 0;
    if (values < 0 || vt_import_value(im, values)->n != 2) return vt_import_fail(im, e, "has not two values");
    if (!(depth >= 1 && depth <= (double)VT_GRAPH_VALUES) || i.dims.rank == VT_RANK)
        return vt_import_fail(im, e, "has depth %g", depth);
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", -1), i.dims.rank + 1, &axis, e));
    vt_dims d = {.rank = i.dims.rank + 1};
    size_t all, inner = 1;
    for (int s = 0; s < d.rank; s++) d.d[s] = s == axis ? (int64_t)depth : i.dims.d[s < axis ? s : s - 1];
    for (int s = axis; s < i.dims.rank; s++) inner *= (size_t)i.dims.d[s];
    if (!vt_dims_count(&d, &all)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    int32_t *map = vt_import_take(im, all + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    for (size_t p = 0; p < all; p++) {
        const size_t row = p / inner / (size_t)d.d[axis];
        const double own = vt_value_real(&i, row * inner + p % inner);
        map[p] = (double)(p / inner % (size_t)d.d[axis]) == (own < 0 ? own + depth : own);
    }
    VT_TRY(vt_emit_map(im, values, &d, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(onehot, "OneHot", import, .summary = "constant indices", .since = 9)
