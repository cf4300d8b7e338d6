/* SPDX-License-Identifier: MIT */
/* Each row minus its mean, over the root of its (biased) variance + eps: what LayerNormalization, InstanceNormalization
 * and GroupNormalization share. */
#include <string.h>
#include <tgmath.h>
#include "graph/reduce.h"

static void forward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; r < s->rows; r++) {
        const real *x = c->x[0] + r * s->cols, n = (real)s->cols, mean = VT_R(vt_row_sum)(x, s->cols) / n;
        real *y = c->y + r * s->cols, square = 0;
        for (size_t i = 0; i < s->cols; i++) y[i] = x[i] - mean, square += y[i] * y[i];
        const real scale = 1 / sqrt(square / n + (real)s->eps);
        for (size_t i = 0; i < s->cols; i++) y[i] *= scale;
    }
}

/* Computes dx = scale (dy - mean dy - y mean(dy y)); scale from x again. */
static void backward(const VT_R(vt_call) *c) {
    const vt_row_size *s = c->n->with;
    for (size_t r = 0; c->dx[0] && r < s->rows; r++) {
        const size_t at = r * s->cols;
        const real *x = c->x[0] + at, *y = c->y + at, *dy = c->dy + at, n = (real)s->cols;
        const real mean = VT_R(vt_row_sum)(x, s->cols) / n, all = VT_R(vt_row_sum)(dy, s->cols) / n;
        real square = 0, dot = 0;
        for (size_t i = 0; i < s->cols; i++) square += (x[i] - mean) * (x[i] - mean), dot += dy[i] * y[i];
        const real scale = 1 / sqrt(square / n + (real)s->eps);
        for (size_t i = 0; i < s->cols; i++) VT_GIVE(c, 0, at + i, scale * (dy[i] - all - y[i] * dot / n));
    }
}

extern const VT_R(vt_op) VT_R(vt_op_standardise);
const VT_R(vt_op) VT_R(vt_op_standardise) = {.name = "(standardise)",
                                             .forward = forward,
                                             .backward = backward,
                                             .keep = VT_KEEP_X | VT_KEEP_Y};
