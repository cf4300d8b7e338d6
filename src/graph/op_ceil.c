/* SPDX-License-Identifier: MIT */
/* The smallest integer not below x. Its derivative is 0 almost everywhere. */
#include "graph/elementwise.h"

static void forward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    for (size_t i = 0; i < n; i++) {
        const real v = c->x[0][i];
        c->y[i] = ceil(v);
    }
}

extern const VT_R(vt_op) VT_R(vt_op_ceil);
const VT_R(vt_op) VT_R(vt_op_ceil) = {.name = "Ceil", .import = vt_import_unary, .forward = forward};
