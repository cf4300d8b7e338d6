/* SPDX-License-Identifier: MIT */
/* x tanh(log(1 + e^x)) (Misra 2019). */
#include "graph/elementwise.h"

static real mish_slope(real v) {
    const real t = tanh(fmax(v, (real)0) + log1p(exp(-fabs(v))));
    return t + v * (1 - t * t) / (1 + exp(-v));
}

VT_UNARY(mish, "Mish", vt_import_unary, VT_KEEP_X, v *tanh(fmax(v, (real)0) + log1p(exp(-fabs(v)))), mish_slope(v),
         .since = 18)
