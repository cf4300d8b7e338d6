/* SPDX-License-Identifier: MIT */
/* ConViT's gated positional self-attention (d'Ascoli et al. 2021, section 3), a block's mixer:
 *
 *   A = (1 - g) P + g pos, rows divided by their sum;  o = A (x W_V^T);  g = sigmoid(gating_param), one for each head
 *   pos = softmax_j(w_x dx + w_y dy + w_r (dx^2 + dy^2) + b),  (dx, dy) = (column, row) of key less those of query
 *
 * P is the attention variant's, of q and k by attn.qk. Tokens are a square of patches without a class token. */
#ifndef VT_MODELS_NET_GPSA_H
#define VT_MODELS_NET_GPSA_H

#include "models/net/block.h"
#include "models/vit.h"

/* What a session's GPSA blocks share, sh->own of each: the positional attention depends on no image and is cheap (see
 * gpsa.c), so that each pass makes it once for each block and none keeps it. */
typedef struct VT_R(vt_gpsa_room) {
    int side;           /* of the square of tokens */
    real *pos, *dpos;   /* [heads, t, ldp]; dpos only for parameter gradients */
    real *line;         /* [2, side, side] */
    real *gate, *dgate; /* [heads] */
} VT_R(vt_gpsa_room);

void VT_R(vt_gpsa_plan_room)(VT_R(vt_gpsa_room) *g, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a);

extern const VT_R(vt_mixer) VT_R(vt_gpsa);

#endif
