/* SPDX-License-Identifier: MIT */
/* The way from the image to the tokens. Stem (models/stem.h): maps have their channels innermost (nn/conv.h), so the
 * last one is a matrix of tokens (XCiT), or stands in the place of a ViT's patches (ConvStem). Patch rows of a ViT, a
 * ConViT or a Swin: patches or that map, each times its gate, LayerNorm, the embedding, a norm; all but the embedding
 * are optional (config.h: conv_stem, patch_gate, patch_norm). Positions of the patches: learned for one grid and
 * resampled for another in every forward, as DINOv2's and transformers' models do, or computed. */
#pragma once

#include "models/net/block.h"
#include "nn/interpolate.h"

/* ---- stem ---- */

typedef struct VT_R(vt_stem_maps) {
    vt_stem stem;
    real *maps[VT_STEM_CONVS];  /* inputs of the convolutions; without parameter gradients two buffers take turns */
    real *sums[VT_STEM_CONVS];  /* inputs of the normalisations: LayerNorm's, or for parameter gradients; or NULL */
    real *stat[VT_STEM_CONVS];  /* LayerNorm's, of each pixel */
    real *slope[VT_STEM_CONVS]; /* the activation's derivative, where there is one */
    real *flip[2];              /* maps that nobody keeps, gradients of maps */
    real *col;                  /* patches of a band */
} VT_R(vt_stem_maps);

/* Takes from the arena, in plan, the maps of a stem for b images. */
void VT_R(vt_stem_maps_plan)(VT_R(vt_stem_maps) *mp, const vt_stem *stem, int b, vt_grad_mode mode, vt_arena *a);
/* Computes the stem: x [b,3,h,w] -> y [b*N, width of the last map]; layer 0 is bound. */
void VT_R(vt_stem_maps_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_stem_maps) *mp, const real *x, int b);
/* Computes the stem's gradients: dy [b*N, width], overwritten, -> dx [b,3,h,w] or NULL. */
void VT_R(vt_stem_maps_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int b);

/* ---- patches ---- */

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

/* Takes from the arena, in plan, the patch rows of the session's capacity; after: the norm behind the embedding. */
void VT_R(vt_rows_plan)(const VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, vt_norm_kind after, vt_arena *a);
/* Computes the tokens of the patches: x [b,3,h,w] -> y [M, D]; binds layer 0. */
void VT_R(vt_rows_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_patch_rows) *r, const real *x, int b);
/* Computes gradients: dy [M, D] (overwritten) -> dx [b,3,h,w] (or NULL) and the parameters'; binds layer 0. */
void VT_R(vt_rows_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_patch_rows) *r, real *dy);

/* ---- positions ---- */

typedef struct VT_R(vt_positions) {
    VT_R(vt_interp) resize;
    real *stored, *used; /* [D, grid^2], [D, N]: channels outermost */
    real *rows;          /* [N, D]; later their gradient */
} VT_R(vt_positions);

/* Takes from the arena, in plan, what resampling c's positions needs. */
void VT_R(vt_positions_plan)(VT_R(vt_positions) *p, const vt_config *c, vt_arena *a);
/* Resamples stored [grid^2, D] to p->rows [N, D], which it returns. */
const real *VT_R(vt_positions_forward)(VT_R(vt_positions) *p, const real *stored, const vt_config *c);
/* Adds to dstored [grid^2, D] the gradient of p->rows, which the caller has put there. */
void VT_R(vt_positions_backward)(real *dstored, VT_R(vt_positions) *p, const vt_config *c);

/* Computes sines and cosines of a patch's row and column, which nothing stores: out [side^2, dim], patches row by row;
 * kind is neither learned nor none. */
void VT_R(vt_sincos)(real *out, vt_positions_kind kind, int side, int dim);
