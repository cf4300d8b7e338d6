/* SPDX-License-Identifier: MIT */
/* Principal components, from LAPACK's eigenvectors of the covariance. */
#pragma once

#include <stddef.h>
#include "base/status.h"

typedef struct vt_pca {
    size_t d;
    double *mean;   /* [d] */
    double *values; /* [d] variances along the axes (n - 1 in the denominator), largest first, none below 0 */
    double *axes;   /* [d, d] rows: unit vectors, the entry that is largest in absolute value positive */
} vt_pca;

/* Returns the bytes that vt_pca_open takes at most: LAPACK's copy, vectors and workspace are 4 d^2 numbers and little
 * more. */
size_t vt_pca_bytes(size_t d);
/* Components of the rows of x [n, d]; vt_pca_close frees them. VT_E_RANGE unless n >= 2; a failure leaves p closed. */
vt_status vt_pca_open(vt_pca *p, const double *x, size_t n, size_t d, vt_err *e);
/* Frees all; accepts a zeroed one. */
void vt_pca_close(vt_pca *p);
/* y [k, n]: coordinates of the rows of x [n, d], less the mean, along the first k axes. */
void vt_pca_project(double *y, int k, const vt_pca *p, const double *x, size_t n);
/* Share, 0 to 1, of the whole variance along the first k axes; NaN if there is no variance. */
double vt_pca_share(const vt_pca *p, size_t k);
