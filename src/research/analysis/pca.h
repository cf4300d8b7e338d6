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

size_t vt_pca_bytes(size_t d);
/* Of the rows of x [n, d], n >= 2. vt_pca_close. */
vt_status vt_pca_open(vt_pca *p, const double *x, size_t n, size_t d, vt_err *e);
void vt_pca_close(vt_pca *p); /* accepts a zeroed one */
/* y [k, n]: coordinates along the first k axes. */
void vt_pca_project(double *y, int k, const vt_pca *p, const double *x, size_t n);
/* Of the whole variance along the first k axes; NaN where there is none. */
double vt_pca_share(const vt_pca *p, size_t k);
