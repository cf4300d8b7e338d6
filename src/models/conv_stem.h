/* SPDX-License-Identifier: MIT */
/* Stems: 3 x 3 convolutions between the image and the tokens, each with a normalisation over its channels and an
 * activation. Maps have their channels innermost (nn/conv.h), so the last one is a matrix of tokens. XCiT's stem ends
 * in tokens, with an encoding of their places (xcit.h); a ConvStem's last map goes where a ViT's patches go (arch_vit).
 */
#ifndef VT_MODELS_CONV_STEM_H
#define VT_MODELS_CONV_STEM_H

#include "models/block.h"
#include "nn/conv.h"

#ifndef VT_MODELS_CONV_STEM_PLAIN
#define VT_MODELS_CONV_STEM_PLAIN

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

/* A stem of c's image with the widths and strides of its convolutions. */
vt_stem vt_stem_shape(const vt_config *c, int convs, const int widths[], const int strides[]);
/* Pixels of the last map. */
static inline int vt_stem_tokens(const vt_stem *s) { return s->sides[s->convs] * s->sides[s->convs]; }
/* Multiply-adds of all convolutions. */
double vt_stem_products(const vt_stem *s);

/* The stem of a ViT whose conv_stem is set (Singh et al. 2023): log2(patch) convolutions of stride 2 with biases,
 * LayerNorm over the channels of each pixel, GELU; conv_stem channels first, twice as many each time. */
vt_stem vt_conv_stem_of(const vt_config *c);
/* Its tensors, and the 1 x 1 convolution behind it in embed_slot and the next. */
void vt_conv_stem_params(vt_param_list *l, const vt_config *c, int embed_slot);
/* A sentence for what it cannot be. */
vt_status vt_conv_stem_check(const vt_config *c, const char *path, vt_err *e);
/* Are its tensors there; and what they tell: channels, patch, width. */
bool vt_conv_stem_probe(const vt_st *st);
vt_status vt_conv_stem_detect(const vt_st *st, vt_config *c, vt_err *e);
#endif

typedef struct VT_R(vt_stem_maps) {
    vt_stem stem;
    real *maps[VT_STEM_CONVS]; /* inputs of the convolutions; without parameter gradients two buffers take turns */
    real *sums[VT_STEM_CONVS]; /* inputs of the normalisations: LayerNorm's, or for parameter gradients; or NULL */
    real *mean[VT_STEM_CONVS], *rstd[VT_STEM_CONVS]; /* LayerNorm's, of each pixel */
    real *slope[VT_STEM_CONVS];                      /* the activation's derivative, where there is one */
    real *flip[2];                                   /* maps that nobody keeps, gradients of maps */
    real *col;                                       /* patches of a band */
} VT_R(vt_stem_maps);

void VT_R(vt_stem_maps_plan)(VT_R(vt_stem_maps) *mp, const vt_stem *stem, int b, vt_grad_mode mode, vt_arena *a);
/* x [b,3,h,w] -> y [b*N, width of the last map]; layer 0 is bound. */
void VT_R(vt_stem_maps_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_stem_maps) *mp, const real *x, int b);
/* dy [b*N, width] is overwritten; dx [b,3,h,w] or NULL. */
void VT_R(vt_stem_maps_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int b);

#endif
