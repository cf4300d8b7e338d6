/* SPDX-License-Identifier: MIT */
/* Losses of attention itself, that attacks ascend: how much the queries of an image look at one key token. Both are
 * read from what a kept forward left, and their gradient joins the next backward where attention is differentiated
 * (vt_attn_shape.inject). Of one image at a time. */
#pragma once

#include "models/net/session.h"

/* LOG    sum_l (1/N) sum_q log((1/H) sum_h A[l][h][q][k]), A after the softmax (Fu et al. 2022, Patch-Fool, eq. 4)
 * SCORE  log sum_{l,h} exp((1/N) sum_q B[l][h][q][k]), B = scale Q K^T before the softmax (Lovisotto et al. 2022,
 *        section 4: L_kq), whatever an attention variant makes of q and k then */
typedef enum vt_attn_loss_kind { VT_ATTN_LOSS_LOG, VT_ATTN_LOSS_SCORE } vt_attn_loss_kind;

typedef struct vt_attn_loss {
    vt_attn_loss_kind kind;
    int patch;        /* k is this patch's token, patches counted row by row */
    int first, last;  /* blocks */
    bool class_query; /* SCORE: the class token's query alone (L_kq*), in blocks that have that token */
    bool normalise;   /* SCORE: Q and K of a head divided by the mean length of their rows */
    bool alone;       /* the logits have no part in the loss */
    double weight;    /* factor of this loss in the whole */
} vt_attn_loss;

/* Returns the loss times its weight, after a kept forward of one image. The next vt_session_backward adds its gradient,
 * that one alone; dlogits NULL there leaves the logits out. The architecture must have a `view`. */
double VT_R(vt_session_attention_loss)(VT_R(vt_session) *s, const vt_attn_loss *a);
/* Computes out [patches] = (1/(H N)) sum_h sum_q A[block][h][q][k] of every patch's token, after a kept forward of one
 * image. */
void VT_R(vt_session_attention_mean)(VT_R(vt_session) *s, int block, real *out);
