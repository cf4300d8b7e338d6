/* SPDX-License-Identifier: MIT */
/* Stems: 3 x 3 convolutions between the image and the tokens, each with a normalisation over its channels and an
 * activation. XCiT's ends in tokens; the ConvStem of "Revisiting adversarial training for ImageNet" (Singh, Croce, Hein
 * 2023) takes the place of a ViT's patches: its tensors have the names of the authors' class ConvBlock at
 * patch_embed.proj, whose last, a 1 x 1 convolution to the width, is the ViT's embedding. */
#pragma once

#include "tensors/tensors.h"
#include "models/config.h"
#include "nn/conv.h"

enum { VT_STEM_CONVS = 4 };

/* Map k [sides[k], sides[k], widths[k]], image first; convolution k leads from it to map k + 1. */
typedef struct vt_stem {
    int convs, sides[VT_STEM_CONVS + 1], widths[VT_STEM_CONVS + 1];
    vt_conv_shape conv[VT_STEM_CONVS];
    int slot; /* of the first convolution's weight, in layer 0 */
    vt_norm_kind norm;
    double eps;
    vt_act act;
    int acts; /* the first so many convolutions are followed by it */
} vt_stem;

/* Slots of convolution k, from slot + VT_STEM_SLOTS k on. */
enum { VT_STEM_W, VT_STEM_B, VT_STEM_NORM, VT_STEM_SLOTS = VT_STEM_NORM + VT_NORM_SLOTS };

/* Returns a stem of c's image with the widths and strides of its convolutions. */
vt_stem vt_stem_shape(const vt_config *c, int convs, const int widths[], const int strides[]);
/* Returns the pixels of the last map. */
static inline int vt_stem_tokens(const vt_stem *s) { return s->sides[s->convs] * s->sides[s->convs]; }
/* Returns the numbers of map k. */
static inline size_t vt_stem_map_len(const vt_stem *s, int k) {
    return (size_t)s->sides[k] * (size_t)s->sides[k] * (size_t)s->widths[k];
}
/* Returns the multiply-adds of all convolutions, of one image. */
double vt_stem_products(const vt_stem *s);

/* The stem of a ViT whose conv_stem is set (Singh et al. 2023): log2(patch) convolutions of stride 2 with biases,
 * LayerNorm over the channels of each pixel, GELU; conv_stem channels first, twice as many each time. */
vt_stem vt_conv_stem_of(const vt_config *c);
/* Adds the tensors of such a stem, and its 1 x 1 convolution in embed_slot and the next. */
void vt_conv_stem_params(vt_param_list *l, const vt_config *c, int embed_slot);
/* VT_E_RANGE or VT_E_SHAPE for a patch, a number of channels or a form that such a stem cannot have. */
vt_status vt_conv_stem_check(const vt_config *c, const char *path, vt_err *e);
/* Has a file such a stem's tensors? */
bool vt_conv_stem_probe(const vt_tensors *st);
/* Sets what those tensors tell: conv_stem, patch, dim. VT_E_FORMAT: one is missing; VT_E_SHAPE: their shapes are no
 * such stem's. */
vt_status vt_conv_stem_detect(const vt_tensors *st, vt_config *c, vt_err *e);
