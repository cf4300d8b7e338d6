/* SPDX-License-Identifier: MIT */
/* L2 attention, P = softmax(-scale ||q_i - k_j||^2), scale 1/sqrt(d) (Kim et al. 2021, section 3.2). Their Lipschitz
 * bound needs W_Q = W_K (`tied`) and the values X A_h W_V (`full`); with P (X W_V), which SpecFormer's Table 1 and most
 * ports leave open, and without tying there is no bound. */
#include "models/net/attention.h"
#include "nn/nn.h"

typedef struct options {
    bool tied, full;
} options;
_Static_assert(sizeof(options) <= sizeof(vt_attn_options), "options too large");

static const vt_opt opts[] =
    {{.key = "tied", .help = "W_Q = W_K, one tensor", .type = VT_OPT_BOOL, .offset = offsetof(options, tied)},
     {.key = "full",
      .help = "values X W_Q W_Q^T W_V / sqrt(d) instead of X W_V",
      .type = VT_OPT_BOOL,
      .offset = offsetof(options, full)},
     {0}};

/* Returns VT_ATTN_TIED and VT_ATTN_FULL as the options ask for them. */
static unsigned needs(const void *o) {
    const options *p = o;
    return (p->tied ? VT_ATTN_TIED : 0) | (p->full ? VT_ATTN_FULL : 0);
}

/* A common offset of queries and keys leaves distances as they are and would cost float its digits: the mean key is
 * taken out first. |q_i|^2 moves a whole row and drops out of the softmax, so the scores are 2 <q, k> - |k|^2, with an
 * error of some eps scale |k| (|q| + |k|), centred: as good as dot products. |q_i|^2 is their bound, at distance 0. */
typedef struct parts {
    size_t k, q2, k2, mean, end; /* after q [tq, d]: k [t, d], their squared norms [tq], [t], the mean key [d] */
} parts;

/* Returns the places of the parts of `saved`, in reals. */
static parts parts_of(int tq, int t, int d) {
    parts s = {.k = (size_t)tq * (size_t)d};
    s.q2 = s.k + (size_t)t * (size_t)d, s.k2 = s.q2 + (size_t)tq, s.mean = s.k2 + (size_t)t;
    s.end = s.mean + (size_t)d;
    return s;
}

static size_t saved_len(int tq, int t, int d) { return parts_of(tq, t, d).end; }

/* Sets out [rows, d] to x - mean, and norms [rows] to the squared length of each. */
static void centre_rows_with_norms(real *out, real *norms, const real *x, const real *mean, int rows, int d, int ld) {
    for (int i = 0; i < rows; i++, out += d, x += ld) {
        for (int j = 0; j < d; j++) out[j] = x[j] - mean[j];
        norms[i] = VT_R(vt_row_dot)(out, out, d);
    }
}

/* Computes P = softmax of minus the scaled squared distances of q and k; keeps their parts in saved. */
static void probs(real *p, real *saved, const VT_R(vt_attn_head) *h) {
    const parts s = parts_of(h->tq, h->t, h->d);
    real *q = saved, *k = saved + s.k, *q2 = saved + s.q2, *k2 = saved + s.k2, *mean = saved + s.mean;
    for (int j = 0; j < h->d; j++) mean[j] = 0;
    for (int i = 0; i < h->t; i++) VT_R(vt_add_to)(mean, h->k + (size_t)i * (size_t)h->ldk, (size_t)h->d);
    for (int j = 0; j < h->d; j++) mean[j] /= (real)h->t;
    centre_rows_with_norms(q, q2, h->q, mean, h->tq, h->d, h->ldq);
    centre_rows_with_norms(k, k2, h->k, mean, h->t, h->d, h->ldk);
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, q, h->d, k, h->d, 0, p, h->ldp);
    bool tied = h->q == h->k && h->tq == h->t;
    for (int i = 0; i < h->tq; i++) {
        real *row = p + (size_t)i * (size_t)h->ldp;
        for (int j = 0; j < h->t; j++) {
            real s_ij = 2 * row[j] - k2[j];
            row[j] = h->scale * (s_ij > q2[i] ? q2[i] : s_ij); /* rounding alone passes the bound; NaN stays */
        }
        if (tied) row[i] = h->scale * q2[i];
    }
    VT_R(vt_attn_softmax)(p, 1, h);
}

/* s_ij = scale (2 <q_i, k_j> - |q_i|^2 - |k_j|^2), E = 2 scale ds:  dq_i = sum_j E_ij (k_j - q_i), the rows of E sum to
 * zero;  dk_j = sum_i E_ij (q_i - k_j). Overwrites g's q and k, and dp. */
static void dprobs(const VT_R(vt_attn_grad) *g, real *dp, const real *p, const real *saved,
                   const VT_R(vt_attn_head) *h) {
    const parts s = parts_of(h->tq, h->t, h->d);
    const real *q = saved, *k = saved + s.k;
    VT_R(vt_attn_dsoftmax)(dp, p, 2 * h->scale, h);
    VT_GEMM(h->by, false, false, h->tq, h->d, h->t, 1, dp, h->ldp, k, h->d, 0, g->q, g->ldq);
    VT_GEMM(h->by, true, false, h->t, h->d, h->tq, 1, dp, h->ldp, q, h->d, 0, g->k, g->ldk);
    for (int j0 = 0; j0 < h->t; j0 += 16) { /* sixteen columns at a time: no row of sums to keep */
        real sum[16] = {0};
        int n = h->t - j0 < 16 ? h->t - j0 : 16;
        for (int i = 0; i < h->tq; i++)
            for (int l = 0; l < n; l++) sum[l] += dp[(size_t)i * (size_t)h->ldp + (size_t)(j0 + l)];
        for (int l = 0; l < n; l++) {
            real *to = g->k + (size_t)(j0 + l) * (size_t)g->ldk;
            const real *kj = k + (size_t)(j0 + l) * (size_t)h->d;
            for (int c = 0; c < h->d; c++) to[c] -= sum[l] * kj[c];
        }
    }
}

/* ts_ij = 2 scale (<tq_i, k_j> + <q_i, tk_j> - <k_j, tk_j> - <q_i, tq_i>); the last term moves a whole row and drops
 * out of the softmax */
static void tprobs(real *tp, const real *p, const real *saved, const VT_R(vt_attn_head) *h, const VT_R(vt_attn_in) *t) {
    const parts s = parts_of(h->tq, h->t, h->d);
    const real *q = saved, *k = saved + s.k;
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, t->q, t->ldq, k, h->d, 0, tp, h->ldp);
    VT_GEMM(h->by, false, true, h->tq, h->t, h->d, 1, q, h->d, t->k, t->ldk, 1, tp, h->ldp);
    for (int j = 0; j < h->t; j++) {
        real kk = VT_R(vt_row_dot)(k + (size_t)j * (size_t)h->d, t->k + (size_t)j * (size_t)t->ldk, h->d);
        for (int i = 0; i < h->tq; i++) tp[(size_t)i * (size_t)h->ldp + (size_t)j] -= kk;
    }
    VT_R(vt_attn_tsoftmax)(tp, p, 2 * h->scale, h);
}

/* scale (2 <q, k> - |k|^2), the mean key taken out first. */
static int put_scores(vt_put *p, const vt_put_heads *h, const void *o) {
    (void)o;
    const int mean = vt_put_reduce(p, "ReduceMean", h->k, -2), q = vt_put_binary(p, "Sub", h->q, mean);
    const int k = vt_put_binary(p, "Sub", h->k, mean);
    int s = vt_put_binary(p, "Mul", vt_put_times_transposed(p, q, k, h->rank), vt_put_real(p, 2));
    const int norms = vt_put_reduce(p, "ReduceSum", vt_put_binary(p, "Mul", k, k), -1);
    s = vt_put_binary(p, "Sub", s, vt_put_transpose_last(p, norms, h->rank));
    return vt_put_binary(p, "Mul", s, vt_put_real(p, h->scale));
}

/* ---- the full form's values ---- */

void VT_R(vt_attn_full_mix)(real *m, const real *wq, const real *wv, const VT_R(vt_attn_shape) *s, int dim) {
    const int d = s->c / s->heads;
    for (int h = 0; h < s->heads; h++, m += d * d) {
        size_t w = (size_t)(h * d) * (size_t)dim;
        VT_GEMM(s->by, false, true, d, d, dim, s->scale, wq + w, dim, wv + w, dim, 0, m, d);
    }
}

/* M = scale wq wv^T:  dwq += scale dM wv,  dwv += scale dM^T wq */
void VT_R(vt_attn_full_dmix)(real *dwq, real *dwv, const real *dm, const real *wq, const real *wv,
                             const VT_R(vt_attn_shape) *s, int dim) {
    const int d = s->c / s->heads;
    for (int h = 0; h < s->heads; h++, dm += d * d) {
        size_t w = (size_t)(h * d) * (size_t)dim;
        VT_GEMM(s->by, false, false, d, dim, d, s->scale, dm, d, wv + w, dim, 1, dwq + w, dim);
        VT_GEMM(s->by, true, false, d, dim, d, s->scale, dm, d, wq + w, dim, 1, dwv + w, dim);
    }
}

void VT_R(vt_attn_full_values)(real *v, int ldv, const real *q, int ldq, const real *m, const VT_R(vt_attn_shape) *s) {
    const int d = s->c / s->heads, rows = s->b * s->t;
    for (int h = 0; h < s->heads; h++, q += d, v += d, m += d * d)
        VT_GEMM(s->by, false, false, rows, d, d, 1, q, ldq, m, d, 0, v, ldv);
}

/* v = q M:  dq += dv M^T,  dM += q^T dv */
void VT_R(vt_attn_full_dvalues)(real *dq, int lddq, real *dm, const real *dv, int lddv, const real *q, int ldq,
                                const real *m, const VT_R(vt_attn_shape) *s) {
    const int d = s->c / s->heads, rows = s->b * s->t;
    for (int h = 0; h < s->heads; h++, q += d, dq += d, dv += d, m += d * d) {
        VT_GEMM(s->by, false, true, rows, d, d, 1, dv, lddv, m, d, 1, dq, lddq);
        if (dm) VT_GEMM(s->by, true, false, d, d, rows, 1, q, ldq, dv, lddv, 1, dm + h * d * d, d);
    }
}

const vt_attn VT_R(vt_attn_is_l2) = {
    .name = "l2",
    .summary = "softmax of minus the scaled squared distances (L2Former)",
    .reference = "Kim et al. 2021, section 3.2",
    .opts = opts,
    .put_scores = put_scores,
    .needs = needs,
};

const VT_R(vt_attn_ops) VT_R(vt_attn_ops_l2) = {
    .is = &VT_R(vt_attn_is_l2),
    .saved_len = saved_len,
    .probs = probs,
    .dprobs = dprobs,
    .tprobs = tprobs,
};
