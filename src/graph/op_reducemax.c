/* SPDX-License-Identifier: MIT */
/* The largest; equal ones share the gradient, as in PyTorch. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real y = x[0];
    for (size_t i = 1; i < n; i++) y = x[i] > y ? x[i] : y;
    return y;
}

VT_REDUCE(reducemax, "ReduceMax", VT_KEEP_X | VT_KEEP_Y, reduce_row, VT_R(vt_share_gradient))
