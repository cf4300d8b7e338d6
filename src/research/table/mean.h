/* SPDX-License-Identifier: MIT */
/* Student's t, and means over the seeds of a table's cells. */
#pragma once

/* P(|T| >= |t|) of Student's t with df >= 1 degrees of freedom, by the finite sums that whole df have (Abramowitz and
 * Stegun 1964, 26.7.3 and 26.7.4), absolute error below 1e-14; NaN for NaN. */
double vt_student_two_sided(double t, int df);
/* The t of Student's distribution with df >= 1 for which P(|T| >= t) = alpha. */
double vt_student_quantile(double alpha, int df);

/* Mean of x [n], its 95 % t interval, and the two-sided p of "the mean is 0". n = 1: the interval is (-inf, inf), p
 * 1; n = 0: the mean is NaN. least: the standard deviation is taken to be no smaller, so that values which agree by
 * rounding prove nothing. */
void vt_mean_interval(const double *x, int n, double least, double *mean, double *low, double *high, double *p);
