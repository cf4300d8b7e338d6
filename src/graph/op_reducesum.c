/* SPDX-License-Identifier: MIT */
/* Sum. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) { return VT_R(vt_row_sum)(x, n); }

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    (void)x, (void)y;
    for (size_t i = 0; i < n; i++) dx[i] += dy;
}

VT_REDUCE(reducesum, "ReduceSum", 0, reduce_row, add_gradient)
