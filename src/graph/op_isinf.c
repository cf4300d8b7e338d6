/* SPDX-License-Identifier: MIT */
/* Whether numbers are infinite, of the signs that count. */
#include "graph/elementwise.h"

static void forward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    const double *with = c->n->with;
    for (size_t i = 0; i < n; i++) {
        const real v = c->x[0][i];
        c->y[i] = isinf(v) && (v < 0 ? with[0] : with[1]) != 0;
    }
}

static vt_status import(vt_import *im, vt_err *e) {
    const double with[2] = {(double)vt_attr_int(im, "detect_negative", 1),
                            (double)vt_attr_int(im, "detect_positive", 1)};
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_emit_unary(im, "IsInf", x, with, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_isinf);
const VT_R(vt_op) VT_R(vt_op_isinf) = {.name = "IsInf", .import = import, .forward = forward, .since = 10};
