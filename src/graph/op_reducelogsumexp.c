/* SPDX-License-Identifier: MIT */
/* Logarithm of the sum of e^x. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    if (isinf(most)) return most;
    for (size_t i = 0; i < n; i++) sum += exp(x[i] - most);
    return most + log(sum);
}

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    for (size_t i = 0; i < n; i++) dx[i] += dy * exp(x[i] - y);
}

VT_REDUCE(reducelogsumexp, "ReduceLogSumExp", VT_KEEP_X | VT_KEEP_Y, reduce_row, add_gradient)
