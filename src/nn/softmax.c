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

/* p_j = exp(scale (s_j - best)) / sum of one row: nothing to round before the difference, and no exponent above 0. */
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
/* Rows of 65 or 197 are short: sixteen lanes at a time, the rest of a row as one of them, and sums by halves, or the
 * chains of scalar operations at a row's end would cost more than the row; and some rows at once, pass by pass, so that
 * none waits for another's. */
enum { AT_ONCE = 8 };

typedef struct rows {
    int m, n, ld, full, rest; /* n = full + rest, 0 < rest <= 16 */
    float scale, most[AT_ONCE], inverse[AT_ONCE];
} rows;

/* Sets r->most, the largest scaled score of each row. */
static void find_row_maxima(rows *r, const float *s) {
    for (int i = 0; i < r->m; i++, s += r->ld) {
        vt_lanes top = vt_lanes_times(vt_lanes_load_some(s + r->full, r->rest), r->scale);
        top = vt_lanes_first(top, r->rest, -INFINITY);
        for (int j = 0; j < r->full; j += 16) top = vt_lanes_max(vt_lanes_times(vt_lanes_load(s + j), r->scale), top);
        r->most[i] = vt_lanes_largest(top);
    }
}

/* Sets p to exp(scaled score - r->most), and r->inverse to 1 / the sum of each row. */
static void exponentiate_rows(rows *r, float *p, const float *s) {
    for (int i = 0; i < r->m; i++, s += r->ld, p += r->ld) {
        vt_lanes end = vt_lanes_times_less(vt_lanes_load_some(s + r->full, r->rest), r->scale, r->most[i]);
        end = vt_lanes_exp(vt_lanes_first(end, r->rest, -INFINITY));
        vt_lanes sum = end;
        for (int j = 0; j < r->full; j += 16) {
            vt_lanes v = vt_lanes_exp(vt_lanes_times_less(vt_lanes_load(s + j), r->scale, r->most[i]));
            vt_lanes_store(p + j, v);
            sum = vt_lanes_add(sum, v);
        }
        vt_lanes_store_some(p + r->full, end, r->rest);
        r->inverse[i] = 1 / vt_lanes_sum(sum);
    }
}

/* Multiplies each row of p by r->inverse. */
static void normalize_rows(const rows *r, float *p) {
    for (int i = 0; i < r->m; i++, p += r->ld) {
        for (int j = 0; j < r->full; j += 16)
            vt_lanes_store(p + j, vt_lanes_times(vt_lanes_load(p + j), r->inverse[i]));
        vt_lanes end = vt_lanes_times(vt_lanes_load_some(p + r->full, r->rest), r->inverse[i]);
        vt_lanes_store_some(p + r->full, end, r->rest);
    }
}

/* Computes the softmax of each row alone, where one of them has huge scores; needs most. */
static void one_by_one(const rows *all, float *p, const float *s) {
    for (int i = 0; i < all->m; i++, p += all->ld, s += all->ld) {
        rows one = *all;
        one.m = 1, one.most[0] = all->most[i];
        if (is_huge(all->most[i])) {
            huge_row(p, s, all->scale, all->n);
        } else {
            exponentiate_rows(&one, p, s);
            normalize_rows(&one, p);
        }
    }
}

void VT_R(vt_softmax_forward)(real *p, const real *s, real scale, int m, int n, int ld) {
    rows r = {.n = n, .ld = ld, .full = (n - 1) / 16 * 16, .scale = scale};
    r.rest = n - r.full;
    for (int from = 0; from < m; from += AT_ONCE, p += AT_ONCE * ld, s += AT_ONCE * ld) {
        bool huge = false;
        r.m = m - from < AT_ONCE ? m - from : AT_ONCE;
        find_row_maxima(&r, s);
        for (int i = 0; i < r.m; i++) huge = huge || is_huge(r.most[i]);
        if (huge) {
            one_by_one(&r, p, s);
            continue;
        }
        exponentiate_rows(&r, p, s);
        normalize_rows(&r, p);
    }
}
#endif

/* dL/ds_j = scale p_j (dp_j - sum_k p_k dp_k) */
#ifdef VT_DOUBLE
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld) {
    for (int i = 0; i < m; i++) {
        const real *pi = p + (size_t)i * (size_t)ld, *gi = dp + (size_t)i * (size_t)ld;
        real *oi = ds + (size_t)i * (size_t)ld, dot = 0;
        for (int j = 0; j < n; j++) dot += pi[j] * gi[j];
        for (int j = 0; j < n; j++) oi[j] = scale * pi[j] * (gi[j] - dot);
    }
}
#else
void VT_R(vt_softmax_backward)(real *ds, const real *dp, const real *p, real scale, int m, int n, int ld) {
    int full = (n - 1) / 16 * 16, rest = n - full;
    for (int i = 0; i < m; i++) {
        const float *pi = p + (size_t)i * (size_t)ld, *gi = dp + (size_t)i * (size_t)ld;
        float *oi = ds + (size_t)i * (size_t)ld;
        vt_lanes end = vt_lanes_load_some(pi + full, rest), given = vt_lanes_load_some(gi + full, rest);
        vt_lanes sum = vt_lanes_product(end, given);
        for (int j = 0; j < full; j += 16)
            sum = vt_lanes_product_add(vt_lanes_load(pi + j), vt_lanes_load(gi + j), sum);
        float dot = vt_lanes_sum(sum);
        for (int j = 0; j < full; j += 16)
            vt_lanes_store(oi + j, vt_lanes_product(vt_lanes_times(vt_lanes_load(pi + j), scale),
                                                    vt_lanes_less(vt_lanes_load(gi + j), dot)));
        end = vt_lanes_product(vt_lanes_times(end, scale), vt_lanes_less(given, dot));
        vt_lanes_store_some(oi + full, end, rest);
    }
}
#endif
