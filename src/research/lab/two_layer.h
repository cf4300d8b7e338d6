/* SPDX-License-Identifier: MIT */
/* The networks of "Understanding Attention Mechanisms" (UAM): two layers, alone or after a global mask or
 * self-attention.
 *     plain     f = W2 phi(W1 x + b1) + b2
 *     mask      x o a in x's place (eq. 1)
 *     simplex   the same with a = in softmax(s): the mask of Corollary 1, ||a||_1 = 1, times the constant `in`, which
 *               Theorem 4 lets W1 swallow; so it starts at x itself, as `mask` does
 *     known     a as in `mask`, but given and fixed: no gradient reaches it (Proposition 1)
 *     self      vec(softmax(Q K^T / sqrt(d)) V) in x's place, Q = X W_Q and so on, X [tokens, in / tokens] (eqs. 2, 3)
 * Biases on both layers: 256-128-10 has the paper's 34,186 parameters, and 34,442 with a mask. Loss, gradient by
 * parameters and inputs, and the Hessian's products by the R-operator (Pearlmutter 1994): finite differences of the
 * gradient are useless across ReLU's kinks. Compiled for float and double. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/real.h"

typedef enum vt_front { VT_FRONT_PLAIN, VT_FRONT_MASK, VT_FRONT_SIMPLEX, VT_FRONT_SELF, VT_FRONT_KNOWN } vt_front;
typedef enum vt_two_layer_fit {
    VT_FIT_SQUARES, /* 1/2 |f - y|^2, eq. 4 */
    VT_FIT_CLASSES  /* cross-entropy of softmax(f) with y, a distribution */
} vt_two_layer_fit;

typedef struct vt_two_layer {
    vt_front front;
    int in, hidden, out;
    int tokens, d; /* self: rows of X; width of queries, keys and values */
    double tau;    /* phi(h) = log(1 + exp(tau h)) / tau, as the paper's theory has it; 0: ReLU */
    vt_two_layer_fit fit;
} vt_two_layer;

/* theta: the front's (a [in], of `known` too; s [in]; W_Q, W_K, W_V, each [in / tokens, d]), W1 [hidden, features], b1,
 * W2 [out, hidden], b2, one after the other. */
typedef enum vt_tensor { VT_AT_FRONT, VT_AT_W1, VT_AT_B1, VT_AT_W2, VT_AT_B2, VT_AT_END } vt_tensor;

/* Whether the front multiplies x by a mask: mask, simplex or known. */
static inline bool vt_two_layer_masked(const vt_two_layer *n) {
    return n->front == VT_FRONT_MASK || n->front == VT_FRONT_SIMPLEX || n->front == VT_FRONT_KNOWN;
}

/* Inputs of the first layer: tokens * d for self-attention, else `in`. */
static inline int vt_two_layer_features(const vt_two_layer *n) {
    return n->front == VT_FRONT_SELF ? n->tokens * n->d : n->in;
}

/* Where a tensor begins in theta, in numbers; VT_AT_END: the number of parameters. */
static inline size_t vt_two_layer_at(const vt_two_layer *n, vt_tensor t) {
    size_t hidden = (size_t)n->hidden, in = (size_t)n->in, at = 0;
    if (t > VT_AT_FRONT && n->front == VT_FRONT_SELF) at += 3 * in / (size_t)n->tokens * (size_t)n->d;
    if (t > VT_AT_FRONT && vt_two_layer_masked(n)) at += in;
    if (t > VT_AT_W1) at += hidden * (size_t)vt_two_layer_features(n);
    if (t > VT_AT_B1) at += hidden;
    if (t > VT_AT_W2) at += (size_t)n->out * hidden;
    if (t > VT_AT_B2) at += (size_t)n->out;
    return at;
}

/* Numbers in a tensor of theta. */
static inline size_t vt_two_layer_size(const vt_two_layer *n, vt_tensor t) {
    return vt_two_layer_at(n, (vt_tensor)(t + 1)) - vt_two_layer_at(n, t);
}

/* theta [parameters]: He's normals for W1 and W2 (times scale), Glorot's for the self-attention, zero biases, a mask
 * that lets all through; keyed by (seed, run). */
void VT_R(vt_two_layer_init)(real *theta, const vt_two_layer *n, double scale, uint64_t seed, uint32_t run);

/* Numbers of scratch for a batch's loss and gradient; hessian: for vt_two_layer_hessian too. */
size_t VT_R(vt_two_layer_work)(const vt_two_layer *n, int batch, int hessian);

/* Returns the mean loss of a batch x [batch, in], y [batch, out]; overwrites grad [parameters], dx [batch, in] and f
 * [batch, out], each or NULL. y NULL: f alone, returns 0. work: of vt_two_layer_work. */
double VT_R(vt_two_layer_loss)(real *grad, real *dx, real *f, const real *x, const real *y, const real *theta,
                               int batch, const vt_two_layer *n, real *work);

/* hv = (Hessian of the mean loss) v, both [parameters]; exact away from kinks. work: with hessian. */
void VT_R(vt_two_layer_hessian)(real *hv, const real *v, const real *x, const real *y, const real *theta, int batch,
                                const vt_two_layer *n, real *work);

/* m [in]: the mask that multiplies x: 1, a, or in softmax(s). Not for `self`. */
void VT_R(vt_two_layer_mask)(real *m, const real *theta, const vt_two_layer *n);

/* ---- the double copy, for files that are compiled once ---- */

/* vt_two_layer_init for theta in double: normals, zero biases, an open mask. */
void vt_two_layer_init_f64(double *theta, const vt_two_layer *n, double scale, uint64_t seed, uint32_t run);
/* vt_two_layer_work: doubles of scratch for a batch; hessian: for products with the Hessian too. */
size_t vt_two_layer_work_f64(const vt_two_layer *n, int batch, int hessian);
/* vt_two_layer_loss in double: the mean loss, and grad, dx and f, each or NULL. */
double vt_two_layer_loss_f64(double *grad, double *dx, double *f, const double *x, const double *y, const double *theta,
                             int batch, const vt_two_layer *n, double *work);
/* vt_two_layer_hessian in double: hv = (Hessian of the mean loss) v. */
void vt_two_layer_hessian_f64(double *hv, const double *v, const double *x, const double *y, const double *theta,
                              int batch, const vt_two_layer *n, double *work);
/* vt_two_layer_mask in double: m [in], the mask that multiplies x. */
void vt_two_layer_mask_f64(double *m, const double *theta, const vt_two_layer *n);
