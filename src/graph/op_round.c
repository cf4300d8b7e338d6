/* SPDX-License-Identifier: MIT */
/* The nearest integer, ties to even. Its derivative is 0 almost everywhere. */
#include "graph/elementwise.h"

static void forward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    for (size_t i = 0; i < n; i++) {
        const real v = c->x[0][i];
        c->y[i] = rint(v);
    }
}

extern const VT_R(vt_op) VT_R(vt_op_round);
const VT_R(vt_op) VT_R(vt_op_round) = {.name = "Round", .import = vt_import_unary, .forward = forward};
