/* SPDX-License-Identifier: MIT */
/* Rows standardised, times a scale of each column, plus a shift: what the fusion makes of a LayerNorm. */
#include <tgmath.h>
#include "graph/reduce.h"
#include "nn/nn.h"

static VT_R(vt_norm) norm_of(const VT_R(vt_call) *c) {
    return (VT_R(vt_norm)){.kind = VT_NORM_LAYER,
                           .eps = ((const vt_row_size *)c->n->with)->eps,
                           .g = c->x[1],
                           .b = c->x[2]};
}

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    VT_R(vt_norm_forward)(c->y, c->work, c->x[0], norm_of(c), (int)s->rows, (int)s->cols);
}

static void backward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    real *stat = c->work, *dx = c->dx[0];
    if (!dx) return;
    for (size_t r = 0; r < s->rows; r++, stat += 2) {
        const real *x = c->x[0] + r * s->cols, mean = VT_R(vt_row_sum)(x, s->cols) / (real)s->cols;
        real lane[16] = {0};
        size_t i = 0;
        for (; i + 16 <= s->cols; i += 16)
            for (size_t k = 0; k < 16; k++) lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
        for (; i < s->cols; i++) lane[0] += (x[i] - mean) * (x[i] - mean);
        stat[0] = mean, stat[1] = 1 / (real)sqrt((double)VT_R(vt_row_sum)(lane, 16) / (double)s->cols + s->eps);
    }
    VT_R(vt_norm_backward)(dx, c->add[0] ? dx : NULL, c->dy, c->x[0], c->work, norm_of(c), (int)s->rows, (int)s->cols);
}

static size_t work(const vt_graph *g, const vt_node *n, bool back) {
    (void)g, (void)back;
    return 2 * ((const vt_row_size *)n->with)->rows;
}

extern const VT_R(vt_op) VT_R(vt_op_norm);
const VT_R(vt_op)
    VT_R(vt_op_norm) = {.name = "(norm)", .forward = forward, .backward = backward, .work = work, .keep = VT_KEEP_X};
