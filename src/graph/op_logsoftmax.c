/* SPDX-License-Identifier: MIT */
/* Logarithm of Softmax. */
#include <string.h>
#include <tgmath.h>
#include "graph/reduce.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; r < s->rows; r++) {
        const real *x = c->x[0] + r * s->cols;
        real *y = c->y + r * s->cols, most = x[0], sum = 0;
        for (size_t i = 1; i < s->cols; i++) most = x[i] > most ? x[i] : most;
        for (size_t i = 0; i < s->cols; i++) sum += exp(x[i] - most);
        for (size_t i = 0; i < s->cols; i++) y[i] = x[i] - most - log(sum);
    }
}

static void backward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; c->dx[0] && r < s->rows; r++) {
        const real *y = c->y + r * s->cols, *dy = c->dy + r * s->cols, sum = VT_R(vt_row_sum)(dy, s->cols);
        for (size_t i = 0; i < s->cols; i++) VT_GIVE(c, 0, r * s->cols + i, dy[i] - exp(y[i]) * sum);
    }
}

extern const VT_R(vt_op) VT_R(vt_op_logsoftmax);
const VT_R(vt_op) VT_R(vt_op_logsoftmax) = {.name = "LogSoftmax",
                                            .import = vt_import_rows,
                                            .forward = forward,
                                            .backward = backward,
                                            .keep = VT_KEEP_Y};
