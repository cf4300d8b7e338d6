/* SPDX-License-Identifier: MIT */
/* The tensors of a transformer block: names, shapes, first values, and the slots in which the computation finds them
 * (models/net/block.h). Slots, not names, tie tensors to their use. */
#ifndef VT_MODELS_BLOCK_LAYOUT_H
#define VT_MODELS_BLOCK_LAYOUT_H

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
    VT_SLOT_ATTN,                                   /* an attention variant's own tensors */
    VT_SLOT_OWN = VT_SLOT_ATTN + VT_ATTN_MAX_PARAMS /* the architecture's own, up to VT_MAX_SLOTS */
};

typedef struct vt_block_layout {
    int layer; /* of the parameter table */
    int dim;   /* width of the stream */
    int inner; /* width of attention, heads times head width; 0: that of the stream */
    int heads, hidden;
    int window; /* tokens a side, of a block that attends in windows */
    vt_norm_kind norm;
    vt_proj proj;
    vt_factor factor;
    float factor_start;
    bool qkv_bias, tied_qk, qk_norm;
    const vt_attn_param *own; /* the attention variant's [n_own] */
    int n_own;
    /* Tensors between norm and output projection, at their place; NULL: vt_mha_params. */
    void (*mixer)(vt_param_list *l, const struct vt_block_layout *b, const char *prefix);
} vt_block_layout;

/* What a configuration gives all blocks of a ViT; `layer` is left 0. */
vt_block_layout vt_block_layout_of(const vt_config *c);

/* Adds the tensors of a block to its layer, names behind prefix ("blocks.3."), in timm's order: norm1, the mixer's,
 * proj, norm2, MLP; then factors and the variant's own. */
void vt_block_params(vt_param_list *l, const vt_block_layout *b, const char *prefix);
/* Multi-head attention's: qkv packed, optional q/k norm. */
void vt_mha_params(vt_param_list *l, const vt_block_layout *b, const char *prefix);

/* ---- for architectures: one of them ---- */

/* [n] or [n, k]; VT_INIT_VALUE: b->factor_start */
void vt_block_add(vt_param_list *l, const vt_block_layout *b, int slot, bool matrix, vt_init init, const char *prefix,
                  const char *name, int64_t n, int64_t k);
/* name.weight [n, k] and, if asked for, name.bias [n] */
void vt_block_add_linear(vt_param_list *l, const vt_block_layout *b, int slot, bool bias, const char *prefix,
                         const char *name, int64_t n, int64_t k);
/* b->norm over the stream's width */
void vt_block_add_norm(vt_param_list *l, const vt_block_layout *b, int slot, const char *prefix, const char *name);
/* The attention variant's own. */
void vt_block_add_own(vt_param_list *l, const vt_block_layout *b, const char *prefix);

#endif
