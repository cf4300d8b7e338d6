/* SPDX-License-Identifier: MIT */
/* What descriptions and computations of a ViT, and of networks that share its blocks, its beginning or its end, have in
 * common: names, shapes and first values of those tensors, the slots in which the computation finds them (slots, not
 * names, tie tensors to their use), and what follows from the configuration alone. */
#pragma once

#include "models/attn.h"
#include "models/stem.h"

/* ---- blocks ---- */

/* Slots of a block's tensors within its layer. A weight's bias has the next slot. */
enum vt_block_slot {
    VT_SLOT_NORM1,                                 /* VT_NORM_SLOTS of them */
    VT_SLOT_NORM2 = VT_SLOT_NORM1 + VT_NORM_SLOTS, /* likewise */
    VT_SLOT_QKV_W = VT_SLOT_NORM2 + VT_NORM_SLOTS,
    VT_SLOT_QKV_B,
    VT_SLOT_Q_NORM_W,
    VT_SLOT_Q_NORM_B,
    VT_SLOT_K_NORM_W,
    VT_SLOT_K_NORM_B,
    VT_SLOT_PROJ_W,
    VT_SLOT_PROJ_B,
    VT_SLOT_FACTOR1,
    VT_SLOT_FC1_W,
    VT_SLOT_FC1_B,
    VT_SLOT_FC2_W,
    VT_SLOT_FC2_B,
    VT_SLOT_FACTOR2,
    VT_SLOT_OWN /* the architecture's own, up to VT_MAX_SLOTS */
};

/* Where a block's tensors go (vt_param_place), and what their shapes need beside the configuration. */
typedef struct vt_block_layout {
    vt_param_list *l;
    const vt_config *c;
    int dim, heads, hidden; /* width of the stream, heads, width of the MLP */
    int window;             /* tokens a side, of a block that attends in windows */
    /* Tensors between norm and output projection, at their place; NULL: vt_mha_params. */
    void (*mixer)(const struct vt_block_layout *b);
} vt_block_layout;

/* Returns what a configuration gives all blocks of a ViT; sets l->value to what their factors start with. */
vt_block_layout vt_block_layout_of(vt_param_list *l, const vt_config *c);

/* Adds the tensors of a block in timm's order: norm1, the token mixer's, proj, norm2, MLP; then factors. */
void vt_block_params(const vt_block_layout *b);
/* Adds multi-head attention's tensors: qkv packed, optional q/k norm. */
void vt_mha_params(const vt_block_layout *b);
/* Adds the tensors of norm2 and the MLP. */
void vt_mlp_params(const vt_block_layout *b);

/* ---- from the image to the tokens, and from the last block to the logits ---- */

/* Layer 0: from the image to the tokens (a ConvStem's tensors are models/stem.h's), then the tokens that are learned.
 */
enum vt_rows_slot {
    VT_ROWS_W,
    VT_ROWS_B,
    VT_ROWS_GATE,
    VT_ROWS_NORM_IN,
    VT_ROWS_NORM_OUT = VT_ROWS_NORM_IN + VT_NORM_SLOTS,
    VT_VIT_CLS = VT_ROWS_NORM_OUT + VT_NORM_SLOTS,
    VT_VIT_DIST,
    VT_VIT_REG,
    VT_VIT_POS,
    VT_VIT_NORM_PRE
};

/* The last layer: from the last block to the logits. */
enum vt_readout_slot {
    VT_READOUT_NORM,
    VT_READOUT_HEAD_W = VT_READOUT_NORM + VT_NORM_SLOTS,
    VT_READOUT_HEAD_B,
    VT_READOUT_HEAD_DIST_W,
    VT_READOUT_HEAD_DIST_B
};

/* Of a block with gated positional attention (ConViT). */
enum vt_gpsa_slot {
    VT_SLOT_GATING = VT_SLOT_OWN,
    VT_SLOT_QK_W,
    VT_SLOT_QK_B,
    VT_SLOT_V_W,
    VT_SLOT_V_B,
    VT_SLOT_POS_W,
    VT_SLOT_POS_B
};

/* Adds the tensors of a ViT, in timm's order; `local` adds those of the token mixer of a ConViT's first local_blocks
 * blocks. */
void vt_vit_params(vt_param_list *l, const vt_config *c, void (*local)(const vt_block_layout *b));
/* Adds the tensors of the patch embedding. */
void vt_rows_params(vt_param_list *l, const vt_config *c);
/* Adds the tensors of final norm and heads behind width d: norm.weight, HEAD.weight and so on. */
void vt_readout_params(vt_param_list *l, const vt_config *c, int layer, int d, const char *head);
/* Counts floating-point operations of a ViT or ConViT, as vt_arch.flops does. */
void vt_vit_flops(const vt_config *c, bool alone, double *forward, double *gradient);

/* Returns the patches of an image. */
static inline int vt_rows_count(const vt_config *c) { return vt_config_side(c) * vt_config_side(c); }
/* Returns the numbers of a patch, or the channels of the stem's last map. */
int vt_rows_width(const vt_config *c);

/* Does the head read several rows side by side? */
static inline bool vt_readout_wide(const vt_config *c) { return c->pool >= VT_POOL_TOKEN_AVG; }
/* Returns the number of blocks before the last whose class token is read too. */
static inline int vt_readout_early(const vt_config *c) {
    return vt_readout_wide(c) && c->head_layers > 1 ? c->head_layers - 1 : 0;
}
/* Returns the rows of an image that the heads read: class (and distillation) token, a mean, or class tokens and perhaps
 * a mean. */
static inline int vt_readout_rows(const vt_config *c) {
    if (c->pool == VT_POOL_TOKEN) return 1 + c->dist_token;
    return vt_readout_wide(c) ? vt_readout_early(c) + 1 + (c->pool != VT_POOL_TOKENS) : 1;
}
/* Returns the tokens of an image that the last block must deliver; 0: all. */
static inline int vt_readout_tokens(const vt_config *c) { return c->pool == VT_POOL_TOKEN ? vt_readout_rows(c) : 0; }
