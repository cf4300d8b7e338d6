/* SPDX-License-Identifier: MIT */
/* Row-wise softmax and its adjoint. */
#include <stdbool.h>
#include "nn/lanes.h"
#include "nn/nn.h"
#include "nn/vecmath.h"

/* Past this size neighbouring numbers are 1 apart or more. The multiply-adds below do not round scale s_j, as their
 * `top` was: what is 0 for the largest score may then be half such a gap, and at 128 (floats near 2^31) its exponential
 * is infinite, or, with all others, 0. */
#ifdef VT_DOUBLE
#define HUGE_SCORE 0x1p53
#else
#define HUGE_SCORE 0x1p24f
#endif

/* p_j = exp(scale (s_j - best)) / sum: nothing to round before the difference, and no exponent above 0. */
static void huge_row(real *p, const real *s, real scale, int n) {
    real best = s[0], total = 0;
    for (int j = 1; j < n; j++) best = (scale > 0 ? s[j] > best : s[j] < best) ? s[j] : best;
    for (int j = 0; j < n; j++) total += p[j] = vt_exp(scale * (s[j] - best));
    for (int j = 0; j < n; j++) p[j] /= total;
}

static bool is_huge(real top) { return top >= HUGE_SCORE || top <= -HUGE_SCORE; }

/* p_j = exp(scale s_j - max) / sum */
#ifdef VT_DOUBLE
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *si = s + (size_t)i * (size_t)ld;
        real *pi = p + (size_t)i * (size_t)ld, top = scale * si[0], total = 0;
        for (int j = 1; j < n; j++) top = scale * si[j] > top ? scale * si[j] : top;
        if (is_huge(top)) {
            huge_row(pi, si, scale, n);
            continue;
        }
        for (int j = 0; j < n; j++) total += pi[j] = vt_exp(scale * si[j] - top);
        for (int j = 0; j < n; j++) pi[j] /= total;
    }
}
#else
/* Rows of 65 or 197 are short: sixteen lanes at a time, the rest of a row in a padded copy, and sums by halves, or the
 * chains of scalar operations at a row's end would cost more than the row. */
void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    int full = n / 16 * 16, rest = n - full;
    for (int i = 0; i < m; i++) {
        const float *si = s + (size_t)i * (size_t)ld;
        float *pi = p + (size_t)i * (size_t)ld, end[16];
        for (int l = 0; l < 16; l++) end[l] = l < rest ? scale * si[full + l] : -INFINITY;
        vt_lanes tail = vt_lanes_load(end), top = tail;
        for (int j = 0; j < full; j += 16) top = vt_lanes_max(vt_lanes_times(vt_lanes_load(si + j), scale), top);
        float most = vt_lanes_largest(top);
        if (is_huge(most)) {
            huge_row(pi, si, scale, n);
            continue;
        }
        tail = vt_lanes_exp(vt_lanes_less(tail, most));
        vt_lanes sum = tail;
        for (int j = 0; j < full; j += 16) {
            vt_lanes v = vt_lanes_exp(vt_lanes_times_less(vt_lanes_load(si + j), scale, most));
            vt_lanes_store(pi + j, v);
            sum = vt_lanes_add(sum, v);
        }
        float inv = 1 / vt_lanes_sum(sum);
        for (int j = 0; j < full; j += 16) vt_lanes_store(pi + j, vt_lanes_times(vt_lanes_load(pi + j), inv));
        vt_lanes_store(end, vt_lanes_times(tail, inv));
        for (int l = 0; l < rest; l++) pi[full + l] = end[l];
    }
}
#endif

/* dL/ds_j = scale p_j (dp_j - sum_k p_k dp_k) */
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *pi = p + (size_t)i * (size_t)ld, *gi = dp + (size_t)i * (size_t)ld;
        real *oi = ds + (size_t)i * (size_t)ld;
        real lane[16] = {0}, dot = 0;
        int j = 0;
        for (; j + 16 <= n; j += 16)
            for (int l = 0; l < 16; l++) lane[l] += pi[j + l] * gi[j + l];
        for (; j < n; j++) lane[0] += pi[j] * gi[j];
        for (int l = 0; l < 16; l++) dot += lane[l];
        for (j = 0; j < n; j++) oi[j] = scale * pi[j] * (gi[j] - dot);
    }
}
