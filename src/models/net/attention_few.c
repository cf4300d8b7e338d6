/* SPDX-License-Identifier: MIT */
#include "models/net/attention_few.h"

#include <string.h>
#include "core/products.h"
#include "nn/nn.h"

/* U = W_K^T q and Y = sum p x are [heads tq, c]: head h's rows begin at h tq. */
static size_t rows_at(const VT_R(vt_few) *f, int head) { return (size_t)(head * f->tq) * (size_t)f->c; }
/* head h's rows of a projection */
static size_t weights_at(const VT_R(vt_few) *f, int head) {
    return (size_t)head * (size_t)(f->c / f->heads) * (size_t)f->c;
}

/* to = x - mean over its rows. Softmax sees no common part of the scores, its adjoint none of dP, and dS has none: what
 * all tokens share would only cost digits. */
static void centre(real *to, real *mean, const real *x, int t, int c) {
    memset(mean, 0, (size_t)c * sizeof(real));
    for (int i = 0; i < t; i++) VT_R(vt_add_to)(mean, x + (size_t)i * (size_t)c, (size_t)c);
    for (int j = 0; j < c; j++) mean[j] /= (real)t;
    for (int i = 0; i < t; i++)
        for (int j = 0; j < c; j++)
            to[(size_t)i * (size_t)c + (size_t)j] = x[(size_t)i * (size_t)c + (size_t)j] - mean[j];
}

void VT_R(vt_few_forward)(real *o, real *p, real *kept, real *scratch, const real *x, const VT_R(vt_few) *f) {
    int c = f->c, d = c / f->heads, rows = f->heads * f->tq, ldp = vt_attn_ldp(f->t);
    size_t len = (size_t)f->t * (size_t)c;
    real *apart = kept + len, *u = apart + len, *q = scratch, *mean = q + (size_t)f->tq * (size_t)c, *y = mean + c;
    memcpy(kept, x, len * sizeof(real));
    centre(apart, mean, x, f->t, c);
    VT_R(vt_linear_forward)(NULL, q, x, f->w_q, NULL, f->b_q, f->tq, c, c);
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, false, f->tq, c, d, 1, q + h * d, c, f->w_k + weights_at(f, h), c, 0, u + rows_at(f, h),
                c);
    VT_GEMM(NULL, false, true, rows, f->t, c, 1, u, c, apart, c, 0, p, ldp);
    VT_R(vt_softmax_forward)(p, p, f->scale, rows, f->t, ldp);
    VT_GEMM(NULL, false, false, rows, c, f->t, 1, p, ldp, apart, c, 0, y, c);
    for (int i = 0; i < rows; i++) VT_R(vt_add_to)(y + (size_t)i * (size_t)c, mean, (size_t)c);
    for (int i = 0; f->b_v && i < f->tq; i++) memcpy(o + (size_t)i * (size_t)c, f->b_v, (size_t)c * sizeof(real));
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, true, f->tq, d, c, 1, y + rows_at(f, h), c, f->w_v + weights_at(f, h), c, f->b_v ? 1 : 0,
                o + h * d, c);
}

/* dY = do W_V,  dP = dY x^T,  dS by the softmax,  dU = dS x,  dq = dU W_K^T,  dx = P^T dY + dS^T U, and dq W_Q to the
 * rows of the queries. The two sums over heads are one product of both, one below the other. */
void VT_R(vt_few_backward)(real *dx, real *scratch, real *probs, const real *d_o, const real *p, const real *kept,
                           const VT_R(vt_few) *f) {
    int c = f->c, d = c / f->heads, rows = f->heads * f->tq, ldp = vt_attn_ldp(f->t);
    size_t len = (size_t)f->t * (size_t)c, block = (size_t)rows * (size_t)c, map = (size_t)rows * (size_t)ldp;
    const real *apart = kept + len, *u = apart + len;
    real *dy = scratch, *u_below = dy + block, *du = u_below + block, *dq = du + block, *ds = probs + map;
    memcpy(u_below, u, block * sizeof(real));
    memcpy(probs, p, map * sizeof(real));
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, false, f->tq, c, d, 1, d_o + h * d, c, f->w_v + weights_at(f, h), c, 0, dy + rows_at(f, h),
                c);
    VT_GEMM(NULL, false, true, rows, f->t, c, 1, dy, c, apart, c, 0, ds, ldp);
    VT_R(vt_softmax_backward)(ds, ds, p, f->scale, rows, f->t, ldp);
    VT_GEMM(NULL, false, false, rows, c, f->t, 1, ds, ldp, apart, c, 0, du, c);
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, true, f->tq, d, c, 1, du + rows_at(f, h), c, f->w_k + weights_at(f, h), c, 0, dq + h * d,
                c);
    VT_GEMM(NULL, true, false, f->t, c, 2 * rows, 1, probs, ldp, dy, c, 0, dx, c);
    VT_GEMM(NULL, false, false, f->tq, c, c, 1, dq, c, f->w_q, c, 1, dx, c);
}
