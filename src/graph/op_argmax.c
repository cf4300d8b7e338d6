/* SPDX-License-Identifier: MIT */
/* Where the largest number of a side of a constant is. */
#include "graph/op.h"

#ifndef VT_DOUBLE
/* Emits the places of a constant's largest (least: least) numbers along the axis, of equal ones the first or, asked so,
 * the last. */
vt_status vt_import_extreme(vt_import *im, bool least, vt_err *e) {
    const bool last = vt_attr_int(im, "select_last_index", 0) != 0, keep = vt_attr_int(im, "keepdims", 1) != 0;
    int axis, x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_constant_input(im, 0, &x, e));
    const vt_value v = *vt_import_value(im, x);
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 0), v.dims.rank, &axis, e));
    const size_t side = (size_t)v.dims.d[axis];
    size_t inner = 1;
    vt_dims d = {0};
    for (int k = 0; k < v.dims.rank; k++) {
        if (k > axis) inner *= (size_t)v.dims.d[k];
        if (k != axis || keep) d.d[d.rank++] = k == axis ? 1 : v.dims.d[k];
    }
    if (!side) return vt_import_fail(im, e, "searches a side of length 0");
    int64_t *p = vt_import_take(im, v.n / side + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t r = 0; r < v.n / side; r++) {
        const size_t first = r / inner * side * inner + r % inner;
        for (size_t k = 1; k < side; k++) {
            const double best = vt_value_real(&v, first + (size_t)p[r] * inner),
                         own = vt_value_real(&v, first + k * inner);
            if ((least ? own < best : own > best) || (last && own == best)) p[r] = (int64_t)k;
        }
    }
    VT_TRY(vt_emit_integers(im, &d, p, &y, e));
    return vt_output(im, 0, y, e);
}
#endif

static vt_status import(vt_import *im, vt_err *e) { return vt_import_extreme(im, false, e); }

VT_OP_EMITS(argmax, "ArgMax", import, .summary = "of constants")
