/* SPDX-License-Identifier: MIT */
/* What the gradient checks of src/nn share. */
#ifndef NN_BENCH_H
#define NN_BENCH_H

#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

/* Second call of a gradient that accumulates: twice the first one, up to rounding of sums in another order.
 */
static inline void is_double(const double *twice, const double *once, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        t_le(fabs(twice[i] - 2 * once[i]), 1e-13 * (1 + fabs(once[i])), "%s accumulates [%zu]", what, i);
}

static inline void zero(double *p, size_t n) { memset(p, 0, n * sizeof *p); }

#endif
