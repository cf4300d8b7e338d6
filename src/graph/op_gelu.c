/* SPDX-License-Identifier: MIT */
/* x times the normal distribution's function of x, exact or by its approximation with tanh. */
#include "graph/elementwise.h"

#define INNER ((real)0.7978845608028654) /* sqrt(2 / pi) */
#define CUBE ((real)0.044715)

static real gelu(real v, bool approximate) {
    const real f = approximate ? tanh(INNER * (v + CUBE * v * v * v)) : erf(v * (real)0.7071067811865476);
    return v / 2 * (1 + f);
}

static real gelu_slope(real v, bool approximate) {
    if (!approximate)
        return (1 + erf(v * (real)0.7071067811865476)) / 2 + v * exp(-v * v / 2) * (real)0.3989422804014327;
    const real t = tanh(INNER * (v + CUBE * v * v * v));
    return (1 + t) / 2 + v / 2 * (1 - t * t) * INNER * (1 + 3 * CUBE * v * v);
}

static vt_status import_gelu(vt_import *im, vt_err *e) {
    const bool approximate = vt_attr_is(im, "approximate", "tanh", "none");
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    if (!approximate && !vt_attr_is(im, "approximate", "none", "none"))
        return vt_import_fail(im, e, "has an approximation that is not read");
    VT_TRY(vt_emit_unary(im, "Gelu", x, (const double[2]){approximate}, &y, e));
    return vt_output(im, 0, y, e);
}

VT_UNARY(gelu, "Gelu", import_gelu, VT_KEEP_X, gelu(v, p != 0), gelu_slope(v, p != 0), .since = 20)
