/* SPDX-License-Identifier: MIT */
/* A loss of attention itself (attention_loss.h) as one block's backward sees it: a gradient that joins where attention
 * is differentiated (vt_attn_shape.inject). */
#ifndef VT_MODELS_NET_ATTENTION_INJECT_H
#define VT_MODELS_NET_ATTENTION_INJECT_H

#include "models/net/attention.h"

/* What backward adds in one block. */
typedef struct VT_R(vt_attn_inject) {
    int key;           /* token; -1: nothing */
    const real *rows;  /* LOG: [t] d loss / d A[h][q][key], the same in every head; else NULL */
    const real *heads; /* SCORE: [heads] d loss / d (mean score of the head); else NULL */
    bool class_query, normalise;
} VT_R(vt_attn_inject);

/* For vt_attn_backward. dp [tq, ldp] of one head accumulates; g (of q and k) accumulates. */
void VT_R(vt_attn_inject_probs)(real *dp, const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h);
void VT_R(vt_attn_inject_scores)(const VT_R(vt_attn_grad) *g, const VT_R(vt_attn_inject) *inject,
                                 const VT_R(vt_attn_head) *h);
/* SCORE: (scale/tq) sum_q <q_q, k_key> of one head, over the queries that count, normalised when the pull says so. */
real VT_R(vt_attn_inject_score)(const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h);

#endif
