/* SPDX-License-Identifier: MIT */
/* Bounds on the Lipschitz constant of one head of dot-product attention, X -> softmax(scale Q K^T) V with Q = X W_Q^T +
 * b_Q (K, V likewise), in Frobenius norms (docs/analysis.md has the proofs' outlines). */
#pragma once

#include <stddef.h>
#include "base/status.h"

/* A head at a point X. */
typedef struct vt_head_at {
    int t, d, c;                   /* tokens, width of the head, width of X */
    double scale;                  /* on Q K^T: 1/sqrt(d) in networks, 1/sqrt(c) in SpecFormer's text */
    const double *x;               /* [t, c] */
    const double *q, *k, *v;       /* [t, d], row strides ldq, ldk, ldv */
    const double *p;               /* [t, ldp] */
    const double *w_q, *w_k, *w_v; /* [d, c] contiguous */
    const double *b_q;             /* [d] or NULL: the biases of k and v change no bound */
    int ldq, ldk, ldv, ldp;
} vt_head_at;

/* Norms of the weights alone: spectral norms of W_Q, W_K, W_V, of scale W_Q^T W_K, and |scale W_K^T b_Q|. */
typedef struct vt_head_norms {
    double q, k, v, qk, bias;
} vt_head_norms;
/* Computes the norms by LAPACK; VT_E_MEMORY or VT_E_NUMERIC. */
vt_status vt_head_norms_of(vt_head_norms *out, const vt_head_at *h, vt_err *e);

/* out = |P| |W_V| + max_i |V^T P_i K W_Q| scale + sqrt(max_i |V^T P_i V| |y_i|^2 * |sum_i P_i|) >= |J(X)|, P_i =
 * diag(p_i) - p_i p_i^T, y_i = scale W_K^T q_i: the value path, the query path (block diagonal) and the key path. */
vt_status vt_lipschitz_pointwise(double *out, const vt_head_at *h, const vt_head_norms *w, vt_err *e);
/* Bound on all points whose tokens have length at most r = max_i |x_i| + delta0, among them the Frobenius ball of
 * radius delta0 about X: |W_V| (sqrt(t) + r^2 |scale W_Q^T W_K| + r (|scale W_Q^T W_K| r + bias) sqrt(t/2)). */
double vt_lipschitz_closed(const vt_head_norms *w, int t, double r);
/* SpecFormer's Theorem 4.2 as printed: t (t + 1) (b + delta0)^2 |W_V| (|W_Q| |W_K| + 1), b >= |X|_F. It need not hold
 * if b + delta0 < 1 (vt_lipschitz_guaranteed). */
double vt_lipschitz_specformer(const vt_head_norms *w, int t, double b_plus_delta0);
static inline int vt_lipschitz_guaranteed(double b_plus_delta0) { return b_plus_delta0 >= 1; }

/* max over the t rows of |x_i|_2, x [t, c]. */
double vt_longest_row(const double *x, int t, int c);
