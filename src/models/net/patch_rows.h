/* SPDX-License-Identifier: MIT */
/* A ViT's way from the image to the tokens of its patches: patches, or the pixels of a convolutional stem's last map;
 * each times its gate, LayerNorm, the embedding, LayerNorm. All but the embedding are optional (config.h: conv_stem,
 * patch_gate, patch_norm). */
#ifndef VT_MODELS_NET_PATCH_ROWS_H
#define VT_MODELS_NET_PATCH_ROWS_H

#include "models/net/stem_maps.h"
#include "models/vit.h"

/* b images of N patches, M = b N rows; a row is the 3 p p pixels of a patch, or the stem's channels. */
typedef struct VT_R(vt_patch_rows) {
    VT_R(vt_stem_maps) stem; /* of conv_stem */
    real *patches;           /* [M, row] normalised pixels, or the stem's last map */
    real *dpatches;          /* their gradient; shares the memory of patches where nothing reads those again */
    real *gated;             /* patches times the gate, or patches itself */
    real *in, *in_stat;      /* what is embedded: norm of gated, or gated itself; [M,2] */
    real *raw, *stat;        /* [M, D] the embedding: input of the second norm, or embed itself; [M,2] */
    real *embed;             /* [M, D] out; before a backward its gradient */
} VT_R(vt_patch_rows);

void VT_R(vt_rows_plan)(const VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, vt_arena *a);
/* x [b,3,h,w] -> embed; layer 0 must be bound, here and below. */
void VT_R(vt_rows_forward)(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, const real *x, int b);
/* embed, which holds its gradient now, -> dx [b,3,h,w] (or NULL) and parameter gradients. */
void VT_R(vt_rows_backward)(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, real *dx, int b);

#endif
