/* SPDX-License-Identifier: MIT */
/* What ConViT's description and computation share: the slots of its tensors. */
#ifndef VT_MODELS_CONVIT_H
#define VT_MODELS_CONVIT_H

#include "models/block_layout.h"

/* Layer 0. */
enum { VT_CONVIT_EMBED_W, VT_CONVIT_EMBED_B, VT_CONVIT_CLS, VT_CONVIT_POS };
/* Layer depth + 1. */
enum { VT_CONVIT_NORM, VT_CONVIT_HEAD_W = VT_CONVIT_NORM + VT_NORM_SLOTS, VT_CONVIT_HEAD_B };

/* Of a block with gated positional attention. */
enum vt_gpsa_slot {
    VT_SLOT_GATING = VT_SLOT_OWN,
    VT_SLOT_QK_W,
    VT_SLOT_QK_B,
    VT_SLOT_V_W,
    VT_SLOT_V_B,
    VT_SLOT_POS_W,
    VT_SLOT_POS_B
};

static inline int vt_convit_patches(const vt_config *c) { return vt_config_side(c) * vt_config_side(c); }

#endif
