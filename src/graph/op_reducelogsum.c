/* SPDX-License-Identifier: MIT */
/* Logarithm of the sum. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) { return log(VT_R(vt_row_sum)(x, n)); }

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    (void)x;
    for (size_t i = 0; i < n; i++) dx[i] += dy / exp(y);
}

VT_REDUCE(reducelogsum, "ReduceLogSum", VT_KEEP_Y, reduce_row, add_gradient)
