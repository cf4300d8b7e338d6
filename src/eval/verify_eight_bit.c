/* SPDX-License-Identifier: MIT */
/* The judge of the 8-bit threat: levels read off the stored floats, distances in whole numbers. */
#include <stdlib.h>
#include "eval/verify.h"

/* The level whose float32 image this is, exactly; -1: none. */
static int level_of(float v) {
    if (!(v >= 0 && v <= 1)) return -1;
    int k = (int)((double)v * 255 + 0.5);
    return (float)k / 255.0f == v ? k : -1;
}

/* eps in levels is a rounded product: 255 * (8/255) may come out as 8 less an ulp. Sums are whole numbers far below
 * 1e12, so that the allowance lets in no point but those on the border itself. */
static bool is_within_bound(long long sum, double bound) { return (double)sum <= bound + 1e-12 * bound; }

void vt_verify_eight_bit(vt_verdict *v, const float *x, const float *x_adv, size_t n, vt_norm norm, double eps) {
    long long largest = 0, sum = 0, squares = 0;
    bool grid = true;
    for (size_t i = 0; i < n; i++) {
        int from = level_of(x[i]), to = level_of(x_adv[i]);
        long long d = llabs((long long)to - from);
        grid = grid && from >= 0 && to >= 0;
        largest = d > largest ? d : largest;
        sum += d, squares += d * d;
    }
    double levels = 255 * eps;
    bool near = norm == VT_LINF ? is_within_bound(largest, levels)
                : norm == VT_L2 ? is_within_bound(squares, levels * levels)
                                : is_within_bound(sum, levels);
    if (grid && near) return;
    v->inside = v->broken = v->borderline = false;
}
