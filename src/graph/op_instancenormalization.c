/* SPDX-License-Identifier: MIT */
/* Each channel standardised, times its scale, plus its shift. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    const double eps = vt_attr_real(im, "epsilon", 1e-5);
    int x, y, scale, shift;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 3, 3, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    if (rank < 3) return vt_import_fail(im, e, "has an input of %d sides", rank);
    for (int k = 2; k < rank; k++) reduced[k] = true;
    VT_TRY(vt_emit_beside_channels(im, vt_input(im, 1), rank, &scale, e));
    VT_TRY(vt_emit_beside_channels(im, vt_input(im, 2), rank, &shift, e));
    VT_TRY(vt_emit_along(im, "(standardise)", x, reduced, &eps, &y, e));
    VT_TRY(vt_emit_binary(im, "Mul", y, scale, &y, e));
    VT_TRY(vt_emit_binary(im, "Add", y, shift, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(instancenormalization, "InstanceNormalization", import, .summary = NULL)
