/* SPDX-License-Identifier: MIT */
/* XCiT's rooms (El-Nouby et al. 2021, "XCiT: Cross-Covariance Image Transformers"), by timm 0.9.16's xcit.py and
 * cait.py. xcit_stem: the image through a stem of 3 x 3 convolutions, tokens and a Fourier encoding of their places.
 * xca: a block's mixer, attention between channels. lpi: local patch interaction, two depthwise convolutions over the
 * grid of tokens. class_attention: blocks in which the class token alone asks. net_xcit binds them together. */
#ifndef VT_MODELS_NET_XCIT_PARTS_H
#define VT_MODELS_NET_XCIT_PARTS_H

#include "models/net/stem_maps.h"
#include "models/xcit.h"

/* ---- stem ---- */

typedef struct VT_R(vt_stem_state) {
    VT_R(vt_stem_maps) maps;
    real *places, *encoded; /* [N, 64] sines and cosines, constant; [N, D] after the projection */
    bool placed;            /* `places` is filled */
} VT_R(vt_stem_state);

void VT_R(vt_stem_plan)(VT_R(vt_stem_state) *st, const vt_config *c, int b, vt_grad_mode mode, vt_arena *a);
/* x [b,3,h,w] -> tokens [b*N, D]; binds layer 0. */
void VT_R(vt_stem_forward)(VT_R(vt_session) *s, real *tokens, VT_R(vt_stem_state) *st, const real *x, int b);
/* dtokens [b*N, D] is overwritten; dx [b,3,h,w] or NULL. */
void VT_R(vt_stem_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_state) *st, real *dtokens, int b);

/* ---- an XCA block: x += gamma1 XCA(norm1 x), x += gamma3 LPI(norm3 x), x += gamma2 MLP(norm2 x) ---- */

extern const VT_R(vt_mixer) VT_R(vt_xca);

typedef struct VT_R(vt_lpi) {
    real *x, *stat;    /* [M,D] input, norm3's statistics [M,2] */
    real *slope, *act; /* [M,D]; act, the input of BatchNorm, for parameter gradients */
    real *branch;      /* [M,D] before gamma3, for parameter gradients */
} VT_R(vt_lpi);

void VT_R(vt_lpi_plan)(VT_R(vt_lpi) *p, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a);
/* p->x -> y [M,D], tokens of a grid of side x side; taps: 9 D reals. */
void VT_R(vt_lpi_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_lpi) *p, VT_R(vt_block_scratch) *t, real *taps,
                          int side, const VT_R(vt_block_shape) *sh);
/* dy becomes the gradient of p->x, in place. */
void VT_R(vt_lpi_backward)(VT_R(vt_session) *s, real *dy, VT_R(vt_lpi) *p, VT_R(vt_block_scratch) *t, real *taps,
                           int side, const VT_R(vt_block_shape) *sh);

/* ---- a class-attention block, on sequences of the class token and N patches ---- */

typedef struct VT_R(vt_class_shape) {
    VT_R(vt_block_shape) block; /* attn.t = 1 + N, attn.tq = 1 */
    bool tokens_norm;           /* norm2 over patches too */
    bool last;                  /* only class rows are read of it */
} VT_R(vt_class_shape);

typedef struct VT_R(vt_class_cache) {
    real *x, *stat1;             /* [M,D] input, [M,2] */
    real *q, *k, *v, *p, *saved; /* [b,D] (NULL when tied), [M,D], [M,D]; attention's */
    real *o, *branch;            /* [b,D] mixed values; the branch before gamma1, for parameter gradients */
    real *mid, *stat2;           /* [b,D] class rows after the attention, [b,2] */
    real *rest, *rest_stat;      /* [b*N,D] patch rows after gamma1, [b*N,2] */
    real *cls;                   /* [b,D] norm2 of mid */
    VT_R(vt_block_cache) mlp;    /* slope, act, branch2 of class rows */
} VT_R(vt_class_cache);

void VT_R(vt_class_plan)(VT_R(vt_class_cache) *k, const VT_R(vt_class_shape) *sh, vt_grad_mode mode, vt_arena *a);
/* Reals of t->score that such a block wants; the rest is vt_block_measure's. */
size_t VT_R(vt_class_score)(const VT_R(vt_class_shape) *sh);
/* k->x -> y [M,D], or [b,D] of the last; binds the layer. rows: 2 [b,D] of scratch. */
void VT_R(vt_class_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_class_cache) *k, VT_R(vt_block_scratch) *t,
                            real *const rows[2], const VT_R(vt_class_shape) *sh);
/* dy [M,D] or [b,D] (overwritten) -> dx [M,D], which may be dy when not the last. Honours s->branch_open. */
void VT_R(vt_class_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_class_cache) *k,
                             VT_R(vt_block_scratch) *t, real *const rows[2], const VT_R(vt_class_shape) *sh);

#endif
