/* SPDX-License-Identifier: MIT */
/* Rounded to a whole number, half to even; the gradient passes straight through (Bengio et al. 2013), which is a
 * backward pass differentiable approximation (Athalye et al. 2018). */
#include <tgmath.h>
#include "graph/op.h"

static void forward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    for (size_t i = 0; i < n; i++) {
        const real v = c->x[0][i];
        c->y[i] = rint(v);
    }
}

static void backward(const VT_R(vt_call) *c) {
    const size_t n = c->g->values[c->n->out].n;
    for (size_t i = 0; c->dx[0] && i < n; i++) VT_GIVE(c, 0, i, c->dy[i]);
}

extern const VT_R(vt_op) VT_R(vt_op_straight);
const VT_R(vt_op)
    VT_R(vt_op_straight) = {.name = "(round)", .forward = forward, .backward = backward, .straight_through = true};
