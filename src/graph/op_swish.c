/* SPDX-License-Identifier: MIT */
/* x sigmoid(alpha x). */
#include "graph/elementwise.h"

static real swish_slope(real v, real alpha) {
    const real s = 1 / (1 + exp(-alpha * v));
    return s + alpha * v * s * (1 - s);
}

VT_UNARY(swish, "Swish", vt_import_unary, VT_KEEP_X, v / (1 + exp(-p * v)), swish_slope(v, p), .since = 24,
         .attr = {{"alpha", 1}})
