/* SPDX-License-Identifier: MIT */
/* Linear regions of a hidden ReLU layer: into how many cells n hyperplanes w_i x + b_i = 0 cut R^s. UAM's Theorem 3
 * compares lower bounds of the largest possible number, floor(n / s)^s; that number itself is known for one layer with
 * biases, sum over j <= s of C(n, j) (Zaslavsky 1975), attained in general position. */
#pragma once

#include "base/status.h"

/* log10 of floor(n / s)^s, -infinity where it is zero; and of sum over j <= s of C(n, j). */
double vt_regions_lower(int n, int s);
double vt_regions_most(int n, int s);
/* The least n (a real number) at which (n / p)^p >= (n / s)^s, p > s: UAM's condition for Theorem 3 to speak. */
double vt_regions_condition(int p, int s);

/* Cells of an arrangement w [n, s], b [n], by deletion and restriction: hyperplane i adds as many cells as the earlier
 * ones cut itself into. Parallel and equal hyperplanes, zero rows and inputs that no row reads are all right; numbers
 * below 1e-9 of a row's largest count as zero. n at most 24, s at most 8. */
vt_status vt_regions_count(long long *cells, const double *w, const double *b, int n, int s, vt_err *e);

/* The same in the plane (s = 2) by another way: a square that holds every crossing is cut into polygons, line by line.
 * For tests and for the lab, which shows both. */
vt_status vt_regions_cut(long long *cells, const double *w, const double *b, int n, vt_err *e);
