/* SPDX-License-Identifier: MIT */
/* The tensors of a transformer block: names, shapes, first values, and the slots in which the computation finds them
 * (models/net/block.h). Slots, not names, tie tensors to their use. */
#pragma once

#include "models/attn.h"

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

/* What a configuration gives all blocks of a ViT. */
vt_block_layout vt_block_layout_of(vt_param_list *l, const vt_config *c);

/* Adds the tensors of a block in timm's order: norm1, the token mixer's, proj, norm2, MLP; then factors. */
void vt_block_params(const vt_block_layout *b);
/* Multi-head attention's: qkv packed, optional q/k norm. */
void vt_mha_params(const vt_block_layout *b);
/* norm2 and MLP. */
void vt_mlp_params(const vt_block_layout *b);
