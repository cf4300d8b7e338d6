/* SPDX-License-Identifier: MIT */
/* Numbers in order. */
#pragma once

#include <stddef.h>

void vt_sort(double *v, size_t n); /* ascending; none may be NaN */
/* The middle one of n numbers, or the mean of the two in the middle; NaN of none. Leaves them in order. */
double vt_median(double *v, size_t n);
