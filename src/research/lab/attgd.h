/* SPDX-License-Identifier: MIT */
/* l_p mirror descent on one attention layer (Julistiono, Tarzanagh and Azizan, arXiv 2410.14581): the problem, its
 * loss and gradient, the step, and the quantities in which the paper states its lemmas. All in double.
 *
 * The problem: n samples of T tokens X_i [T,d], queries z_i [d], labels y_i = +-1, a decoder v [d]; attention s_i =
 * softmax(h_i), h_i = X_i W z_i; loss (1/n) sum_i log(1 + exp(-gamma_i^T s_i)) with the token scores gamma_i = y_i X_i
 * v. The potential is psi(w) = |w|_p^p / p, entrywise; q = p / (p - 1). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "base/status.h"

/* ---- l_p ---- */

/* out [n] = sgn(x) |x|^e, 0 at 0; in place is allowed. Without pow for the lab's usual exponents. */
void vt_lp_power(double *out, const double *x, size_t n, double e);
/* |x|_p of n numbers, without overflow of their powers; NaN if one is NaN. */
double vt_lp_norm(const double *x, size_t n, double p);
/* D_psi(u, w) = psi(u) - psi(w) - <grad psi(w), u - w> of vectors [n]. */
double vt_lp_bregman(const double *u, const double *w, size_t n, double p);
/* Divergence of directions, D_psi(u / |u|_p, w / |w|_p) = 1 - sum u_i sgn(w_i) |w_i|^(p-1) of unit vectors. */
double vt_lp_direction(const double *u, const double *w, size_t n, double p);
/* (sqrt(n) - |w|_1 / |w|_2) / (sqrt(n) - 1): 0 if all entries are equally large, 1 for a single one (Hoyer 2004). */
double vt_lp_sparsity(const double *w, size_t n);

/* ---- the problem ---- */

typedef struct vt_att {
    int n, t, d;
    double *x, *z, *y, *v; /* [n,t,d], [n,d], [n] of +-1, [d] */
    double *s;             /* [n,t] attention of the last loss or gradient */
    double *work;          /* scratch: one thread at a time */
} vt_att;
/* Allocates a problem whose numbers the caller fills in; VT_E_MEMORY. */
vt_status vt_att_open(vt_att *a, int n, int t, int d, vt_err *e);
/* Frees and zeroes it; accepts a zeroed one. */
void vt_att_close(vt_att *a);

/* The mean loss at w [d,d]; leaves its attention in a->s. */
double vt_att_loss(const vt_att *a, const double *w);
/* How the row s * (gamma - s^T gamma) of softmax's derivative is formed. PLAIN as automatic differentiation does it:
 * where the chosen token's s rounds to 1 its own share is lost. EXACT sums s_t s_u (gamma_t - gamma_u) and loses
 * nothing, down to the smallest double. */
typedef enum vt_att_form { VT_ATT_PLAIN, VT_ATT_EXACT } vt_att_form;
/* dw [d,d] = (1/n) sum_i l'(gamma_i^T s_i) X_i^T (diag(s_i) - s_i s_i^T) gamma_i z_i^T; dv [d] or NULL. Returns the
 * mean loss; leaves its attention in a->s. */
double vt_att_gradient(const vt_att *a, const double *w, vt_att_form form, double *dw, double *dv);
/* Loss and gradient near the limit in which all attention is on the tokens alpha [n], exact in the relative sense and
 * times e^shift, so that neither cancellation nor underflow hides them. Returns L(w) less the limit's loss; dw [d,d]
 * (may be NULL): the gradient. With shift 0 it is right anywhere; else all attention must be nearly on alpha. */
double vt_att_near(const vt_att *a, const double *w, const int *alpha, double shift, double *dw);
/* The score gamma_it = y_i X_it^T v of a token. */
double vt_att_score(const vt_att *a, int i, int t);
/* The token that sample i attends to most, by a->s; the first of equal ones. */
int vt_att_chosen(const vt_att *a, int i);

/* ---- descent ---- */

typedef struct vt_mirror {
    double p, eta;
    bool normalised; /* g / (|g|_q + floor) in g's place, as the paper's synthetic runs do */
    double floor;    /* 2.2e-16 in the released code */
} vt_mirror;
/* One step: theta [n] = grad psi(w) = sgn(w) |w|^(p-1) is the state, theta -= eta g, w = sgn(theta)
 * |theta|^(1/(p-1)). Returns |g|_q, or 0 if it is not normalised. A zero gradient moves nothing, without a floor too.
 */
double vt_mirror_step(const vt_mirror *m, double *theta, double *w, const double *g, size_t n);
