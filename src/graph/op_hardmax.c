/* SPDX-License-Identifier: MIT */
/* 1 at the first of a row's largest numbers, else 0: nothing passes backward. */
#include "graph/reduce.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; r < s->rows; r++) {
        const real *x = c->x[0] + r * s->cols;
        size_t best = 0;
        for (size_t i = 1; i < s->cols; i++) best = x[i] > x[best] ? i : best;
        for (size_t i = 0; i < s->cols; i++) c->y[r * s->cols + i] = i == best;
    }
}

extern const VT_R(vt_op) VT_R(vt_op_hardmax);
const VT_R(vt_op) VT_R(vt_op_hardmax) = {.name = "Hardmax", .import = vt_import_rows, .forward = forward};
