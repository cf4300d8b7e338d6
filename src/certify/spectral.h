/* SPDX-License-Identifier: MIT */
/* Certified upper bounds of largest singular values: no estimate from below, as a power iteration's is. By squares of
 * the Gram matrix (Delattre et al. 2023): |A|^2 = |G|, |G|^(2^k) = |G^(2^k)| <= its Frobenius norm. Each step's
 * rounding is added. */
#pragma once

#include "base/status.h"
#include "graph/conv.h"

/* Doubles of work that vt_norm_above needs. */
size_t vt_norm_above_work(int rows, int cols);
/* Returns a bound of the largest singular value of a [rows, cols] (row-major, row stride ld), above it by a factor of
 * at most min(rows, cols)^(1 / 2^(squarings + 2)) and rounding; not finite: so is a, or its squares overflow. */
double vt_norm_above(const double *a, int rows, int cols, int ld, int squarings, double *work);
/* Windows of side s that see the same pixel, at most. */
int64_t vt_windows_overlap(const vt_windows *w, int s);
/* Sets *out to a bound of the norm of a convolution with weights w [out, channels / groups, taps], whatever the sides
 * of its maps: the least of two, of the windows' matrix, and of its symbol at frequencies between which it is a
 * polynomial. */
vt_status vt_conv_norm_above(double *out, const vt_conv *p, const double *w, vt_err *e);
