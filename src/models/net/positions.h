/* SPDX-License-Identifier: MIT */
/* Positions of the patches: learned ones that are stored for one grid and used on another, resampled in every forward
 * as DINOv2's and transformers' models do, with the exact way back to the stored ones; or computed. */
#pragma once

#include "models/net/session.h"
#include "nn/interpolate.h"

typedef struct VT_R(vt_positions) {
    VT_R(vt_interp) resize;
    real *stored, *used; /* [D, grid^2], [D, N]: channels outermost */
    real *rows;          /* [N, D]; later their gradient */
} VT_R(vt_positions);

void VT_R(vt_positions_plan)(VT_R(vt_positions) *p, const vt_config *c, vt_arena *a);
/* stored [grid^2, D] -> p->rows, which it returns. */
const real *VT_R(vt_positions_forward)(VT_R(vt_positions) *p, const real *stored, const vt_config *c);
/* dstored [grid^2, D] += the gradient of p->rows, which the caller has put there. */
void VT_R(vt_positions_backward)(real *dstored, VT_R(vt_positions) *p, const vt_config *c);

/* Sines and cosines of a patch's row and column, which nothing stores: out [side^2, dim], patches row by row; kind is
 * neither learned nor none. */
void VT_R(vt_sincos)(real *out, vt_positions_kind kind, int side, int dim);
