/* SPDX-License-Identifier: MIT */
/* Multi-head attention with a pluggable way to score tokens. The block projects to q, k, v and back; the room here
 * splits heads, multiplies values, mixes a positional map in (ConViT) and sums what tied projections share; a variant
 * (attn_*.c) supplies the probabilities, their adjoint and their tangent. The hook is on the probabilities, not on the
 * scores; v is passed because some divisors (LipschitzNorm) depend on it. */
#ifndef VT_MODELS_NET_ATTENTION_H /* tests include it in both precisions */
#define VT_MODELS_NET_ATTENTION_H

#include "linalg/products.h"
#include "base/real.h"
#include "models/attn.h"
#include "nn/nn.h"

/* Where q, k, v (or tangents of them) lie: row strides, and pointers to a whole batch's or to one head's. In a batch,
 * image i begins at row i*tq of q and i*t of k and v, head h at column h*d. */
typedef struct VT_R(vt_attn_in) {
    const real *q, *k, *v;
    int ldq, ldk, ldv;
} VT_R(vt_attn_in);

/* Where the gradients of q, k, v go, laid out as vt_attn_in. */
typedef struct VT_R(vt_attn_grad) {
    real *q, *k, *v;
    int ldq, ldk, ldv;
} VT_R(vt_attn_grad);

/* One head of one image. q [tq, d], k and v [t, d] with their row strides. */
typedef struct VT_R(vt_attn_head) {
    int tq, t, d, ldq, ldk, ldv, ldp, head; /* ldp: row stride of p, bias and mask */
    real scale;
    const real *q, *k, *v;
    const real *bias, *mask; /* [tq, t] added to the scaled scores, or NULL */
    real *dbias;             /* backward: [tq, t] accumulates, or NULL */
    const void *options;     /* the variant's option struct */
    const vt_products *by;   /* how its products are formed */
} VT_R(vt_attn_head);

typedef struct VT_R(vt_attn_ops) {
    const vt_attn *is;
    /* reals saved per head, beyond p; also forward's workspace */
    size_t (*saved_len)(int tq, int t, int d);
    /* p [tq, t] (stride ldp), rows sum to one; bias and mask are added after the variant's own scaling */
    void (*probs)(real *p, real *saved, const VT_R(vt_attn_head) *h);
    /* dp [tq, t] (may be overwritten) -> g; q and k overwritten, v accumulated (it already holds p^T do) */
    void (*dprobs)(const VT_R(vt_attn_grad) *g, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h);
    /* tp [tq, t]: the derivative of p along tangents t of q, k, v */
    void (*tprobs)(real *tp, const real *p, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t);
    /* With VT_ATTN_OWN_VALUES: u [t, d] (stride d) = values(v), called after probs; the adjoint, in place on
     * dv [t, d] (stride ld); the tangent of u. */
    void (*values)(real *u, real *saved, const VT_R(vt_attn_head) *h);
    void (*dvalues)(real *dv, int ld, const real *saved, const VT_R(vt_attn_head) *h);
    void (*tvalues)(real *tu, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t);
} VT_R(vt_attn_ops);

/* Of "name" or "name:options" (which are not looked at); NULL: unknown. */
const VT_R(vt_attn_ops) *VT_R(vt_attn_ops_find)(const char *text);

/* A loss of attention itself (attention_loss.h) as one block's backward sees it: a gradient that joins where attention
 * is differentiated. */
typedef struct VT_R(vt_attn_inject) {
    int key;           /* token; -1: nothing */
    const real *rows;  /* LOG: [t] d loss / d A[h][q][key], the same in every head; else NULL */
    const real *heads; /* SCORE: [heads] d loss / d (mean score of the head); else NULL */
    bool class_query, normalise;
} VT_R(vt_attn_inject);

/* What is computed. Every field behind `options` may be zero. */
typedef struct VT_R(vt_attn_shape) {
    const VT_R(vt_attn_ops) *def;
    int b, t, c, heads; /* images (or windows of all images), keys of each, width, heads */
    real scale;
    vt_attn_options options; /* a vt_attn_spec's */
    int tq;                  /* queries of an image, 0: t (class attention: 1) */
    real ortho;              /* backward: the loss has a term ortho * ||P^T P - I||_F^2 for every head */
    double ortho_value;      /* ... whose sum, without the factor, backward adds here */
    /* Score bias of a head [heads, tq, ldp] (Swin's relative positions) and of a window [windows, tq, ldp] (its shift
     * mask; image i is window i mod windows), ldp = vt_attn_ldp(t). NULL: none. */
    const real *bias, *mask;
    int windows;
    /* ConViT's gated positional attention (d'Ascoli et al. 2021, eq. 7): A = (1 - gate) P + gate pos, then rows divided
     * by their sum; pos [heads, tq, ldp], gate [heads] in [0, 1]. A is what p holds. NULL: none. */
    const real *pos, *gate;
    real *dbias, *dpos, *dgate;         /* backward: accumulate over images; NULL: not wanted */
    const vt_products *by;              /* how products are formed */
    const VT_R(vt_attn_inject) *inject; /* backward: what a loss of attention itself adds, or NULL */
} VT_R(vt_attn_shape);

/* Returns the reals of p for each image. */
size_t VT_R(vt_attn_p_len)(const VT_R(vt_attn_shape) *s);
/* Returns the reals of `saved` for each image. */
size_t VT_R(vt_attn_saved_len)(const VT_R(vt_attn_shape) *s);
/* Returns the reals of scratch that backward and jvp share for all images. Without tied projections and own values
 * 2*t*vt_attn_ldp(t) are enough when tq is 0. */
size_t VT_R(vt_attn_scratch_len)(const VT_R(vt_attn_shape) *s);

/* Computes o[b*tq, c] = concatenated heads P v (before the output projection); keeps p and saved, per image. */
void VT_R(vt_attn_forward)(real *o, real *p, real *saved, const VT_R(vt_attn_in) *in, const VT_R(vt_attn_shape) *s);
/* Computes the gradients of q, k, v from d_o [b*tq, c]. g: overwritten; if g->q is g->k (tied projections) it holds the
 * sum of both. Adds to s's ortho_value (if ortho > 0), dbias, dpos and dgate. */
void VT_R(vt_attn_backward)(const VT_R(vt_attn_grad) *g, real *scratch, const real *d_o, const real *p,
                            const real *saved, const VT_R(vt_attn_in) *in, VT_R(vt_attn_shape) *s);
/* Computes to[b*tq, c], the derivative of o along tangents of q, k, v, after a forward that kept p and saved. */
void VT_R(vt_attn_jvp)(real *to, real *scratch, const VT_R(vt_attn_in) *tangent, const real *p, const real *saved,
                       const VT_R(vt_attn_in) *in, const VT_R(vt_attn_shape) *s);

/* Returns what SCORE pulls at: (scale/tq) sum_q <q_q, k_key> of one head, over the queries that count, normalised when
 * `inject` says so. */
real VT_R(vt_attn_inject_score)(const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h);

/* ---- the full form of L2 attention (VT_ATTN_FULL), attn_l2.c ---- */

/* Kim et al. 2021: values X A_h W_V^h with A_h = W_Q^h W_Q^hT scale, that is q_h M_h. Legal without biases of q and v.
 * m [heads, d, d]: M_h = scale wq_h wv_h^T; wq, wv [heads*d, dim] as stored (out x in). Of the shape b, t, c, heads,
 * scale and `by` count. */
void VT_R(vt_attn_full_mix)(real *m, const real *wq, const real *wv, const VT_R(vt_attn_shape) *s, int dim);
/* Adds to dwq and dwv the gradients of wq and wv from dm, that of m. */
void VT_R(vt_attn_full_dmix)(real *dwq, real *dwv, const real *dm, const real *wq, const real *wv,
                             const VT_R(vt_attn_shape) *s, int dim);
/* Computes v [b*t, heads*d] = q_h M_h, rows ldv and ldq reals apart. Linear in q: tangents of q give v's. */
void VT_R(vt_attn_full_values)(real *v, int ldv, const real *q, int ldq, const real *m, const VT_R(vt_attn_shape) *s);
/* Adds to dq (which holds the part of the scores already) and dm (NULL: not wanted) the gradients from dv. */
void VT_R(vt_attn_full_dvalues)(real *dq, int lddq, real *dm, const real *dv, int lddv, const real *q, int ldq,
                                const real *m, const VT_R(vt_attn_shape) *s);

/* ---- for variants ---- */

/* Makes p, which holds unscaled scores, p = softmax(scale p + bias + mask). */
void VT_R(vt_attn_softmax)(real *p, real scale, const VT_R(vt_attn_head) *h);
/* Makes of dp the gradient of the unscaled scores, in place; adds to dbias. */
void VT_R(vt_attn_dsoftmax)(real *dp, const real *p, real scale, const VT_R(vt_attn_head) *h);
/* Makes of tp, which holds the tangent of the unscaled scores, that of p. */
void VT_R(vt_attn_tsoftmax)(real *tp, const real *p, real scale, const VT_R(vt_attn_head) *h);
/* Computes the scores s = Q K^T [tq, t], rows ldp apart. */
void VT_R(vt_attn_scores)(real *s, const VT_R(vt_attn_head) *h);
/* Computes dQ = dS K and dK = dS^T Q, which overwrite g's q and k; ds [tq, t]. */
void VT_R(vt_attn_dscores)(const VT_R(vt_attn_grad) *g, const real *ds, const VT_R(vt_attn_head) *h);
/* Computes the scores' tangent ts = tQ K^T + Q tK^T [tq, t] along tangents t of q and k. */
void VT_R(vt_attn_tscores)(real *ts, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t);

#endif
