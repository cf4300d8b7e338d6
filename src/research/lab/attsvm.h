/* SPDX-License-Identifier: MIT */
/* The l_p support vector machine that l_p mirror descent on attention converges to in direction (l_p-AttSVM):
 *   W_mm = argmin |W|_p  subject to  (X_i,alpha_i - X_it)^T W z_i >= 1  for all t != alpha_i, all i,
 * and its parts: any rows a_j^T w >= 1 will do (for the decoder: y_i X_i,alpha_i^T v >= 1).
 *
 * Solved in the dual, max 1^T lambda - |A^T lambda|_q^q / q over lambda >= 0, one coordinate after the other, each to
 * its optimum; w = sgn(u) |u|^(q-1), u = A^T lambda. The gap between the two sides bounds the error without trust in
 * the way it was reached. p outside [1.05, 4] is refused: q near 1 leaves the ascent without curvature. */
#pragma once

#include "research/lab/attgd.h"

#define VT_SVM_LEAST_P 1.05
#define VT_SVM_MOST_P 4.0

typedef struct vt_svm {
    double norm;   /* |w|_p; the largest margin of a unit vector is 1 / norm */
    double margin; /* min_j a_j^T w before w was scaled to make it 1: how far from feasible the dual's w was */
    double gap;    /* (primal - dual) / primal >= 0 of the scaled, feasible w */
    int sweeps;
} vt_svm;

/* w [n] from rows a [m,n]; lambda [m] or NULL. VT_E_NUMERIC if no sweep makes w feasible or the gap ends above 1e-6,
 * VT_E_RANGE for p outside its bounds, VT_E_MEMORY. */
vt_status vt_svm_solve(double *w, double *lambda, vt_svm *out, const double *a, int m, int n, double p, vt_err *e);

/* The rows of the attention SVM for the tokens alpha [n]: a [n (t - 1), d d], (X_i,alpha_i - X_it) z_i^T. */
void vt_attsvm_rows(double *a, const vt_att *problem, const int *alpha);
/* Solves the attention SVM of a problem for the tokens alpha [n]: w [d,d]; fails as vt_svm_solve does. */
vt_status vt_attsvm(double *w, vt_svm *out, const vt_att *problem, const int *alpha, double p, vt_err *e);
