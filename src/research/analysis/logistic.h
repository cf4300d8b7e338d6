/* SPDX-License-Identifier: MIT */
/* Logistic regression with a quadratic penalty, to the end: the objective is strictly convex, so its one minimum is the
 * answer, by whatever way. Newton's method with LAPACK's Cholesky. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* The largest partial derivative that is called zero. */
#define VT_LOGISTIC_TOL 1e-10

/* Rows x [n, m], the last column 1 throughout: its weight is the bias, which is not penalised. */
typedef struct vt_logistic {
    const double *x;
    const bool *yes; /* [n]; both answers must occur */
    size_t n, m;
    double lambda; /* > 0 */
} vt_logistic;

/* Returns the bytes that vt_logistic_fit allocates for n rows of m columns. */
size_t vt_logistic_bytes(size_t n, size_t m);
/* w [m] minimises mean_i log(1 + exp(-+ x_i w)) + lambda/2 sum_{k < m - 1} w_k^2, minus for yes. *gradient: the
 * largest partial derivative left. VT_E_NUMERIC if it stays above VT_LOGISTIC_TOL. */
vt_status vt_logistic_fit(double *w, double *gradient, const vt_logistic *l, vt_err *e);
/* Returns the objective at w; gradient [m] or NULL. f [n]: left as sigmoid(x_i w) - answer. */
double vt_logistic_objective(double *gradient, double *f, const vt_logistic *l, const double *w);
