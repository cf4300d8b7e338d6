/* SPDX-License-Identifier: MIT */
/* -1, 0 or 1. Its derivative is 0 almost everywhere. */
#include "graph/elementwise.h"

static void forward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    for (size_t i = 0; i < n; i++) {
        const real v = c->x[0][i];
        c->y[i] = v > 0 ? 1 : v < 0 ? -1 : 0;
    }
}

extern const VT_R(vt_op) VT_R(vt_op_sign);
const VT_R(vt_op) VT_R(vt_op_sign) = {.name = "Sign", .import = vt_import_unary, .forward = forward};
