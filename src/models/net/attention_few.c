/* SPDX-License-Identifier: MIT */
#include "models/net/attention_few.h"

#include <string.h>
#include "core/products.h"
#include "nn/nn.h"

/* Rows of heads: head h's begin at h tq. Two sums of the backward stand one below the other, for one product of both.
 */
typedef struct pieces {
    real *x, *apart;     /* [t,c]: the tokens, and less their mean */
    real *dy, *u;        /* [heads tq, c] each: dY, and below it U = W_K^T q */
    real *p, *ds;        /* [heads tq, ldp] each: P, and below it dS */
    int c, d, rows, ldp; /* width, of a head, heads tq */
    size_t len;          /* of all */
} pieces;

static pieces pieces_of(real *kept, const VT_R(vt_few) *f) {
    int c = f->c, rows = f->heads * f->tq, ldp = vt_attn_ldp(f->t);
    size_t tokens = (size_t)f->t * (size_t)c, block = (size_t)rows * (size_t)c, map = (size_t)rows * (size_t)ldp;
    pieces k = {.c = c, .d = c / f->heads, .rows = rows, .ldp = ldp, .len = 2 * (tokens + block + map)};
    if (!kept) return k;
    k.x = kept, k.apart = k.x + tokens, k.dy = k.apart + tokens, k.u = k.dy + block, k.p = k.u + block;
    k.ds = k.p + map;
    return k;
}

size_t VT_R(vt_few_kept_len)(const VT_R(vt_few) *f) { return pieces_of(NULL, f).len; }

static size_t rows_at(const VT_R(vt_few) *f, int head) { return (size_t)(head * f->tq) * (size_t)f->c; }
/* head h's rows of a projection */
static size_t weights_at(const VT_R(vt_few) *f, int head) {
    return (size_t)head * (size_t)(f->c / f->heads) * (size_t)f->c;
}

/* to = x - mean over its rows. Softmax sees no common part of the scores, its adjoint none of dP, and dS has none: what
 * all tokens share would only cost digits. */
static void centre_over_tokens(real *to, real *mean, const real *x, int t, int c) {
    memset(mean, 0, (size_t)c * sizeof(real));
    for (int i = 0; i < t; i++) VT_R(vt_add_to)(mean, x + (size_t)i * (size_t)c, (size_t)c);
    for (int j = 0; j < c; j++) mean[j] /= (real)t;
    for (int i = 0; i < t; i++)
        for (int j = 0; j < c; j++)
            to[(size_t)i * (size_t)c + (size_t)j] = x[(size_t)i * (size_t)c + (size_t)j] - mean[j];
}

void VT_R(vt_few_forward)(real *o, real *kept, real *scratch, const real *x, const VT_R(vt_few) *f) {
    const pieces k = pieces_of(kept, f);
    int c = k.c;
    real *q = scratch, *mean = q + (size_t)f->tq * (size_t)c, *y = mean + c;
    memcpy(k.x, x, (size_t)f->t * (size_t)c * sizeof(real));
    centre_over_tokens(k.apart, mean, x, f->t, c);
    VT_R(vt_linear_forward)(q, NULL, x, (VT_R(vt_linear)){.w = f->w_q, .b = f->b_q, .n = c, .k = c}, f->tq);
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, false, f->tq, c, k.d, 1, q + h * k.d, c, f->w_k + weights_at(f, h), c, 0,
                k.u + rows_at(f, h), c);
    VT_GEMM(NULL, false, true, k.rows, f->t, c, 1, k.u, c, k.apart, c, 0, k.p, k.ldp);
    VT_R(vt_softmax_forward)(k.p, k.p, f->scale, k.rows, f->t, k.ldp);
    VT_GEMM(NULL, false, false, k.rows, c, f->t, 1, k.p, k.ldp, k.apart, c, 0, y, c);
    for (int i = 0; i < k.rows; i++) VT_R(vt_add_to)(y + (size_t)i * (size_t)c, mean, (size_t)c);
    for (int i = 0; f->b_v && i < f->tq; i++) memcpy(o + (size_t)i * (size_t)c, f->b_v, (size_t)c * sizeof(real));
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, true, f->tq, k.d, c, 1, y + rows_at(f, h), c, f->w_v + weights_at(f, h), c, f->b_v ? 1 : 0,
                o + h * k.d, c);
}

/* dY = do W_V,  dP = dY x^T,  dS by the softmax,  dU = dS x,  dq = dU W_K^T,  dx = P^T dY + dS^T U, and dq W_Q to the
 * rows of the queries. */
void VT_R(vt_few_backward)(real *dx, real *scratch, const real *d_o, real *kept, const VT_R(vt_few) *f) {
    const pieces k = pieces_of(kept, f);
    int c = k.c;
    real *du = scratch, *dq = du + (size_t)k.rows * (size_t)c;
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, false, f->tq, c, k.d, 1, d_o + h * k.d, c, f->w_v + weights_at(f, h), c, 0,
                k.dy + rows_at(f, h), c);
    VT_GEMM(NULL, false, true, k.rows, f->t, c, 1, k.dy, c, k.apart, c, 0, k.ds, k.ldp);
    VT_R(vt_softmax_backward)(k.ds, k.ds, k.p, f->scale, k.rows, f->t, k.ldp);
    VT_GEMM(NULL, false, false, k.rows, c, f->t, 1, k.ds, k.ldp, k.apart, c, 0, du, c);
    for (int h = 0; h < f->heads; h++)
        VT_GEMM(NULL, false, true, f->tq, k.d, c, 1, du + rows_at(f, h), c, f->w_k + weights_at(f, h), c, 0,
                dq + h * k.d, c);
    VT_GEMM(NULL, true, false, f->t, c, 2 * k.rows, 1, k.p, k.ldp, k.dy, c, 0, dx, c);
    VT_GEMM(NULL, false, false, f->tq, c, c, 1, dq, c, f->w_q, c, 1, dx, c);
}
