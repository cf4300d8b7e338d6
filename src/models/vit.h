/* SPDX-License-Identifier: MIT */
/* What descriptions and computations of a ViT, and of networks that begin or end like one, share: the slots of those
 * tensors, and what follows from the configuration alone. */
#pragma once

#include "models/block_layout.h"
#include "models/stem.h"

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

/* The tensors of a ViT, in timm's order; `local` are those of the token mixer of a ConViT's first local_blocks blocks.
 */
void vt_vit_params(vt_param_list *l, const vt_config *c, void (*local)(const vt_block_layout *b));
/* Those of the patch embedding. */
void vt_rows_params(vt_param_list *l, const vt_config *c);
/* Those of final norm and heads behind width d: norm.weight, HEAD.weight and so on. */
void vt_readout_params(vt_param_list *l, const vt_config *c, int layer, int d, const char *head);
/* vt_arch.flops of a ViT or ConViT. */
void vt_vit_flops(const vt_config *c, bool alone, double *forward, double *gradient);

/* Patches of an image. */
static inline int vt_rows_count(const vt_config *c) { return vt_config_side(c) * vt_config_side(c); }
/* Numbers of a patch, or channels of the stem's last map. */
int vt_rows_width(const vt_config *c);

/* The head reads several rows side by side. */
static inline bool vt_readout_wide(const vt_config *c) { return c->pool >= VT_POOL_TOKEN_AVG; }
/* Blocks before the last whose class token is read too. */
static inline int vt_readout_early(const vt_config *c) {
    return vt_readout_wide(c) && c->head_layers > 1 ? c->head_layers - 1 : 0;
}
/* Rows of an image that the heads read: class (and distillation) token, a mean, or class tokens and perhaps a mean. */
static inline int vt_readout_rows(const vt_config *c) {
    if (c->pool == VT_POOL_TOKEN) return 1 + c->dist_token;
    return vt_readout_wide(c) ? vt_readout_early(c) + 1 + (c->pool != VT_POOL_TOKENS) : 1;
}
/* Tokens of an image that the last block must deliver; 0: all. */
static inline int vt_readout_tokens(const vt_config *c) { return c->pool == VT_POOL_TOKEN ? vt_readout_rows(c) : 0; }
