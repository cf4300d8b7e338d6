/* SPDX-License-Identifier: MIT */
/* Cross-covariance attention (El-Nouby et al. 2021, sec. 3.2; timm's XCA): attention between the channels of a head.
 * With q_i, k_i, v_i the columns of a head's Q, K, V [N, d], that is one channel over all tokens:
 *   R_ij = <q_i, k_j> / (|q_i| |k_j|),  A = softmax_j(tau R),  o_i = sum_j A_ij v_j
 * norms at least 1e-12; tau is learned, one a head; there is no d^-0.5. Attention variants, which score tokens, have no
 * meaning here. */
#include <math.h>
#include "models/net/xcit_parts.h"
#include "nn/nn.h"

static const real FLOOR = (real)1e-12;

/* Saved of a head: R [d, d], norms of q and of k [d] each. */
static size_t head_saved(int d) { return (size_t)d * (size_t)d + 2 * (size_t)d; }

static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    size_t d = (size_t)(sh->attn.c / sh->attn.heads), n = (size_t)sh->attn.b * (size_t)sh->attn.heads;
    k->qkv = vt_arena_take(a, (size_t)sh->attn.b * (size_t)sh->attn.t * 3 * (size_t)sh->attn.c, sizeof(real));
    k->p = vt_arena_take(a, n * d * d, sizeof(real));
    k->saved = vt_arena_take(a, n * head_saved((int)d), sizeof(real));
}

/* One head of one image: offset of its columns in qkv [., 3D] and in o [., D], its pieces of the cache. */
typedef struct place {
    int n, d, ld; /* tokens, channels, row stride of q, k, v */
    const real *q, *k, *v;
    real *p, *r, *nq, *nk;
    size_t qkv, o;
    const vt_products *by;
} place;

static place place_at(const VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, int image, int head) {
    int c = sh->attn.c, d = c / sh->attn.heads, n = sh->attn.t;
    size_t row = (size_t)image * (size_t)n, item = (size_t)image * (size_t)sh->attn.heads + (size_t)head;
    place l = {.n = n, .d = d, .ld = 3 * c, .by = sh->attn.by};
    l.qkv = row * (size_t)l.ld + (size_t)(head * d), l.o = row * (size_t)c + (size_t)(head * d);
    l.q = k->qkv + l.qkv, l.k = l.q + c, l.v = l.k + c;
    l.p = k->p + item * (size_t)(d * d);
    l.r = k->saved + item * head_saved(d), l.nq = l.r + d * d, l.nk = l.nq + d;
    return l;
}

/* norm [d] of the columns of x [n, d], over the tokens */
static void column_norms(real *norm, const real *x, int n, int d, int ld) {
    for (int j = 0; j < d; j++) norm[j] = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            norm[j] += x[(size_t)i * (size_t)ld + (size_t)j] * x[(size_t)i * (size_t)ld + (size_t)j];
    for (int j = 0; j < d; j++) {
        real r = (real)sqrt((double)norm[j]);
        norm[j] = r < FLOOR ? FLOOR : r; /* NaN stays NaN */
    }
}

static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    (void)t;
    int c = sh->attn.c, m = sh->attn.b * sh->attn.t;
    VT_R(vt_linear_forward)(k->qkv, NULL, x, VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W), m);
    for (int i = 0; i < sh->attn.b; i++)
        for (int h = 0; h < sh->attn.heads; h++) {
            place l = place_at(k, sh, i, h);
            int d = l.d;
            column_norms(l.nq, l.q, l.n, d, l.ld);
            column_norms(l.nk, l.k, l.n, d, l.ld);
            VT_GEMM(l.by, true, false, d, d, l.n, 1, l.q, l.ld, l.k, l.ld, 0, l.r, d);
            for (int a = 0; a < d; a++)
                for (int b = 0; b < d; b++) l.r[a * d + b] = l.r[a * d + b] / l.nq[a] / l.nk[b];
            VT_R(vt_softmax_forward)(l.p, l.r, s->w[VT_XCA_TAU][h], d, d, d);
            /* o = V A^T */
            VT_GEMM(l.by, false, true, l.n, d, d, 1, l.v, l.ld, l.p, d, 0, o + l.o, c);
        }
}

/* q^ = q / |q| column by column:  dq_i = (dq^_i - q^_i <q^_i, dq^_i>) / |q_i|, without the second part where the floor
 * stood in for the norm. dx [n, d] holds dq^ / |q|; dot [d] is <q^, dq^>. */
static void norms_backward(real *dx, const real *x, const real *norm, real *dot, int n, int d, int ld) {
    for (int j = 0; j < d; j++) dot[j] = norm[j] > FLOOR ? dot[j] / norm[j] / norm[j] : 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            dx[(size_t)i * (size_t)ld + (size_t)j] -= x[(size_t)i * (size_t)ld + (size_t)j] * dot[j];
}

/* o = V A^T:  dV = dO A,  dA = dO^T V.  Z = tau R:  dtau = <dZ, R>,  dR = tau dZ.
 * S = Q^T K, R = S / (|q_i| |k_j|):  dS likewise from dR,  dQ = K dS^T, dK = Q dS, and <q^_i, dq^_i> = sum_j dR_ij
 * R_ij. scratch: [d, d] and twice [d]. */
static void head_backward(real *dqkv, real *dtau, real *scratch, const real *d_o, const place *l, real tau, int c) {
    int d = l->d;
    real *g = scratch, *dot_q = g + d * d, *dot_k = dot_q + d;
    real *dq = dqkv + l->qkv, *dk = dq + c, *dv = dk + c;
    VT_GEMM(l->by, false, false, l->n, d, d, 1, d_o + l->o, c, l->p, d, 0, dv, l->ld);
    VT_GEMM(l->by, true, false, d, d, l->n, 1, d_o + l->o, c, l->v, l->ld, 0, g, d);
    VT_R(vt_softmax_backward)(g, g, l->p, 1, d, d, d);
    real sum = 0;
    for (int j = 0; j < d; j++) dot_k[j] = 0;
    for (int i = 0; i < d; i++) {
        dot_q[i] = 0;
        for (int j = 0; j < d; j++) {
            real z = g[i * d + j] * l->r[i * d + j];
            sum += z, dot_q[i] += tau * z, dot_k[j] += tau * z;
            g[i * d + j] = tau * g[i * d + j] / l->nq[i] / l->nk[j];
        }
    }
    if (dtau) *dtau += sum;
    VT_GEMM(l->by, false, true, l->n, d, d, 1, l->k, l->ld, g, d, 0, dq, l->ld);
    VT_GEMM(l->by, false, false, l->n, d, d, 1, l->q, l->ld, g, d, 0, dk, l->ld);
    norms_backward(dq, l->q, l->nq, dot_q, l->n, d, l->ld);
    norms_backward(dk, l->k, l->nk, dot_k, l->n, d, l->ld);
}

static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    int c = sh->attn.c, m = sh->attn.b * sh->attn.t;
    real *dtau = s->dw[VT_XCA_TAU];
    for (int i = 0; i < sh->attn.b; i++)
        for (int h = 0; h < sh->attn.heads; h++) {
            place l = place_at(k, sh, i, h);
            head_backward(t->wide, dtau ? dtau + h : NULL, t->score, d_o, &l, s->w[VT_XCA_TAU][h], c);
        }
    VT_R(vt_linear_backward)(dx, NULL, t->wide, x, VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W), m);
}

const VT_R(vt_mixer) VT_R(vt_xca) = {.plan = plan, .forward = forward, .backward = backward};
