/* SPDX-License-Identifier: MIT */
/* What a network may be built of; zero is what timm's ViT has. Included once, whatever the precision. */
#pragma once

/* LAYER: over the channels of a row. BATCH: over images and tokens, with frozen running statistics: an affine map of
 * each channel. CENTER: LayerNorm without the division (LipsFormer). NONE: the identity. */
typedef enum vt_norm_kind { VT_NORM_LAYER, VT_NORM_BATCH, VT_NORM_CENTER, VT_NORM_NONE } vt_norm_kind;

/* GELU by the error function, GELU by tanh, max(x, 0), x sigmoid(1.702 x) (OpenAI's CLIP). */
typedef enum vt_act { VT_ACT_GELU, VT_ACT_GELU_TANH, VT_ACT_RELU, VT_ACT_QUICK_GELU } vt_act;
