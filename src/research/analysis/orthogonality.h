/* SPDX-License-Identifier: MIT */
/* How far matrices are from orthogonal: |W^T W - I|_F^2, and how much of it no weights could remove. */
#pragma once

#include "models/model.h"

typedef struct vt_gap {
    double loss;  /* |W^T W - I|_F^2 */
    double floor; /* of W [m, n] with n > m: n - m, since W^T W has rank m at most */
    double gap;   /* loss - floor: |W W^T - I|_F^2 where W is wide */
} vt_gap;

/* Gap of a row-major W [m, n]; VT_E_MEMORY. By the smaller Gram matrix: |W^T W - I|^2 = |W W^T - I|^2 + n - m. */
vt_status vt_gap_of(vt_gap *out, const double *w, int m, int n, vt_err *e);

/* A block's matrices alone, and its W_Q, W_K, W_V, W_O (each tensor once) below each other and side by side. */
enum { VT_GAP_STACK = VT_WEIGHT_KINDS, VT_GAP_WIDE, VT_GAP_COUNT };
/* Name of an entry of vt_gaps_of_block: "W_Q", ..., "stack", "wide". */
const char *vt_gap_name(int which);
/* Gaps of one block, indexed by vt_weight_kind and VT_GAP_*; NaN if it has no such matrix. VT_E_MEMORY. */
vt_status vt_gaps_of_block(vt_gap out[VT_GAP_COUNT], const vt_model *m, int block, vt_err *e);
