/* SPDX-License-Identifier: MIT */
/* What a stem (models/stem.h) computes. Maps have their channels innermost (nn/conv.h), so the last one is a matrix of
 * tokens: XCiT adds an encoding of their places (xcit_stem), a ConvStem's goes where a ViT's patches go (patch_rows).
 */
#pragma once

#include "models/net/block.h"
#include "models/stem.h"

typedef struct VT_R(vt_stem_maps) {
    vt_stem stem;
    real *maps[VT_STEM_CONVS];  /* inputs of the convolutions; without parameter gradients two buffers take turns */
    real *sums[VT_STEM_CONVS];  /* inputs of the normalisations: LayerNorm's, or for parameter gradients; or NULL */
    real *stat[VT_STEM_CONVS];  /* LayerNorm's, of each pixel */
    real *slope[VT_STEM_CONVS]; /* the activation's derivative, where there is one */
    real *flip[2];              /* maps that nobody keeps, gradients of maps */
    real *col;                  /* patches of a band */
} VT_R(vt_stem_maps);

void VT_R(vt_stem_maps_plan)(VT_R(vt_stem_maps) *mp, const vt_stem *stem, int b, vt_grad_mode mode, vt_arena *a);
/* x [b,3,h,w] -> y [b*N, width of the last map]; layer 0 is bound. */
void VT_R(vt_stem_maps_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_stem_maps) *mp, const real *x, int b);
/* dy [b*N, width] is overwritten; dx [b,3,h,w] or NULL. */
void VT_R(vt_stem_maps_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int b);
