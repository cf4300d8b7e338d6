/* SPDX-License-Identifier: MIT */
/* Linear regions of a hidden ReLU layer: into how many cells n hyperplanes w_i x + b_i = 0 cut R^s. UAM's Theorem 3
 * compares lower bounds of the largest possible number, floor(n / s)^s; that number itself is known for one layer with
 * biases, sum over j <= s of C(n, j) (Zaslavsky 1975), attained in general position. */
#pragma once

#include "base/status.h"

/* log10 of floor(n / s)^s, the lower bound for n units on s inputs; -infinity if it is zero. */
double vt_regions_lower(int n, int s);
/* log10 of sum over j <= s of C(n, j), the largest number of regions of n units on s inputs. */
double vt_regions_most(int n, int s);
/* The least n (a real number) at which (n / p)^p >= (n / s)^s, p > s: UAM's condition for Theorem 3 to apply. */
double vt_regions_condition(int p, int s);

/* Sets *cells to the number of cells of an arrangement w [n, s], b [n], by deletion and restriction: hyperplane i adds
 * as many cells as the earlier ones cut itself into. Parallel and equal hyperplanes, zero rows and inputs that no row
 * reads are allowed; numbers below 1e-9 of a row's largest count as zero. VT_E_RANGE unless n is at most 24 and s 1 to
 * 8. */
vt_status vt_regions_count(long long *cells, const double *w, const double *b, int n, int s, vt_err *e);

/* Sets *cells to the number of cells of n lines w [n, 2], b [n] in the plane, by another way than vt_regions_count: a
 * square that holds every crossing is cut into polygons, line by line. VT_E_RANGE for n above 24 or a zero row. For
 * tests and for the lab, which shows both. */
vt_status vt_regions_cut(long long *cells, const double *w, const double *b, int n, vt_err *e);
