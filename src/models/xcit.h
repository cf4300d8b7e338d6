/* SPDX-License-Identifier: MIT */
/* What XCiT's description and computation share (El-Nouby et al. 2021, "XCiT: Cross-Covariance Image Transformers";
 * timm 0.9.16's xcit.py and cait.py): the stem's shape and the slots of its tensors. */
#pragma once

#include "models/vit.h"

#define VT_XCIT_BN_EPS 1e-5 /* BatchNorm's, whatever LayerNorm's */

/* Returns XCiT's stem: 4 convolutions (patch 16) or 3 (patch 8), from slot 0 on. */
vt_stem vt_stem_of(const vt_config *c);

/* Slots of layer 0 behind those of the convolutions. */
enum { VT_STEM_POS_W = VT_STEM_CONVS * VT_STEM_SLOTS, VT_STEM_POS_B, VT_STEM_CLS };

/* Slots of an XCA block beyond a block's. */
enum {
    VT_XCA_TAU = VT_SLOT_OWN,
    VT_LPI_FACTOR,
    VT_LPI_NORM,
    VT_LPI_CONV1_W = VT_LPI_NORM + VT_NORM_SLOTS,
    VT_LPI_CONV1_B,
    VT_LPI_BN,
    VT_LPI_CONV2_W = VT_LPI_BN + VT_NORM_SLOTS,
    VT_LPI_CONV2_B
};

/* Slots of a class-attention block beyond a block's. */
enum { VT_CLASS_Q_W = VT_SLOT_OWN, VT_CLASS_Q_B, VT_CLASS_K_W, VT_CLASS_K_B, VT_CLASS_V_W, VT_CLASS_V_B };

enum { VT_XCIT_PLACE = 64 }; /* channels of the encoding of a token's place */

/* Returns the layer of final norm and head, which are a ViT's. */
static inline int vt_xcit_last_layer(const vt_config *c) { return 1 + c->depth + c->class_blocks; }
