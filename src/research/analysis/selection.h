/* SPDX-License-Identifier: MIT */
/* What rows of attention look like, and which token each selects: attention as a hard choice (the attention-SVM's
 * view), with a radius within which no move of the tokens can change it. */
#pragma once

#include "research/analysis/lipschitz.h"

/* Means over rows of A [t, ldp], and of the whole. */
typedef struct vt_attention_shape {
    double entropy;   /* -sum a log a, nats */
    double effective; /* exp of a row's entropy: tokens in use */
    double top;       /* sum of a row's k largest */
    double below;     /* share of entries below 1/t */
    double norm, gap; /* |A|_2, |A^T A - I|_F;  |A|_2^2 <= 1 + gap */
} vt_attention_shape;
/* Measures attention a [t, ldp] of one head; k tokens a row count for `top`. VT_E_MEMORY, or LAPACK's failure. */
vt_status vt_attention_shape_of(vt_attention_shape *out, const double *a, int t, int ldp, int k, vt_err *e);

/* The choice of query i. */
typedef struct vt_selection {
    int token;     /* alpha: of the largest score s_it = scale <q_i, k_t> */
    double margin; /* min over t of s_i,alpha - s_it; INFINITY for one token */
    double radius; /* alpha stays while every token moves by less at the layer's input */
} vt_selection;

/* out [t]: the choices of all queries of a head. qk: |scale W_Q^T W_K| (vt_head_norms). The radius solves m = b eps +
 * c eps^2 with b = 2 |scale W_K^T q_i| + |scale W_Q^T (k_alpha - k_t)| and c = 2 qk, for the worst t. VT_E_MEMORY. */
vt_status vt_selections_of(vt_selection *out, const vt_head_at *h, double qk, vt_err *e);

/* (sum of |entry|^p)^(1/p) of scale W_Q^T W_K [c, c], by which margins are normalised. */
double vt_merged_norm(const vt_head_at *h, double p);
