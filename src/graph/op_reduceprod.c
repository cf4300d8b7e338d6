/* SPDX-License-Identifier: MIT */
/* Product. */
#include "graph/reduce.h"

static real reduce_row(const real *x, size_t n) {
    real y = 1;
    for (size_t i = 0; i < n; i++) y *= x[i];
    return y;
}

static void add_gradient(real *dx, real dy, const real *x, real y, size_t n) {
    (void)y;
    for (size_t i = 0; i < n; i++) {
        real others = dy;
        for (size_t k = 0; k < n; k++) others *= k == i ? 1 : x[k];
        dx[i] += others;
    }
}

VT_REDUCE(reduceprod, "ReduceProd", VT_KEEP_X, reduce_row, add_gradient)
