/* SPDX-License-Identifier: MIT */
/* The largest eigenvalues of a symmetric operator that is known only by its products: Lanczos with full
 * reorthogonalisation (Golub and Van Loan, ch. 10), and Hutchinson's estimate of the trace. Made for Hessians, but
 * any y = A x in double will do. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "base/rand.h"
#include "base/status.h"

typedef struct vt_symmetric {
    size_t n;
    vt_status (*apply)(void *ctx, const double *x, double *y, vt_err *e); /* y = A x, both [n]; any failure ends it */
    void *ctx;
} vt_symmetric;

typedef struct vt_lanczos {
    int k;         /* eigenvalues wanted, at most n */
    int most;      /* products at most; 0: min(n, 4 k + 100) */
    double tol;    /* residual |A v - lambda v| wanted, relative to the largest |Ritz value|; the error of lambda is no
                      larger, and for an isolated one about its square */
    uint64_t seed; /* of the start vector */
} vt_lanczos;

typedef struct vt_lanczos_result {
    double *values, *residuals; /* [k], largest first; |A v - lambda v| of each, by the recurrence */
    double *vectors;            /* [k][n], unit, or NULL: not wanted */
    double lowest;              /* smallest Ritz value: an upper bound of the smallest eigenvalue */
    int products;               /* spent */
    int converged;              /* how many of the k, from the largest on, reached tol */
} vt_lanczos_result;

/* Returns the bytes that vt_lanczos_run allocates for vectors of n numbers. */
size_t vt_lanczos_bytes(size_t n, const vt_lanczos *p);

/* Fills out's arrays, which the caller gives: values and residuals [k], and vectors [k, n] or NULL. Running out of
 * products is no failure: see `converged`. One start vector sees one direction of a multiple eigenvalue's space; its
 * further copies are certain to be found only if the recurrence vanishes and restarts at right angles, as it does if
 * few values are different. VT_E_RANGE for wrong numbers, VT_E_NUMERIC if a product is not finite; a failure of apply
 * ends it. */
vt_status vt_lanczos_run(vt_lanczos_result *out, const vt_symmetric *a, const vt_lanczos *p, vt_err *e);

/* Sum of a_i b_i by eight partial sums, always in the same order. */
double vt_dot(const double *a, const double *b, size_t n);
/* sqrt(vt_dot(a, a, n)) */
double vt_norm2(const double *a, size_t n);

/* z [n] of +1 and -1, a function of the key alone. */
void vt_random_signs(double *z, size_t n, const vt_rng *key);

/* Sets *trace to the mean of z^T A z over `samples` vectors of random signs, and *error to that mean's standard error
 * (NaN for one sample). For a diagonal A both are exact. VT_E_RANGE, VT_E_MEMORY, or VT_E_NUMERIC if a product is not
 * finite. */
vt_status vt_hutchinson_trace(double *trace, double *error, const vt_symmetric *a, int samples, uint64_t seed,
                              vt_err *e);

/* y = D A D x: A in relative coordinates, theta -> theta (1 + delta), where d holds |theta|. No change of scale that
 * leaves the function alone (theta -> T theta, T diagonal) moves its eigenvalues. scratch: [n]. */
typedef struct vt_relative {
    vt_symmetric inner;
    const double *d;
    double *scratch;
} vt_relative;
/* The product y = D A D x; borrows r. */
vt_symmetric vt_relative_operator(vt_relative *r);
