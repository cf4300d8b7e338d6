/* SPDX-License-Identifier: MIT */
/* The two-class head of the active test: a linear SVM with C = 1e6 on standardised features, by coordinate descent on
 * the dual (Hsieh et al. 2008, algorithm 1, with the bias as a constant feature). Plain, deterministic, and ends as
 * soon as the planted point lies on one side and all others on the other. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

#define COST 1e6
#define EPOCHS 2000

/* What float32 leaves of a feature: it was summed from others of the rows' size, `d` of them, each right to half of
 * FLT_EPSILON, and again in every block before; 8 bounds what all of these together were seen to make. */
static double feature_resolution(const float *x, size_t values, size_t d) {
    double s = 0;
    for (size_t i = 0; i < values; i++) s += (double)x[i] * (double)x[i];
    return 8 * FLT_EPSILON * sqrt((double)d) * sqrt(s / (double)values);
}

size_t vt_standardise(double *mean, double *inverse, const float *x, int n, size_t d) {
    double least = feature_resolution(x, (size_t)n * d, d);
    size_t taken = 0;
    for (size_t j = 0; j < d; j++) {
        double s = 0, s2 = 0;
        for (int i = 0; i < n; i++) s += (double)x[(size_t)i * d + j];
        mean[j] = s / n;
        for (int i = 0; i < n; i++)
            s2 += ((double)x[(size_t)i * d + j] - mean[j]) * ((double)x[(size_t)i * d + j] - mean[j]);
        double deviation = sqrt(s2 / n);
        inverse[j] = deviation > least ? 1 / deviation : 0;
        taken += deviation > least;
    }
    return taken;
}

/* gram [n, n] of the standardised rows, plus the constant feature */
static void compute_gram_matrix(double *gram, const float *x, const double *mean, const double *inverse, int n,
                                size_t d) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            double s = 1;
            for (size_t j = 0; j < d; j++)
                s += ((double)x[(size_t)i * d + j] - mean[j]) * ((double)x[(size_t)k * d + j] - mean[j]) * inverse[j] *
                     inverse[j];
            gram[i * n + k] = gram[k * n + i] = s;
        }
}

/* alpha [n], f [n] = decision values; false: not separated */
static bool solve_svm_dual(double *alpha, double *f, const double *gram, int n) {
    memset(alpha, 0, (size_t)n * sizeof *alpha);
    memset(f, 0, (size_t)n * sizeof *f);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double worst = 0;
        for (int i = 0; i < n; i++) {
            double y = i == n - 1 ? 1 : -1, slope = y * f[i] - 1;
            double next = fmin(fmax(alpha[i] - slope / gram[i * n + i], 0), COST), step = next - alpha[i];
            if (step == 0) continue;
            alpha[i] = next;
            for (int k = 0; k < n; k++) f[k] += step * y * gram[i * n + k];
            worst = fmax(worst, fabs(slope));
        }
        if (worst < 1e-3) break;
    }
    for (int i = 0; i < n - 1; i++)
        if (!(f[i] < f[n - 1])) return false;
    return f[n - 1] > 0;
}

bool vt_separate(double *w, double *b, const float *x, int n, size_t d, double *scratch) {
    double *gram = scratch, *alpha = gram + (size_t)n * (size_t)n, *f = alpha + n, *mean = f + n, *inverse = mean + d;
    if (!vt_standardise(mean, inverse, x, n, d)) return false;
    compute_gram_matrix(gram, x, mean, inverse, n, d);
    if (!solve_svm_dual(alpha, f, gram, n)) return false;
    memset(w, 0, d * sizeof *w);
    *b = 0;
    for (int i = 0; i < n; i++) {
        double a = i == n - 1 ? alpha[i] : -alpha[i];
        *b += a;
        for (size_t j = 0; a != 0 && j < d; j++) w[j] += a * ((double)x[(size_t)i * d + j] - mean[j]) * inverse[j];
    }
    for (size_t j = 0; j < d; j++) { /* w.(x - mean) inverse + b, as a function of x */
        w[j] *= inverse[j];
        *b -= w[j] * mean[j];
    }
    return true;
}
