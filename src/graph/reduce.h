/* SPDX-License-Identifier: MIT */
/* Makes an operator that turns each row of numbers into one: the sides that are reduced are moved last before
 * (vt_import_reduce). */
#pragma once

#include <string.h>
#include <tgmath.h>
#include "graph/op.h"

#ifndef VT_GRAPH_ROWS
#define VT_GRAPH_ROWS
typedef struct vt_row_size {
    size_t rows, cols;
    double eps;   /* of normalisations */
    double scale; /* of Softmax's input; 0: 1 */
} vt_row_size;
#endif

/* Imports a reduction along `axes`: an attribute, or input 1; none: all sides, or a copy by noop_with_empty_axes. */
vt_status vt_import_reduce(vt_import *im, vt_err *e);
/* Sets *y to x with the sides in `reduced` last, in their order: for operators that work along some sides. */
vt_status vt_emit_last(vt_import *im, int x, const bool reduced[VT_RANK], int *y, vt_err *e);
/* Sets *y to op by name along the sides in `reduced`, one number a row; keep: they stay, of length 1. */
vt_status vt_emit_reduce(vt_import *im, const char *op, int x, const bool reduced[VT_RANK], bool keep, int *y,
                         vt_err *e);

/* Sets *y to op by name along the sides in `reduced`, which turns a row into a row: moved last and back. with eps, or
 * NULL. */
vt_status vt_emit_along(vt_import *im, const char *op, int x, const bool reduced[VT_RANK], const double *eps, int *y,
                        vt_err *e);
/* Imports a pool over all pixels of each channel: the reduction op along every side after the second. */
vt_status vt_import_pool_all(vt_import *im, const char *op, vt_err *e);
vt_status vt_import_rows(vt_import *im, vt_err *e); /* of Softmax and the like */

/* Adds dy to dx [n], shared by the elements of x that are y, for extremes: equal ones share the gradient, as in
 * PyTorch. */
static inline void VT_R(vt_share_gradient)(real *dx, real dy, const real *x, real y, size_t n) {
    size_t equal = 0;
    for (size_t i = 0; i < n; i++) equal += x[i] == y;
    for (size_t i = 0; i < n; i++)
        if (x[i] == y) dx[i] += dy / (real)equal;
}

/* row: the result of x [n]. rise(dx, dy, x, y, n): adds dy times its gradient to dx [n]. */
#define VT_REDUCE(id, name_, keep_, row, rise, ...)                                                                    \
    static void forward(const VT_R(vt_call) *c) {                                                                      \
        const vt_row_size *s = c->n->with;                                                                             \
        for (size_t r = 0; r < s->rows; r++) c->y[r] = row(c->x[0] + r * s->cols, s->cols);                            \
    }                                                                                                                  \
    static void backward(const VT_R(vt_call) *c) {                                                                     \
        const vt_row_size *s = c->n->with;                                                                             \
        if (!c->dx[0]) return;                                                                                         \
        if (!c->add[0]) memset(c->dx[0], 0, s->rows * s->cols * sizeof(real));                                         \
        for (size_t r = 0; r < s->rows; r++)                                                                           \
            rise(c->dx[0] + r * s->cols, c->dy[r], (keep_)&VT_KEEP_X ? c->x[0] + r * s->cols : NULL,                   \
                 (keep_)&VT_KEEP_Y ? c->y[r] : 0, s->cols);                                                            \
    }                                                                                                                  \
    extern const VT_R(vt_op) VT_R(vt_op_##id);                                                                         \
    const VT_R(vt_op) VT_R(vt_op_##id) = {.name = name_,                                                               \
                                          .import = vt_import_reduce,                                                  \
                                          .forward = forward,                                                          \
                                          .backward = backward,                                                        \
                                          .keep = keep_,                                                               \
                                          __VA_ARGS__};

/* Returns the sum of x [n], sixteen partial sums at a time. */
static inline real VT_R(vt_row_sum)(const real *x, size_t n) {
    real lane[16] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++) lane[k] += x[i + (size_t)k];
    for (; i < n; i++) lane[0] += x[i];
    for (int k = 0; k < 16; k++) sum += lane[k];
    return sum;
}
