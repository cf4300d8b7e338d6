/* SPDX-License-Identifier: MIT */
#include "base/sort.h"

#include <math.h>
#include <stdlib.h>

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
