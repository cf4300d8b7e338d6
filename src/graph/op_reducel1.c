/* SPDX-License-Identifier: MIT */
/* Sum of magnitudes. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real y = 0;
    for (size_t i = 0; i < n; i++) y += fabs(x[i]);
    return y;
}

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    (void)y;
    for (size_t i = 0; i < n; i++) dx[i] += x[i] > 0 ? dy : x[i] < 0 ? -dy : 0;
}

VT_REDUCE(reducel1, "ReduceL1", VT_KEEP_X, reduce_row, add_gradient)
