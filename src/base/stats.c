/* SPDX-License-Identifier: MIT */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

/* For qsort: ascending numbers; NaN equals every number. */
static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void vt_sort(double *v, size_t n) { qsort(v, n, sizeof *v, compare_doubles); }

double vt_median(double *v, size_t n) {
    if (!n) return NAN;
    vt_sort(v, n);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void vt_wilson_at(int64_t count, int64_t total, double z, double *low, double *high) {
    *low = 0, *high = 1;
    if (total <= 0) return;
    double n = (double)total, p = (double)count / n, d = 1 + z * z / n;
    double centre = (p + z * z / (2 * n)) / d, half = z / d * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    if (count > 0) *low = fmax(0, centre - half); /* at the ends the exact value, not its rounding */
    if (count < total) *high = fmin(1, centre + half);
}

void vt_wilson(int64_t count, int64_t total, double *low, double *high) {
    vt_wilson_at(count, total, VT_Z_TWO_SIDED, low, high);
    *low *= 100, *high *= 100;
}

/* ---- McNemar ---- */

/* Returns ln Gamma(x), x > 0; thread-safe. */
static double log_gamma(double x) {
    int sign; /* lgamma would write a global */
    return lgamma_r(x, &sign);
}

/* Returns ln C(n, k); -infinity where there is no such choice. */
static double ln_choose(int64_t n, int64_t k) {
    if (k < 0 || k > n) return -INFINITY;
    return log_gamma((double)n + 1) - log_gamma((double)k + 1) - log_gamma((double)(n - k) + 1);
}

/* Returns P(X >= k), X ~ Binomial(n, p), for 0 < p <= k / n, where each term is smaller than the one before. */
static double at_least(int64_t n, int64_t k, double p) {
    double term = 1, sum = 0;
    for (int64_t i = k; i <= n && term > 1e-18 * sum; i++) {
        sum += term;
        term *= (double)(n - i) / (double)(i + 1) * (p / (1 - p));
    }
    return sum * exp(ln_choose(n, k) + (double)k * log(p) + (double)(n - k) * log1p(-p));
}

/* Of k hits in n the bound is the largest p with P(X >= k | p) <= alpha; the sum's rounding (binomial_mass) stays below
 * the 1e-8 that it is raised by. */
double vt_share_lower(int64_t count, int64_t total, double alpha) {
    if (count <= 0) return 0;
    double low = 0, high = count < total ? (double)count / (double)total : 1 - 0x1p-53;
    for (double p; (p = low + (high - low) / 2) > low && p < high;)
        if (at_least(total, count, p) * (1 + 1e-8) <= alpha)
            low = p;
        else
            high = p;
    return low;
}

double vt_normal_quantile(double p) {
    double low = 0, high = 40;
    for (double z; (z = low + (high - low) / 2) > low && z < high;)
        if (0.5 * erfc(z * 0.70710678118654752440) >= 1 - p)
            low = z;
        else
            high = z;
    return low;
}

/* Returns P(X = k), X ~ Binomial(n, 1/2). Relative error near 2^-53 n log n, of the logarithms: 1e-12 at n = 1000, 2e-8
 * at 10^7. */
static double binomial_mass(int64_t n, int64_t k) { return exp(ln_choose(n, k) - (double)n * 0.693147180559945309417); }

/* Returns P(X <= k), X ~ Binomial(n, 1/2): below the middle from the largest term down, each the last times i / (n - i
 * + 1). */
static double at_most(int64_t n, int64_t k) {
    if (k < 0) return 0;
    if (2 * k >= n) return 1 - at_most(n, n - k - 1);
    double term = 1, sum = 1;
    for (int64_t i = k; i > 0 && term > 1e-18 * sum; i--) {
        term *= (double)i / (double)(n - i + 1);
        sum += term;
    }
    return binomial_mass(n, k) * sum;
}

vt_mcnemar vt_mcnemar_exact(int64_t b, int64_t c) {
    int64_t n = b + c, s = b < c ? b : c;
    vt_mcnemar r = {.two_sided = 1, .mid_p = 1, .a_better = at_most(n, c), .b_better = at_most(n, b)};
    if (b == c) return r; /* the doubled p exceeds 1 */
    r.two_sided = fmin(1, 2 * at_most(n, s));
    r.mid_p = r.two_sided - binomial_mass(n, s);
    return r;
}

/* ---- paired difference ---- */

/* Returns Tango's statistic of the hypothesis B - A = d: (b - a - n d) over its standard deviation at the likeliest
 * shares that have this difference, of which q, right under A alone, solves 2n q^2 + (-a-b + (2n-b+a) d) q - a d (1-d)
 * = 0. */
static double tango_statistic(double a, double b, double n, double d) {
    double p = (2 * n - b + a) * d - a - b, c = -a * d * (1 - d);
    double root = sqrt(fmax(0, p * p - 8 * n * c));
    double q = p > 0 ? -2 * c / (p + root) : (root - p) / (4 * n); /* without cancellation */
    return (b - a - n * d) / sqrt(n * fmax(0, 2 * q + d * (1 - d)));
}

/* Returns the d in [low, high] at which the statistic, which falls with d, crosses `level`. */
static double find_crossing(double a, double b, double n, double level, double low, double high) {
    for (int i = 0; i < 200 && high > low; i++) {
        double mid = (low + high) / 2;
        if (mid == low || mid == high) break;
        if (tango_statistic(a, b, n, mid) > level)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

void vt_paired_interval(int64_t a, int64_t b, int64_t n, double z, double *low, double *high) {
    *low = -1, *high = 1;
    if (n <= 0) return;
    double d = (double)(b - a) / (double)n;
    if (a < n) *low = find_crossing((double)a, (double)b, (double)n, z, -1, d);
    if (b < n) *high = find_crossing((double)a, (double)b, (double)n, -z, d, 1);
}

/* ---- families and claims ---- */

/* adjusted = running maximum of min(1, (n - rank) p) in increasing order of p; quadratic, for tens of tests. */
void vt_holm(double *adjusted, const double *p, int n) {
    double running = 0;
    for (int i = 0; i < n; i++) adjusted[i] = -1; /* not ranked yet */
    for (int rank = 0; rank < n; rank++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (adjusted[i] < 0 && (best < 0 || isnan(p[best]) || p[i] < p[best])) best = i;
        running = fmax(running, isnan(p[best]) ? 1 : fmin(1, (n - rank) * p[best]));
        adjusted[best] = running;
    }
}

vt_claim_verdict vt_claim(double p_for, double p_against, double alpha) {
    if (p_for <= alpha) return VT_CLAIM_HELD;
    return p_against <= alpha ? VT_CLAIM_NOT : VT_CLAIM_UNDECIDED;
}

const char *vt_claim_name(vt_claim_verdict v) {
    static const char *const names[] =
        {[VT_CLAIM_UNDECIDED] = "undecided", [VT_CLAIM_HELD] = "held", [VT_CLAIM_NOT] = "not"};
    return names[v];
}

/* Returns P(X <= black), X the black ones of `drawn` balls out of `all` with k black; draws that cannot be add
 * nothing. */
static double hypergeometric_below(int64_t all, int64_t drawn, int64_t black, int64_t k) {
    double p = 0, whole = ln_choose(all, drawn);
    for (int64_t i = 0; i <= black; i++) p += exp(ln_choose(k, i) + ln_choose(all - k, drawn - i) - whole);
    return p;
}

int64_t vt_hypergeometric_upper(int64_t all, int64_t drawn, int64_t black, double alpha) {
    int64_t lo = black, hi = all - drawn + black; /* the bound lies in [lo, hi]; P falls as k grows */
    while (lo < hi) {
        int64_t mid = lo + (hi - lo + 1) / 2;
        /* a level met exactly (1/20 of one draw from 20) must not hang on rounding: it counts as not refuted */
        if (hypergeometric_below(all, drawn, black, mid) > alpha * (1 - 1e-9))
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

int64_t vt_sample_size(int64_t all, int64_t drawn, int *sizes) {
    int64_t best = 0, last = 0;
    *sizes = 0;
    for (double share = (double)all; all > 0 && last != 1; share *= 0.8) {
        const int64_t size = (int64_t)ceil(share);
        if (size == last) continue;
        if (size <= drawn && !best) best = size;
        last = size, ++*sizes;
    }
    return best;
}
