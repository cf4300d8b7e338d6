/* SPDX-License-Identifier: MIT */
/* Standardised along some sides, with 1e-9 beside the deviation. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t axes[VT_RANK] = {0, 2, 3};
    const double eps = 1e-18; /* the operator adds 1e-9 to the deviation */
    int n, x, y;
    bool has, reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_integers(im, "axes", -1, axes, VT_RANK, &n, &has, e));
    for (int k = 0; k < (has ? n : 3); k++) {
        int a;
        VT_TRY(vt_axis(im, axes[k], vt_import_value(im, x)->dims.rank, &a, e));
        reduced[a] = true;
    }
    VT_TRY(vt_emit_along(im, "(standardise)", x, reduced, &eps, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(meanvariancenormalization, "MeanVarianceNormalization", import,
            .summary = "over the root of variance + 1e-18")
