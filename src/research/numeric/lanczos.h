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
    double *values, *residuals; /* [k], largest first; |A v - lambda v| of each, as the recurrence tells it */
    double *vectors;            /* [k][n], unit, or NULL: not wanted */
    double lowest;              /* smallest Ritz value: an upper bound of the smallest eigenvalue */
    int products;               /* spent */
    int converged;              /* how many of the k, from the largest on, reached tol */
} vt_lanczos_result;

/* Bytes that a run with these numbers allocates: for a caller to compare with the machine's. */
size_t vt_lanczos_bytes(size_t n, const vt_lanczos *p);

/* The caller gives values and residuals [k], and vectors or NULL. Running out of products is no failure: `converged`
 * tells. One start vector sees one direction of a multiple eigenvalue's space; its further copies are found for certain
 * only when the recurrence vanishes and starts again at right angles, as it does when few values are different. */
vt_status vt_lanczos_run(vt_lanczos_result *out, const vt_symmetric *a, const vt_lanczos *p, vt_err *e);

double vt_dot(const double *a, const double *b, size_t n); /* in one order everywhere */
double vt_norm2(const double *a, size_t n);

/* z [n] of +1 and -1, a function of the key. */
void vt_random_signs(double *z, size_t n, const vt_rng *key);

/* trace(A) as the mean of z^T A z over `samples` vectors of random signs, and that mean's standard error (NaN for one
 * sample). For a diagonal A both are exact. */
vt_status vt_hutchinson_trace(double *trace, double *error, const vt_symmetric *a, int samples, uint64_t seed,
                              vt_err *e);

/* y = D A D x: A in relative coordinates, theta -> theta (1 + delta), where d holds |theta|. No change of scale that
 * leaves the function alone (theta -> T theta, T diagonal) moves its eigenvalues. scratch: [n]. */
typedef struct vt_relative {
    vt_symmetric inner;
    const double *d;
    double *scratch;
} vt_relative;
vt_symmetric vt_relative_operator(vt_relative *r); /* borrows r */
