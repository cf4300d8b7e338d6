/* SPDX-License-Identifier: MIT */
/* Values one after another along a side. */
#include <string.h>
#include "graph/move.h"
#include "graph/op.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_concat *p = c->n->with;
    real *y = c->y;
    for (size_t o = 0; o < p->outer; o++)
        for (int k = 0; k < c->n->n_in; y += p->part[k++])
            if (p->part[k]) memcpy(y, c->x[k] + o * p->part[k], p->part[k] * sizeof *y);
}

static void backward(const VT_R(vt_call) *c) {
    const vt_concat *p = c->n->with;
    const real *dy = c->dy;
    for (size_t o = 0; o < p->outer; o++)
        for (int k = 0; k < c->n->n_in; dy += p->part[k++])
            for (size_t i = 0; c->dx[k] && i < p->part[k]; i++) VT_GIVE(c, k, o * p->part[k] + i, dy[i]);
}

static vt_status import(vt_import *im, vt_err *e) {
    const int n = vt_import_node(im)->n_in;
    int axis, y, *in = vt_import_take(im, (size_t)n + 1, sizeof *in);
    if (!in) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 1, 100000, e));
    for (int k = 0; k < n; k++)
        if ((in[k] = vt_input(im, k)) < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 1), vt_import_value(im, in[0])->dims.rank, &axis, e));
    VT_TRY(vt_emit_concat(im, in, n, axis, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_concat);
const VT_R(vt_op) VT_R(vt_op_concat) = {.name = "Concat", .import = import, .forward = forward, .backward = backward};
