/* SPDX-License-Identifier: MIT */
/* Largest singular value of a linear map that is only applied, never stored: power iteration on A^T A. What it returns
 * is |A v| of a unit v: never above the true norm. Small matrices that are stored go to LAPACK (linalg/svd). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/rand.h"
#include "base/status.h"

typedef struct vt_operator {
    size_t n, m;                                               /* A is m x n */
    void (*apply)(void *ctx, double *y, const double *x);      /* y [m] = A x */
    void (*transposed)(void *ctx, double *x, const double *y); /* x [n] = A^T y */
    void *ctx;
} vt_operator;

typedef struct vt_norm_found {
    double sigma;
    int steps;
    bool converged;
} vt_norm_found;

/* Power iteration from normals of `key`: out->sigma is never above the norm. Ends when the error that the last two
 * changes of sigma predict (a geometric series) is at most tol sigma, or after `most` steps, with converged false.
 * VT_E_NUMERIC if the map gives NaN or infinity. */
vt_status vt_operator_norm(vt_norm_found *out, const vt_operator *a, const vt_rng *key, int most, double tol,
                           vt_err *e);

/* Largest singular value of a stored matrix [rows, cols], row stride ld (LAPACK); 0 without rows or columns. */
vt_status vt_matrix_norm(double *sigma, const double *a, int rows, int cols, int ld, vt_err *e);
/* sqrt(sum of squares) of a [n], summed in index order. */
double vt_length64(const double *a, size_t n);
/* sum of a_i b_i, summed in index order. */
double vt_dot64(const double *a, const double *b, size_t n);
