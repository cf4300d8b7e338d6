/* SPDX-License-Identifier: MIT */
/* The smallest; equal ones share the gradient, as in PyTorch. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real y = x[0];
    for (size_t i = 1; i < n; i++) y = x[i] < y ? x[i] : y;
    return y;
}

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    size_t equal = 0;
    for (size_t i = 0; i < n; i++) equal += x[i] == y;
    for (size_t i = 0; i < n; i++)
        if (x[i] == y) dx[i] += dy / (real)equal;
}

VT_REDUCE(reducemin, "ReduceMin", VT_KEEP_X | VT_KEEP_Y, reduce_row, add_gradient)
