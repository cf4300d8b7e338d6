/* SPDX-License-Identifier: MIT */
#include "research/table/mean.h"

#include <math.h>

/* P(|T| <= t), t >= 0: odd df 2/pi (a + sin a (cos a + 2/3 cos^3 a + ...)), even sin a (1 + 1/2 cos^2 a + 3/8 cos^4 a
 * + ...), where tan a = t / sqrt(df); the last power is df - 2. */
static double student_within(double t, int df) {
    double a = atan(t / sqrt(df)), c = cos(a), term = df % 2 ? c : 1, sum = 0;
    for (int power = df % 2; power <= df - 2; power += 2) {
        sum += term;
        term *= c * c * (power + 1) / (power + 2);
    }
    return df % 2 ? (a + sin(a) * sum) * 0.636619772367581343076 : sin(a) * sum;
}

double vt_student_two_sided(double t, int df) {
    return isnan(t) ? NAN : fmin(1, fmax(0, 1 - student_within(fabs(t), df)));
}

double vt_student_quantile(double alpha, int df) {
    double low = 0, high = 1;
    while (vt_student_two_sided(high, df) > alpha && high < 1e15) high *= 2;
    for (int i = 0; i < 200; i++) {
        double mid = (low + high) / 2;
        *(vt_student_two_sided(mid, df) > alpha ? &low : &high) = mid;
    }
    return (low + high) / 2;
}

void vt_mean_interval(const double *x, int n, double least, double *mean, double *low, double *high, double *p) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    *mean = n > 0 ? sum / n : NAN, *low = -INFINITY, *high = INFINITY, *p = 1;
    if (n < 2) return;
    for (int i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    double error = fmax(sqrt(squares / (n - 1)), least) / sqrt(n), half = vt_student_quantile(0.05, n - 1) * error;
    *low = *mean - half, *high = *mean + half;
    *p = error > 0 ? vt_student_two_sided(*mean / error, n - 1) : *mean == 0;
}
