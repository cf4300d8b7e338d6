/* SPDX-License-Identifier: MIT */
#include "research/analysis/lipschitz.h"

#include <math.h>
#include <stdlib.h>
#include "research/analysis/operator.h"
#include "linalg/gemm.h"
#include "base/mem.h"

double vt_longest_row(const double *x, int t, int c) {
    double most = 0;
    for (int i = 0; i < t; i++) most = fmax(most, vt_length64(x + (size_t)i * (size_t)c, (size_t)c));
    return most;
}

/* l [d, d] lower with l l^T = a [d, d], which is positive semidefinite; a becomes l. A pivot that is rounding alone
 * leaves a column of zeros: what is lost is 1e-14 of the trace. */
static void cholesky(double *a, int d) {
    double trace = 0;
    for (int i = 0; i < d; i++) trace += a[i * d + i];
    for (int j = 0; j < d; j++) {
        double pivot = a[j * d + j] - vt_dot64(a + j * d, a + j * d, (size_t)j);
        double root = pivot > 1e-14 * trace ? sqrt(pivot) : 0;
        a[j * d + j] = root;
        for (int i = j + 1; i < d; i++)
            a[i * d + j] = root > 0 ? (a[i * d + j] - vt_dot64(a + i * d, a + j * d, (size_t)j)) / root : 0;
        for (int i = 0; i < j; i++) a[i * d + j] = 0;
    }
}

/* out = scale |W_Q^T W_K|: its square is the largest eigenvalue of W_K^T (W_Q W_Q^T) W_K = W_K^T L L^T W_K, so it is
 * |L^T W_K|, d x c instead of c x c. */
static vt_status product_norm(double *out, const vt_head_at *h, vt_err *e) {
    size_t gram = (size_t)h->d * (size_t)h->d, n = (size_t)h->d * (size_t)h->c;
    double *l = vt_alloc((gram + n) * sizeof *l), *a = l ? l + gram : NULL;
    if (!l) return vt_fail(e, VT_E_MEMORY, "no memory for W_Q^T W_K");
    vt_gemm_f64(false, true, h->d, h->d, h->c, 1, h->w_q, h->c, h->w_q, h->c, 0, l, h->d);
    cholesky(l, h->d);
    vt_gemm_f64(true, false, h->d, h->c, h->d, h->scale, l, h->d, h->w_k, h->c, 0, a, h->c);
    vt_status s = vt_matrix_norm(out, a, h->d, h->c, h->c, e);
    free(l);
    return s;
}

vt_status vt_head_norms_of(vt_head_norms *out, const vt_head_at *h, vt_err *e) {
    *out = (vt_head_norms){0};
    VT_TRY(vt_matrix_norm(&out->q, h->w_q, h->d, h->c, h->c, e));
    VT_TRY(vt_matrix_norm(&out->k, h->w_k, h->d, h->c, h->c, e));
    VT_TRY(vt_matrix_norm(&out->v, h->w_v, h->d, h->c, h->c, e));
    VT_TRY(product_norm(&out->qk, h, e));
    double sum = 0;
    for (int j = 0; h->b_q && j < h->c; j++) {
        double y = 0;
        for (int i = 0; i < h->d; i++) y += h->w_k[(size_t)i * (size_t)h->c + (size_t)j] * h->b_q[i];
        sum += y * y;
    }
    out->bias = h->scale * sqrt(sum);
    return VT_OK;
}

typedef struct room {
    double *vc, *kc;    /* [t, d] V and K less their mean under p_i, the former weighted by p_i */
    double *cov, *prod; /* [d, d], [d, c] */
    double *sum;        /* [t, t] sum_i P_i */
} room;

/* out [t, d] = weight_j (a_j - sum_j p_j a_j), weight NULL: 1. From V (weight p_i) and K: V^T P_i K. */
static void centre_columns(const vt_head_at *h, const double *p, const double *a, int lda, double *out,
                           const double *weight) {
    for (int c = 0; c < h->d; c++) {
        double mean = 0;
        for (int j = 0; j < h->t; j++) mean += p[j] * a[(size_t)j * (size_t)lda + (size_t)c];
        for (int j = 0; j < h->t; j++)
            out[(size_t)j * (size_t)h->d + (size_t)c] =
                (weight ? weight[j] : 1) * (a[(size_t)j * (size_t)lda + (size_t)c] - mean);
    }
}

/* Raises *most to scale |V^T P_i K W_Q|, row p of P; computed only if the cheap Frobenius norm exceeds *most. */
static vt_status query_path(double *most, const vt_head_at *h, const double *p, const room *r, vt_err *e) {
    double sigma;
    centre_columns(h, p, h->v, h->ldv, r->vc, p);
    centre_columns(h, p, h->k, h->ldk, r->kc, NULL);
    vt_gemm_f64(true, false, h->d, h->d, h->t, 1, r->vc, h->d, r->kc, h->d, 0, r->cov, h->d);
    vt_gemm_f64(false, false, h->d, h->c, h->d, h->scale, r->cov, h->d, h->w_q, h->c, 0, r->prod, h->c);
    if (vt_length64(r->prod, (size_t)h->d * (size_t)h->c) <= *most) return VT_OK;
    VT_TRY(vt_matrix_norm(&sigma, r->prod, h->d, h->c, h->c, e));
    *most = fmax(*most, sigma);
    return VT_OK;
}

/* Raises *most to |V^T P_i V| |y_i|^2 of query i; r->vc must be as query_path left it. */
static vt_status key_path(double *most, const vt_head_at *h, int i, const double *p, const room *r, vt_err *e) {
    const double *q = h->q + (size_t)i * (size_t)h->ldq;
    double y2 = 0, trace = 0, sigma;
    for (int c = 0; c < h->c; c++) {
        double y = 0;
        for (int j = 0; j < h->d; j++) y += h->w_k[(size_t)j * (size_t)h->c + (size_t)c] * q[j];
        y2 += y * y * h->scale * h->scale;
    }
    centre_columns(h, p, h->v, h->ldv, r->kc, NULL);
    vt_gemm_f64(true, false, h->d, h->d, h->t, 1, r->vc, h->d, r->kc, h->d, 0, r->cov, h->d);
    for (int j = 0; j < h->d; j++) trace += r->cov[(size_t)j * (size_t)h->d + (size_t)j];
    if (trace * y2 <= *most) return VT_OK; /* positive semidefinite: the trace is above the norm */
    VT_TRY(vt_matrix_norm(&sigma, r->cov, h->d, h->d, h->d, e));
    *most = fmax(*most, sigma * y2);
    return VT_OK;
}

/* vt_lipschitz_pointwise with scratch r, whose sum starts at zero. */
static vt_status head_pointwise_bound(double *out, const vt_head_at *h, const vt_head_norms *w, const room *r,
                                      vt_err *e) {
    double query = 0, key = 0, sum, p;
    size_t t = (size_t)h->t;
    for (int i = 0; i < h->t; i++) {
        const double *row = h->p + (size_t)i * (size_t)h->ldp;
        VT_TRY(query_path(&query, h, row, r, e));
        VT_TRY(key_path(&key, h, i, row, r, e));
        for (size_t j = 0; j < t; j++) r->sum[j * t + j] += row[j];
        for (size_t j = 0; j < t; j++)
            for (size_t k = 0; k < t; k++) r->sum[j * t + k] -= row[j] * row[k];
    }
    VT_TRY(vt_matrix_norm(&sum, r->sum, h->t, h->t, h->t, e));
    VT_TRY(vt_matrix_norm(&p, h->p, h->t, h->t, h->ldp, e));
    *out = p * w->v + query + sqrt(key * sum);
    return VT_OK;
}

vt_status vt_lipschitz_pointwise(double *out, const vt_head_at *h, const vt_head_norms *w, vt_err *e) {
    size_t t = (size_t)h->t, d = (size_t)h->d;
    double *base = vt_alloc((2 * t * d + d * d + d * (size_t)h->c + t * t) * sizeof *base);
    if (!base) return vt_fail(e, VT_E_MEMORY, "no memory for a bound of %d tokens", h->t);
    room r = {.vc = base, .kc = base + t * d, .cov = base + 2 * t * d};
    r.prod = r.cov + d * d, r.sum = r.prod + d * (size_t)h->c;
    vt_status s = head_pointwise_bound(out, h, w, &r, e);
    free(base);
    return s;
}

double vt_lipschitz_closed(const vt_head_norms *w, int t, double r) {
    return w->v * (sqrt(t) + r * r * w->qk + r * (w->qk * r + w->bias) * sqrt(t / 2.0));
}

double vt_lipschitz_specformer(const vt_head_norms *w, int t, double b) {
    return (double)t * (t + 1.0) * b * b * w->v * (w->q * w->k + 1);
}
