/* SPDX-License-Identifier: MIT */
/* The cone of arXiv 2410.14581 around the direction of an l_p-AttSVM, in which the paper's lemmas hold, and the sides
 * of those lemmas. Constants that the paper leaves open, or that could not be read, are ones that can be proved; they
 * are given here. With a = |W|_p, V = |W_mm|_p W / a, T_i the tokens of margin 1 ("support"), the rest "outside". */
#pragma once

#include "research/lab/attgd.h"

typedef struct vt_cone {
    double p;
    double norm;  /* |W_mm|_p */
    double delta; /* min{1/4, half of (margin - 1) of the nearest token outside}. Where T_i is not empty this is the
                     predecessors' form, min over t in T_i of (X_it - X_iu)^T W_mm z_i / 2; where it is empty that form
                     says nothing of sample i, and Lemma 19 needs this one */
    double mu;    /* W is in the cone when D_psi(W_mm / |W_mm|, W / a) <= mu; ours, by Lemma 13 and Hoelder: then every
                     difference of tokens changes by at most delta / 2 between V and W_mm */
    double far;   /* a / |W_mm| from which Lemma 20 holds with `least`; ours, by counting pairs of tokens */
    double least; /* its constant c */
    bool *held;   /* [n,t] t is in T_i */
} vt_cone;

/* Computes the cone of w_mm [d d]. alpha [n] must be locally optimal (Definition 3), or `least` is not positive.
 * VT_E_MEMORY; vt_cone_close frees it. */
vt_status vt_cone_open(vt_cone *c, const vt_att *a, const int *alpha, const double *w_mm, double p, vt_err *e);
/* Frees and zeroes it; accepts a zeroed one. */
void vt_cone_close(vt_cone *c);

/* w = `length` times a unit vector along w_mm / |w_mm|_p + r noise, r in 0 to 1 the largest found by bisection whose
 * directional divergence is at most mu. noise [size]: any. */
void vt_cone_member(double *w, const double *w_mm, const double *noise, size_t size, double p, double mu,
                    double length);

/* One un-normalised step and what Lemmas 21 to 27 say of it. Everything that holds the gradient or the loss is times
 * e^shift (vt_att_near), and eta is what the step multiplies that with: eta e^shift is the step size. */
typedef struct vt_onestep {
    double a, b;          /* |W(k)|_p, |W(k+1)|_p */
    double loss, next;    /* L(W(k)), L(W(k+1)), less the loss at the limit */
    double gw, gm;        /* <grad L, W(k)>, <grad L, W_mm / |W_mm|> */
    double excess;        /* D_{psi - eta L}(W(k+1), W(k)) */
    double moved;         /* <grad psi(W(k+1)) - grad psi(W(k)), W_mm / |W_mm|> */
    double pi;            /* Lemma 21: the least pi >= 0 with <grad L, W/a> >= (1 + pi) <grad L, W_mm/|W_mm|> */
    double slack;         /* what rounding may do to the sides below */
    double cost, bracket; /* Lemma 24: cost <= -eta gw; Lemma 27: moved >= bracket / (1 + pi) */
} vt_onestep;
/* Takes a step from w (left as it is) to next [d d] and sets all of *o. alpha [n]: the limit's tokens, as in
 * vt_att_near, whose loss and gradient it takes. w_mm NULL: gm, moved, pi, bracket are 0. VT_E_MEMORY. */
vt_status vt_att_onestep(vt_onestep *o, const vt_att *a, const double *w, double *next, const int *alpha,
                         const double *w_mm, double p, double eta, double shift, vt_err *e);
