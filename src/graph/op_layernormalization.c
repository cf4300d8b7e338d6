/* SPDX-License-Identifier: MIT */
/* Standardised along the last sides, times a scale, plus a shift. */
#include "graph/reduce.h"

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
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(layernormalization, "LayerNormalization", import, .summary = NULL)
