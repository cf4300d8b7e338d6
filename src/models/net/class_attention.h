/* SPDX-License-Identifier: MIT */
/* Blocks whose attention has one query, the class token, on sequences of it and N patches (XCiT). */
#pragma once

#include "models/net/block.h"
#include "models/xcit.h"

typedef struct VT_R(vt_class_shape) {
    VT_R(vt_block_shape) block; /* attn.t = 1 + N, attn.tq = 1 */
    bool tokens_norm;           /* norm2 over patches too */
    bool last;                  /* only class rows are read of it */
} VT_R(vt_class_shape);

typedef struct VT_R(vt_class_cache) {
    real *x, *stat1;             /* [M,D] input, [M,2] */
    real *q, *k, *v, *p, *saved; /* [b,D] (NULL when tied), [M,D], [M,D]; attention's */
    real *o, *branch;            /* [b,D] mixed values; the branch before gamma1, for parameter gradients */
    real *mid, *stat2;           /* [b,D] class rows after the attention, [b,2] */
    real *rest, *rest_stat;      /* [b*N,D] patch rows after gamma1, [b*N,2] */
    real *cls;                   /* [b,D] norm2 of mid */
    VT_R(vt_block_cache) mlp;    /* slope, act, branch2 of class rows */
} VT_R(vt_class_cache);

/* Takes from the arena, in plan, the caches of one such block. */
void VT_R(vt_class_plan)(VT_R(vt_class_cache) *k, const VT_R(vt_class_shape) *sh, vt_grad_mode mode, vt_arena *a);
/* Returns the reals of t->score that such a block wants; the rest is vt_block_measure's. */
size_t VT_R(vt_class_score)(const VT_R(vt_class_shape) *sh);
/* Computes the block: k->x -> y [M,D], or [b,D] of the last; binds the layer. rows: 2 [b,D] of scratch. */
void VT_R(vt_class_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_class_cache) *k, VT_R(vt_block_scratch) *t,
                            real *const rows[2], const VT_R(vt_class_shape) *sh);
/* Computes gradients: dy [M,D] or [b,D] (overwritten) -> dx [M,D], which may be dy when not the last, and the
 * parameters'; binds the layer. Honours s->branch_open. rows: 2 [b,D] of scratch. */
void VT_R(vt_class_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_class_cache) *k,
                             VT_R(vt_block_scratch) *t, real *const rows[2], const VT_R(vt_class_shape) *sh);
