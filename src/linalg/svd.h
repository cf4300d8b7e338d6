/* SPDX-License-Identifier: MIT */
/* Singular values, symmetric eigenvalues, positive definite systems: the only door to LAPACK. Exact (to rounding: an
 * error of a few units of 2^-53 times the largest one), for measuring; what a training step needs is a power iteration.
 * Allocates its own workspace. */
#pragma once

#include "base/status.h"

/* Computes all singular values of a row-major A [rows, cols] (row stride ld, only read), largest first: sigma
 * [min(rows, cols)]. VT_E_SHAPE: empty; VT_E_NUMERIC: NaN or Inf in it, or no convergence; VT_E_RANGE: too large. */
vt_status vt_svd_values(double *sigma, const double *a, int rows, int cols, int ld, vt_err *e);
/* Computes the largest singular value and its unit vectors, A v = sigma u: u [rows], v [cols], up to a common sign.
 * Fails as vt_svd_values. */
vt_status vt_svd_largest(double *sigma, double *u, double *v, const double *a, int rows, int cols, int ld, vt_err *e);

/* Computes all eigenvalues of a symmetric A [n, n] (row-major, only read; its lower triangle counts), largest first:
 * values [n]. vectors [n, n] or NULL: row i is the unit eigenvector of values[i], up to its sign. VT_E_RANGE: n above
 * 20000. */
vt_status vt_eigen_symmetric(double *values, double *vectors, const double *a, int n, vt_err *e);
/* Computes eigenvalues, and vectors or none, of a symmetric tridiagonal matrix as vt_eigen_symmetric does: diagonal
 * [n], beside [n - 1] (NULL if n is 1). */
vt_status vt_eigen_tridiagonal(double *values, double *vectors, const double *diagonal, const double *beside, int n,
                               vt_err *e);

/* Solves A x = b for a symmetric positive definite A [n, n] (row-major; its lower triangle counts; overwritten): x [n]
 * holds b and receives the solution. VT_E_NUMERIC: A is not positive definite, or NaN or Inf is in it or b. */
vt_status vt_solve_positive(double *x, double *a, int n, vt_err *e);
