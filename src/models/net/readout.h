/* SPDX-License-Identifier: MIT */
/* The end of every network, from the last block to the logits: pooling, final norm, heads. */
#pragma once

#include "models/net/block.h"

/* R: tokens of an image that the last block delivers; P: rows of width D of an image that the heads read. */
typedef struct VT_R(vt_readout) {
    int layer, t, d; /* of its tensors; tokens of an image in the last block; D */
    real *last;   /* [b*R, D] output of the last block, then class tokens of early blocks; later perhaps its gradient */
    real *pooled; /* input of the final norm: last, or [b*P, D] means of tokens */
    real *normed, *stat; /* [b*P, D], [b*P, 2]; norm_first: of all rows of last */
    real *dnormed;
    real *read, *dread; /* [b*P, D] what the heads read: normed, or with norm_first of it; gradient */
    real *aux;          /* [b, K] logits of head_dist */
} VT_R(vt_readout);

/* Takes from the arena, in plan, the buffers for t tokens of width d, `layer` of the parameter table. Also says where
 * the session's features lie. */
void VT_R(vt_readout_plan)(VT_R(vt_session) *s, VT_R(vt_readout) *r, int layer, int t, int d, vt_arena *a);
/* Keeps in r->last what is read of the output [b*T, D] of block i, after it: nothing of most blocks. */
void VT_R(vt_readout_keep)(const VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *tokens, int i, int b);
/* Computes s->logits [b,K] from r->last; binds the layer. */
void VT_R(vt_readout_forward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, int b);
/* Computes the gradient of the last block's output [b*R, D] from dlogits [b,K], and returns it; binds the layer. */
real *VT_R(vt_readout_backward)(VT_R(vt_session) *s, VT_R(vt_readout) *r, const real *dlogits);
/* Adds to dtokens [b*T, D], before the way back through block i, not the last, the gradient of what was read of its
 * output. */
void VT_R(vt_readout_add)(const VT_R(vt_session) *s, const VT_R(vt_readout) *r, real *dtokens, int i);
