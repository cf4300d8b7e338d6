/* SPDX-License-Identifier: MIT */
#include "models/net/attention_inject.h"

#include <math.h>

void VT_R(vt_attn_inject_probs)(real *dp, const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h) {
    for (int i = 0; inject->rows && i < h->tq; i++)
        dp[(size_t)i * (size_t)h->ldp + (size_t)inject->key] += inject->rows[i];
}

static const real *row_at(const real *x, int ld, int i) { return x + (size_t)i * (size_t)ld; }

static real row_length(const real *x, int ld, int i, int d) {
    return (real)sqrt((double)VT_R(vt_row_dot)(row_at(x, ld, i), row_at(x, ld, i), d));
}

/* Mean length of the rows of x [t, d]. */
static real mean_length(const real *x, int ld, int t, int d) {
    real sum = 0;
    for (int i = 0; i < t; i++) sum += row_length(x, ld, i, d);
    return sum / (real)t;
}

/* L = f (1/n) sum_j <Q_j, K_k> over the queries that count, f = scale, or scale / (c_Q c_K) with the mean lengths. */
typedef struct score {
    real value, f, cq, ck;
    int n; /* queries 0 to n - 1 */
} score;

static score score_of(const VT_R(vt_attn_head) *h, int key, bool class_query, bool normalise) {
    score s = {.f = h->scale, .cq = 1, .ck = 1, .n = class_query ? 1 : h->tq};
    if (normalise) {
        s.cq = mean_length(h->q, h->ldq, h->tq, h->d), s.ck = mean_length(h->k, h->ldk, h->t, h->d);
        s.f = s.cq > 0 && s.ck > 0 ? h->scale / (s.cq * s.ck) : 0;
    }
    for (int j = 0; j < s.n; j++) s.value += VT_R(vt_row_dot)(row_at(h->q, h->ldq, j), row_at(h->k, h->ldk, key), h->d);
    s.value *= s.f / (real)s.n;
    return s;
}

/* c = (1/t) sum_i |X_i|:  dX_i += a X_i / |X_i| with a = (1/t) dc */
static void mean_length_backward(real *dx, int lddx, const real *x, int ld, real a, int t, int d) {
    for (int i = 0; i < t; i++) {
        real length = row_length(x, ld, i, d), by = length > 0 ? a / length : 0;
        for (int c = 0; c < d; c++) dx[(size_t)i * (size_t)lddx + (size_t)c] += by * row_at(x, ld, i)[c];
    }
}

/* dQ_j += w (f/n) K_k,  dK_k += w (f/n) sum_j Q_j;  dc_Q = -w L / c_Q,  dc_K = -w L / c_K */
void VT_R(vt_attn_inject_scores)(const VT_R(vt_attn_grad) *g, const VT_R(vt_attn_inject) *inject,
                                 const VT_R(vt_attn_head) *h) {
    if (!inject->heads) return;
    const score s = score_of(h, inject->key, inject->class_query, inject->normalise);
    const real w = inject->heads[h->head], by = w * s.f / (real)s.n, *key = row_at(h->k, h->ldk, inject->key);
    real *dkey = g->k + (size_t)inject->key * (size_t)g->ldk;
    for (int j = 0; j < s.n; j++)
        for (int c = 0; c < h->d; c++) {
            g->q[(size_t)j * (size_t)g->ldq + (size_t)c] += by * key[c];
            dkey[c] += by * row_at(h->q, h->ldq, j)[c];
        }
    if (!inject->normalise || s.f == 0) return;
    mean_length_backward(g->q, g->ldq, h->q, h->ldq, -w * s.value / (s.cq * (real)h->tq), h->tq, h->d);
    mean_length_backward(g->k, g->ldk, h->k, h->ldk, -w * s.value / (s.ck * (real)h->t), h->t, h->d);
}

real VT_R(vt_attn_inject_score)(const VT_R(vt_attn_inject) *inject, const VT_R(vt_attn_head) *h) {
    return score_of(h, inject->key, inject->class_query, inject->normalise).value;
}
