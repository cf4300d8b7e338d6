/* The pre-norm transformer block: x += proj(attention(LN1 x)); x += fc2(GELU(fc1(LN2 x))). */
#ifndef VT_MODELS_BLOCK_H
#define VT_MODELS_BLOCK_H

#include "models/session.h"

/* Slots of a block's tensors within its layer; a variant's own tensors follow. */
enum vt_block_slot {
    VT_SLOT_NORM1_W,
    VT_SLOT_NORM1_B,
    VT_SLOT_QKV_W,
    VT_SLOT_QKV_B,
    VT_SLOT_PROJ_W,
    VT_SLOT_PROJ_B,
    VT_SLOT_NORM2_W,
    VT_SLOT_NORM2_B,
    VT_SLOT_FC1_W,
    VT_SLOT_FC1_B,
    VT_SLOT_FC2_W,
    VT_SLOT_FC2_B,
    VT_SLOT_ATTN
};

/* Adds the tensors of block i, named blocks.i.*, as layer `layer`. */
void VT_R(vt_block_params)(vt_param_list *l, const vt_config *c, int layer, int i);

/* Saved for backward, M = b*t rows of all tokens, R rows after the attention (all, or the first `tail` tokens of
 * each image when nothing later reads the others). */
typedef struct VT_R(vt_block_cache) {
    real *x;                   /* [M,D] input */
    real *mean1, *rstd1;       /* [M] */
    real *qkv, *p, *saved;     /* [M,3D], probabilities, the variant's own */
    real *o;                   /* [R,D] attention output before proj */
    real *mid, *mean2, *rstd2; /* [R,D] after the attention branch, [R] */
    real *slope, *act;         /* [R,hidden]: GELU's derivative; its output (kept only for parameter gradients) */
} VT_R(vt_block_cache);

/* Scratch shared by all blocks of a session. */
typedef struct VT_R(vt_block_scratch) {
    real *norm;  /* [M,D] */
    real *wide;  /* [M, max(3D, hidden)] */
    real *full;  /* [M,D] */
    real *score; /* one head's [2, t, ldp] */
} VT_R(vt_block_scratch);

void VT_R(vt_block_plan_cache)(VT_R(vt_block_cache) *k, VT_R(vt_session) *s, vt_arena *a);
void VT_R(vt_block_plan_scratch)(VT_R(vt_block_scratch) *k, VT_R(vt_session) *s, vt_arena *a);

/* k->x [M,D] -> y [R,D] (layer `layer` is bound here). tail = 0: all tokens. */
void VT_R(vt_block_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, int layer,
                            int tail);
/* dy [R,D] -> dx [M,D]; dx may be dy only when tail = 0. dy is overwritten. */
void VT_R(vt_block_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_block_cache) *k,
                             VT_R(vt_block_scratch) *t, int layer, int tail);

#endif
