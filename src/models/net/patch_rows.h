/* SPDX-License-Identifier: MIT */
/* The way from the image to the tokens of its patches, of a ViT, a ConViT or a Swin: patches, or the pixels of a
 * convolutional stem's last map; each times its gate, LayerNorm, the embedding, a norm. All but the embedding are
 * optional (config.h: conv_stem, patch_gate, patch_norm). */
#pragma once

#include "models/net/stem_maps.h"
#include "models/vit.h"

/* b images of N patches, M = b N rows; a row is the 3 p p pixels of a patch, or the stem's channels. */
typedef struct VT_R(vt_patch_rows) {
    vt_norm_kind after;      /* the norm behind the embedding */
    VT_R(vt_stem_maps) stem; /* of conv_stem */
    real *patches;           /* [M, row] normalised pixels, or the stem's last map */
    real *dpatches;          /* their gradient; shares the memory of patches where nothing reads those again */
    real *gated;             /* patches times the gate, or patches itself */
    real *in, *in_stat;      /* what is embedded: norm of gated, or gated itself; [M, 2] */
    real *raw, *stat;        /* [M, D] the embedding, input of the second norm, [M, 2]; NULL: there is none */
} VT_R(vt_patch_rows);

void VT_R(vt_rows_plan)(const VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, vt_norm_kind after, vt_arena *a);
/* x [b,3,h,w] -> y [M, D]; binds layer 0. */
void VT_R(vt_rows_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_patch_rows) *r, const real *x, int b);
/* dy [M, D] (overwritten) -> dx [b,3,h,w] (or NULL) and parameter gradients; binds layer 0. */
void VT_R(vt_rows_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_patch_rows) *r, real *dy);
