/* SPDX-License-Identifier: MIT */
/* A transformer block in parts that architectures share:
 *
 *   attention half   pre-norm   mid = x + f1 * proj(mix(norm1 x))       post-norm   mid = norm1(x + f1 * proj(mix x))
 *   MLP half                    y = mid + f2 * mlp(norm2 mid)                       y = norm2(mid + f2 * mlp mid)
 *   mlp(x) = fc2(act(fc1 x));  f1, f2: factors of each channel, or 1
 *
 * mix is a token mixer: multi-head attention (vt_mha) unless the architecture brings its own (gated positions, windows,
 * channels). An architecture fills a shape, plans caches and scratch, and calls the whole block, its halves, or the
 * smaller parts below. The tensors are models/vit.h's. */
#pragma once

#include "models/vit.h"
#include "models/net/session.h"
#include "nn/nn.h"

typedef struct VT_R(vt_token_mixer) VT_R(vt_token_mixer);

/* What a block is. attn.b is the number of sequences: images, or images times windows; attn.c the width of attention,
 * heads times head width. */
typedef struct VT_R(vt_block_shape) {
    VT_R(vt_attn_shape) attn;
    unsigned needs;                    /* VT_ATTN_*, what the variant's options ask for */
    const VT_R(vt_token_mixer) *mixer; /* NULL: vt_mha */
    const void *own;                   /* what the architecture's token mixer wants to know of this block */
    int qk_slot, v_slot;               /* vt_mha: tensors of q and k, of v, where they are two; 0: VT_SLOT_QKV_W */
    int dim, hidden;                   /* widths of the stream, of the MLP */
    int layer;                         /* of the parameter table */
    int index;                         /* among the model's attention blocks, for branch_open */
    int n_read; /* 0: all tokens; else the attention half ends with the first `n_read` tokens of each sequence, because
                 nothing later reads the others */
    double eps;
    vt_norm_kind norm;
    vt_act act;
    vt_factor factor;
    bool post_norm, tied_qk, qk_norm;
} VT_R(vt_block_shape);

/* The shape that a session's configuration gives all blocks of a ViT; b, n_read, layer and index are left 0. */
VT_R(vt_block_shape) VT_R(vt_block_of)(const VT_R(vt_session) *s);

/* Saved for backward, M = b t rows of all tokens, R rows after the attention (M, or b n_read), A the width of
 * attention. Pointers that a mode or form does not need are NULL. */
typedef struct VT_R(vt_block_cache) {
    real *x;                 /* [M,D] input */
    real *sum1, *sum2;       /* [R,D] post-norm: inputs of the two norms */
    real *stat1;             /* [M,2] of its norm */
    real *qkv, *p, *saved;   /* vt_mha: [M,3A], probabilities, the variant's own */
    bool few, formed;        /* vt_mha: the last forward was of few queries; qkv and p are its */
    real *mix;               /* VT_ATTN_FULL: [2,heads,A/heads,A/heads] W_Q W_V^T scale and its gradient */
    real *qk, *qk_stat;      /* vt_mha with q/k norm: [M,2A] before it, [M,2,heads,2] statistics */
    real *o;                 /* [R,A] mixed values before proj, for parameter gradients */
    real *mid, *stat2;       /* [R,D] after the attention half, [R,2] */
    real *slope, *act;       /* [R,hidden]: the activation's derivative; its output, for parameter gradients */
    real *branch1, *branch2; /* [R,D] branches before their factors, for parameter gradients */
} VT_R(vt_block_cache);

/* Scratch shared by all blocks of a session, and how much the largest of them wants. */
typedef struct VT_R(vt_block_scratch) {
    real *norm, *full, *rows; /* [M, max(D,A)] each */
    real *wide;               /* [M, max(3A, hidden)] */
    real *score;              /* for attention's backward of one head */
    real *kept; /* vt_mha's few queries, of the one block of which few tokens are read: from forward to backward */
} VT_R(vt_block_scratch);

typedef struct VT_R(vt_block_sizes) {
    size_t rows, wide, score, kept; /* reals */
} VT_R(vt_block_sizes);

/* Takes from the arena, in plan, the caches of one block with sh->attn.b sequences. */
void VT_R(vt_block_plan)(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a);
/* Raises `room` to the scratch that a block of this shape wants (a token mixer that calls vt_mha with another shape
 * measures that one too). */
void VT_R(vt_block_measure)(VT_R(vt_block_sizes) *room, const VT_R(vt_block_shape) *sh);
/* Takes from the arena the scratch of the measured sizes. */
void VT_R(vt_block_plan_scratch)(VT_R(vt_block_scratch) *t, const VT_R(vt_block_sizes) *room, vt_arena *a);

/* ---- whole blocks; they bind sh->layer ---- */

/* Computes the block: k->x [M,D] -> y [R,D]. */
void VT_R(vt_block_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                            const VT_R(vt_block_shape) *sh);
/* Computes gradients: dy [R,D] -> dx [M,D], parameters' into s->dw; dx may be dy only when n_read = 0. dy is
 * overwritten. */
void VT_R(vt_block_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_block_cache) *k,
                             VT_R(vt_block_scratch) *t, const VT_R(vt_block_shape) *sh);

/* ---- halves; the layer must be bound ---- */

/* Computes the attention half: k->x [M,D] -> k->mid [R,D]. */
void VT_R(vt_block_attend)(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                           const VT_R(vt_block_shape) *sh);
/* Computes the MLP half: k->mid -> y [R,D]. */
void VT_R(vt_block_mlp)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                        const VT_R(vt_block_shape) *sh);
/* Computes the MLP half's gradients: dy [R,D] becomes dmid, in place. */
void VT_R(vt_block_mlp_backward)(VT_R(vt_session) *s, real *dy, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                                 const VT_R(vt_block_shape) *sh);
/* Computes the attention half's gradients: dmid [R,D] (overwritten) -> dx [M,D], which may be dmid when n_read = 0.
 * Honours s->branch_open. */
void VT_R(vt_block_attend_backward)(VT_R(vt_session) *s, real *dx, real *dmid, VT_R(vt_block_cache) *k,
                                    VT_R(vt_block_scratch) *t, const VT_R(vt_block_shape) *sh);

/* ---- parts; the layer must be bound ---- */

/* Computes y [r,n] = res + u f x: f [n] is bound in slot `factor` (an empty slot: 1), u the session's stochastic depth
 * of the branch (VT_BRANCH_*; the rows of an image lie together). */
void VT_R(vt_branch_scale)(const VT_R(vt_session) *s, real *y, const real *res, const real *x, int factor, int branch,
                           int r, int n);
/* Computes dx [r,n] = u f dy, and df += u dy x. */
void VT_R(vt_branch_scale_backward)(const VT_R(vt_session) *s, real *dx, const real *dy, const real *x, int factor,
                                    int branch, int r, int n);
/* y [r,n] = res + u f * (x w^T + b), u the session's stochastic depth (the rows of an image lie together), w in
 * slot `w` (an empty slot: the identity, no b), b in the next, f in slot `factor` (an empty slot: 1). y must not
 * be res when there is a factor or depth is dropped. branch [r,n]: keeps x w^T + b for df, or NULL. */
void VT_R(vt_branch_end)(VT_R(vt_session) *s, real *y, real *branch, const real *res, const real *x, int w, int factor,
                         int r, int n);
/* Computes dx [r,k] and parameter gradients from dy [r,n] (which is also res's gradient); x is needed for parameter
 * gradients alone; scratch [r,n] when there is a factor or depth is dropped. */
void VT_R(vt_branch_end_backward)(VT_R(vt_session) *s, real *dx, real *scratch, const real *dy, const real *branch,
                                  const real *x, int w, int factor, int r, int n);

/* Computes y [r,c] = res + f2 * fc2(act(fc1 x)); keeps k->slope, k->act, k->branch2. */
void VT_R(vt_mlp_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                          const real *res, const real *x, int r, const VT_R(vt_block_shape) *sh);
/* Computes the MLP's gradients: dy [r,c] (also res's gradient) -> dx [r,c], the gradient of x; x again for parameter
 * gradients, else NULL: it may lie in t->norm, dx in t->full. */
void VT_R(vt_mlp_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                           const real *dy, const real *x, int r, const VT_R(vt_block_shape) *sh);

/* For token mixers, when sh->needs has VT_ATTN_FULL: v = q (W_Q W_V^T scale), head by head, instead of x W_V^T; wq, wv
 * [A,D]. The projections have no bias then. */
void VT_R(vt_full_values)(VT_R(vt_block_cache) *k, real *v, const VT_R(vt_attn_in) *in, const real *wq, const real *wv,
                          const VT_R(vt_block_shape) *sh);
/* Computes g->v -> g->q, which accumulates, and dwq, dwv (NULL: not wanted). */
void VT_R(vt_full_values_backward)(VT_R(vt_block_cache) *k, const VT_R(vt_attn_grad) *g, real *dwq, real *dwv,
                                   const VT_R(vt_attn_in) *in, const real *wq, const real *wv,
                                   const VT_R(vt_block_shape) *sh);

/* What stands between norm and output projection. */
struct VT_R(vt_token_mixer) {
    /* Its part of the cache (k->qkv, ...). */
    void (*plan)(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a);
    /* x [M,D] -> o [M,A]. x may lie in t->norm, o in t->full; t->wide, t->rows and t->score are free. */
    void (*forward)(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh);
    /* d_o [M,A] -> dx [M,D], which may be the same memory (t->full); x again (it may lie in t->norm), or NULL when no
     * parameter gradient is wanted; t->wide and t->score are free. */
    void (*backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh);
};

/* Multi-head attention with the variant sh->attn.def: attn.qkv, optional q/k norm, vt_attn_*. */
extern const VT_R(vt_token_mixer) VT_R(vt_mha);
/* Returns the reals of t->kept that the few queries of a block of this shape take, of which few tokens are read. */
size_t VT_R(vt_mha_kept_len)(const VT_R(vt_block_shape) *sh);
/* Shows q, k and P (attention_loss.h) of the first image of a block that vt_mha mixes, after a kept forward; what it
 * left out is computed first. Binds sh->layer; `prefix` is the caller's to set. */
void VT_R(vt_block_view)(VT_R(vt_session) *s, VT_R(vt_attn_view) *v, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                         const VT_R(vt_block_shape) *sh);
