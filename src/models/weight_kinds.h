/* SPDX-License-Identifier: MIT */
/* Where the matrices that papers speak of live in an architecture's tensors: W_Q, W_K, W_V, W_O and the two of the MLP,
 * by block. Row-major [rows, cols] (out x in, as PyTorch stores them) within the block of all parameters. */
#pragma once

#include <stdbool.h>
#include "models/model.h"

typedef enum vt_weight_kind {
    VT_WEIGHT_Q,
    VT_WEIGHT_K,
    VT_WEIGHT_V,
    VT_WEIGHT_O,
    VT_WEIGHT_FC1,
    VT_WEIGHT_FC2,
    VT_WEIGHT_KINDS
} vt_weight_kind;
const char *vt_weight_kind_name(vt_weight_kind r); /* "W_Q", ... "FC2" */

typedef struct vt_matrix {
    size_t offset;  /* of element [0,0] in reals */
    int rows, cols; /* contiguous: row stride is cols */
    int heads;      /* the block's attention heads */
    bool again;     /* the same numbers as an earlier role's (W_K = W_Q): who sums over roles counts them once */
} vt_matrix;

/* Attention blocks of the model: those of which vt_model_matrix speaks. */
int vt_model_blocks(const vt_model *m);
/* The matrix of a block in [0, vt_model_blocks); false: this architecture has none. */
bool vt_model_matrix(const vt_model *m, int block, vt_weight_kind kind, vt_matrix *out);
