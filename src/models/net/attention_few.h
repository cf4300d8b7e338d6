/* SPDX-License-Identifier: MIT */
/* Multi-head dot-product attention of few queries, whose keys and values are left unformed: with k_j = W_K x_j + b_K,
 *
 *   q . k_j = (W_K^T q) . x_j + q . b_K,    sum_j p_j v_j = W_V (sum_j p_j x_j) + b_V,
 *
 * and a softmax does not see q . b_K, nor what all x_j share. For one token of t that is a row's work a head in the
 * place of 2 t rows of projections: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2 (there "absorbed" projections). Its
 * products are few and stay in float32 (double in the double copy) whatever the session's are. */
#ifndef VT_MODELS_NET_ATTENTION_FEW_H
#define VT_MODELS_NET_ATTENTION_FEW_H

#include "core/real.h"
#include "models/attn.h"

/* The first tq of t tokens ask. One width c, of x and of all heads together. */
typedef struct VT_R(vt_few) {
    int tq, t, c, heads;
    real scale;
    const real *w_q, *w_k, *w_v; /* [c, c] out x in */
    const real *b_q, *b_v;       /* [c] or NULL */
} VT_R(vt_few);

/* Reals of `kept`, which begins with x [t,c]. `scratch`: [t, 3 c] are enough where vt_attn_may_be_few says yes. */
size_t VT_R(vt_few_kept_len)(const VT_R(vt_few) *f);
/* x [t,c] -> o [tq,c] */
void VT_R(vt_few_forward)(real *o, real *kept, real *scratch, const real *x, const VT_R(vt_few) *f);
/* d_o [tq,c] -> dx [t,c], which may be d_o's memory. May be repeated. */
void VT_R(vt_few_backward)(real *dx, real *scratch, const real *d_o, real *kept, const VT_R(vt_few) *f);

#endif
