/* SPDX-License-Identifier: MIT */
#include "research/analysis/selection.h"

#include <math.h>
#include <stdlib.h>
#include "research/analysis/operator.h"
#include "linalg/gemm.h"
#include "base/mem.h"
#include "models/net/session64.h"

/* qsort order of doubles, largest first. */
static int compare_descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

vt_status vt_attention_shape_of(vt_attention_shape *out, const double *a, int t, int ldp, int k, vt_err *e) {
    size_t n = (size_t)t;
    double *sorted = vt_alloc((n + n * n) * sizeof *sorted), *gram = sorted ? sorted + n : NULL;
    *out = (vt_attention_shape){0};
    if (!sorted) return vt_fail(e, VT_E_MEMORY, "no memory for attention of %d tokens", t);
    for (int i = 0; i < t; i++) {
        const double *row = a + (size_t)i * (size_t)ldp;
        double entropy = 0;
        for (int j = 0; j < t; j++) {
            sorted[j] = row[j];
            if (row[j] > 0) entropy -= row[j] * log(row[j]);
            out->below += row[j] < 1.0 / t;
        }
        qsort(sorted, n, sizeof *sorted, compare_descending);
        for (int j = 0; j < k && j < t; j++) out->top += sorted[j] / t;
        out->entropy += entropy / t, out->effective += exp(entropy) / t;
    }
    out->below /= (double)n * (double)n;
    vt_gemm_f64(true, false, t, t, t, 1, a, ldp, a, ldp, 0, gram, t);
    for (size_t i = 0; i < n; i++) gram[i * n + i] -= 1;
    out->gap = vt_length64(gram, n * n);
    vt_status s = vt_matrix_norm(&out->norm, a, t, t, ldp, e);
    free(sorted);
    return s;
}

/* The eps >= 0 with b eps + c eps^2 = m, INFINITY if b = c = 0; (-b + sqrt(b^2 + 4cm)) / 2c cancels if c m is small. */
static double positive_root(double b, double c, double m) {
    double s = b + sqrt(b * b + 4 * c * m);
    return s > 0 ? 2 * m / s : INFINITY;
}

/* One query's choice by scores [t]; keys [t, c]: scale W_Q^T k_t; query: |scale W_K^T q|; qk: vt_selections_of. */
static void select_one(vt_selection *out, const vt_head_at *h, const double *scores, const double *keys, double query,
                       double qk) {
    int best = vt_argmax_f64(scores, h->t);
    *out = (vt_selection){.token = best, .margin = INFINITY, .radius = INFINITY};
    const double *mine = keys + (size_t)best * (size_t)h->c;
    for (int t = 0; t < h->t; t++) {
        if (t == best) continue;
        const double *other = keys + (size_t)t * (size_t)h->c;
        double apart = 0, m = scores[best] - scores[t];
        for (int c = 0; c < h->c; c++) apart += (mine[c] - other[c]) * (mine[c] - other[c]);
        out->margin = fmin(out->margin, m);
        out->radius = fmin(out->radius, positive_root(2 * query + sqrt(apart), 2 * qk, m));
    }
}

vt_status vt_selections_of(vt_selection *out, const vt_head_at *h, double qk, vt_err *e) {
    size_t t = (size_t)h->t, c = (size_t)h->c;
    double *scores = vt_alloc((t * t + 2 * t * c) * sizeof *scores);
    if (!scores) return vt_fail(e, VT_E_MEMORY, "no memory for the margins of %d tokens", h->t);
    double *keys = scores + t * t, *queries = keys + t * c;
    vt_gemm_f64(false, true, h->t, h->t, h->d, h->scale, h->q, h->ldq, h->k, h->ldk, 0, scores, h->t);
    vt_gemm_f64(false, false, h->t, h->c, h->d, h->scale, h->k, h->ldk, h->w_q, h->c, 0, keys, h->c);
    vt_gemm_f64(false, false, h->t, h->c, h->d, h->scale, h->q, h->ldq, h->w_k, h->c, 0, queries, h->c);
    for (size_t i = 0; i < t; i++) select_one(&out[i], h, scores + i * t, keys, vt_length64(queries + i * c, c), qk);
    free(scores);
    return VT_OK;
}

double vt_merged_norm(const vt_head_at *h, double p) {
    double sum = 0;
    for (int i = 0; i < h->c; i++)
        for (int j = 0; j < h->c; j++) {
            double a = 0;
            for (int k = 0; k < h->d; k++)
                a += h->w_q[(size_t)k * (size_t)h->c + (size_t)i] * h->w_k[(size_t)k * (size_t)h->c + (size_t)j];
            sum += pow(fabs(h->scale * a), p);
        }
    return pow(sum, 1 / p);
}
