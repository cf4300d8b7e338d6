/* SPDX-License-Identifier: MIT */
/* x over the root of the mean of its squares + eps along the last sides, times a scale. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    int axis, x, y, eps;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", -1), rank, &axis, e));
    for (int k = axis; k < rank; k++) reduced[k] = true;
    VT_TRY(vt_emit_binary(im, "Mul", x, x, &y, e));
    VT_TRY(vt_emit_reduce(im, "ReduceMean", y, reduced, true, &y, e));
    VT_TRY(vt_emit_real(im, vt_attr_real(im, "epsilon", 1e-5), &eps, e));
    VT_TRY(vt_emit_binary(im, "Add", y, eps, &y, e));
    VT_TRY(vt_emit_unary(im, "Sqrt", y, NULL, &y, e));
    VT_TRY(vt_emit_binary(im, "Div", x, y, &y, e));
    VT_TRY(vt_emit_binary(im, "Mul", y, vt_input(im, 1), &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(rmsnormalization, "RMSNormalization", import, .summary = NULL, .since = 23)
