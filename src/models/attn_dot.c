/* Scaled dot-product attention, P = softmax(scale Q K^T) (Vaswani et al. 2017, eq. 1). */
#include "models/attention.h"
#include "nn/nn.h"

static void probs(real *p, real *saved, const VT_R(vt_attn_head) *h) {
    (void)saved;
    VT_GEMM(false, true, h->t, h->t, h->d, 1, h->q, h->ld, h->k, h->ld, 0, p, h->ldp);
    VT_R(vt_softmax_forward)(p, p, h->scale, h->t, h->t, h->ldp);
}

/* S = scale Q K^T:  dQ = dS K,  dK = dS^T Q, with the scale inside dS */
static void dprobs(real *dq, real *dk, real *dv, real *const *dw, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h) {
    (void)dv, (void)dw, (void)saved;
    VT_R(vt_softmax_backward)(dp, dp, p, h->scale, h->t, h->t, h->ldp);
    VT_GEMM(false, false, h->t, h->d, h->t, 1, dp, h->ldp, h->k, h->ld, 0, dq, h->ld);
    VT_GEMM(true, false, h->t, h->d, h->t, 1, dp, h->ldp, h->q, h->ld, 0, dk, h->ld);
}

const VT_R(vt_attn_def) VT_R(vt_attn_def_dot) = {
    .name = "dot",
    .summary = "softmax of scaled dot products",
    .reference = "Vaswani et al. 2017, eq. 1",
    .probs = probs,
    .dprobs = dprobs,
};
