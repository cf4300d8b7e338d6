/* SPDX-License-Identifier: MIT */
/* Root of the sum of squares; its derivative at 0 is 0. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real y = 0;
    for (size_t i = 0; i < n; i++) y += x[i] * x[i];
    return sqrt(y);
}

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] += y > 0 ? dy * x[i] / y : 0;
}

VT_REDUCE(reducel2, "ReduceL2", VT_KEEP_X | VT_KEEP_Y, reduce_row, add_gradient)
