/* SPDX-License-Identifier: MIT */
/* Scaled dot-product attention, P = softmax(scale Q K^T) (Vaswani et al. 2017, eq. 1). */
#include "models/net/attention.h"

/* Computes P = softmax(scale q k^T). */
static void probs(real *p, real *saved, const VT_R(vt_attn_head) *h) {
    (void)saved;
    VT_R(vt_attn_scores)(p, h);
    VT_R(vt_attn_softmax)(p, h->scale, h);
}

/* Computes the gradients of q and k, which overwrite g's; dp, the gradient of P, is overwritten. */
static void dprobs(const VT_R(vt_attn_grad) *g, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h) {
    (void)saved;
    VT_R(vt_attn_dsoftmax)(dp, p, h->scale, h);
    VT_R(vt_attn_dscores)(g, dp, h);
}

/* Computes tp, the change of P along the tangents t of q and k. */
static void tprobs(real *tp, const real *p, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    (void)saved;
    VT_R(vt_attn_tscores)(tp, h, t);
    VT_R(vt_attn_tsoftmax)(tp, p, h->scale, h);
}

static int put_scores(vt_put *p, const vt_put_heads *h, const void *o) {
    (void)o;
    return vt_put_binary(p, "Mul", vt_put_times_transposed(p, h->q, h->k, h->rank), vt_put_real(p, h->scale));
}

const vt_attn VT_R(vt_attn_is_dot) = {
    .name = "dot",
    .summary = "softmax of scaled dot products",
    .reference = "Vaswani et al. 2017, eq. 1",
    .put_scores = put_scores,
    .dot = true,
};

const VT_R(vt_attn_ops) VT_R(vt_attn_ops_dot) = {
    .is = &VT_R(vt_attn_is_dot),
    .probs = probs,
    .dprobs = dprobs,
    .tprobs = tprobs,
};
