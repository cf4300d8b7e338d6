/* SPDX-License-Identifier: MIT */
/* Standardised along the last sides, times a scale, plus a shift. */
#include "graph/reduce.h"

/* Emits outputs 1 and 2: mean, and one over the deviation with eps, along the sides in `reduced`. */
static vt_status give_statistics(vt_import *im, int x, const bool reduced[VT_RANK], double eps, vt_err *e) {
    int mean, v, more;
    VT_TRY(vt_emit_reduce(im, "ReduceMean", x, reduced, true, &mean, e));
    VT_TRY(vt_output(im, 1, mean, e));
    VT_TRY(vt_emit_binary(im, "Sub", x, mean, &v, e));
    VT_TRY(vt_emit_binary(im, "Mul", v, v, &v, e));
    VT_TRY(vt_emit_reduce(im, "ReduceMean", v, reduced, true, &v, e));
    VT_TRY(vt_emit_real(im, eps, &more, e));
    VT_TRY(vt_emit_binary(im, "Add", v, more, &v, e));
    VT_TRY(vt_emit_unary(im, "Sqrt", v, NULL, &v, e));
    VT_TRY(vt_emit_unary(im, "Reciprocal", v, NULL, &v, e));
    return vt_output(im, 2, v, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    const double eps = vt_attr_real(im, "epsilon", 1e-5);
    int axis, x, y, scale = vt_input(im, 1), shift = vt_input(im, 2);
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 2, 3, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", -1), rank, &axis, e));
    for (int k = axis; k < rank; k++) reduced[k] = true;
    VT_TRY(vt_emit_along(im, "(standardise)", x, reduced, &eps, &y, e));
    if (scale >= 0) VT_TRY(vt_emit_binary(im, "Mul", y, scale, &y, e));
    if (shift >= 0) VT_TRY(vt_emit_binary(im, "Add", y, shift, &y, e));
    VT_TRY(vt_output(im, 0, y, e));
    return vt_import_node(im)->n_out > 1 ? give_statistics(im, x, reduced, eps, e) : VT_OK;
}

VT_OP_EMITS(layernormalization, "LayerNormalization", import, .summary = NULL)
