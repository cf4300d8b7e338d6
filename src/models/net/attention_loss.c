/* SPDX-License-Identifier: MIT */
#include "models/net/attention_loss.h"

#include <float.h>
#include <math.h>
#include "models/net/session.h"

/* ---- backward, one head ---- */

void VT_R(vt_attn_pull_probs)(real *dp, const VT_R(vt_attn_pull) *pull, const VT_R(vt_attn_head) *h) {
    for (int i = 0; pull->rows && i < h->tq; i++) dp[(size_t)i * (size_t)h->ldp + (size_t)pull->key] += pull->rows[i];
}

static const real *row(const real *x, int ld, int i) { return x + (size_t)i * (size_t)ld; }

static real row_length(const real *x, int ld, int i, int d) {
    return (real)sqrt((double)VT_R(vt_attn_dot)(row(x, ld, i), row(x, ld, i), d));
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
    for (int j = 0; j < s.n; j++) s.value += VT_R(vt_attn_dot)(row(h->q, h->ldq, j), row(h->k, h->ldk, key), h->d);
    s.value *= s.f / (real)s.n;
    return s;
}

/* c = (1/t) sum_i |X_i|:  dX_i += a X_i / |X_i| with a = (1/t) dc */
static void dlength(real *dx, int lddx, const real *x, int ld, real a, int t, int d) {
    for (int i = 0; i < t; i++) {
        real length = row_length(x, ld, i, d), by = length > 0 ? a / length : 0;
        for (int c = 0; c < d; c++) dx[(size_t)i * (size_t)lddx + (size_t)c] += by * row(x, ld, i)[c];
    }
}

/* dQ_j += w (f/n) K_k,  dK_k += w (f/n) sum_j Q_j;  dc_Q = -w L / c_Q,  dc_K = -w L / c_K */
void VT_R(vt_attn_pull_scores)(const VT_R(vt_attn_grad) *g, const VT_R(vt_attn_pull) *pull,
                               const VT_R(vt_attn_head) *h) {
    if (!pull->heads) return;
    const score s = score_of(h, pull->key, pull->class_query, pull->normalise);
    const real w = pull->heads[h->head], by = w * s.f / (real)s.n, *key = row(h->k, h->ldk, pull->key);
    real *dkey = g->k + (size_t)pull->key * (size_t)g->ldk;
    for (int j = 0; j < s.n; j++)
        for (int c = 0; c < h->d; c++) {
            g->q[(size_t)j * (size_t)g->ldq + (size_t)c] += by * key[c];
            dkey[c] += by * row(h->q, h->ldq, j)[c];
        }
    if (!pull->normalise || s.f == 0) return;
    dlength(g->q, g->ldq, h->q, h->ldq, -w * s.value / (s.cq * (real)h->tq), h->tq, h->d);
    dlength(g->k, g->ldk, h->k, h->ldk, -w * s.value / (s.ck * (real)h->t), h->t, h->d);
}

/* ---- values ---- */

static VT_R(vt_attn_head) head_of(const VT_R(vt_attn_view) *v, int head) {
    return (VT_R(vt_attn_head)){.tq = v->t,
                                .t = v->t,
                                .d = v->d,
                                .ldq = v->in.ldq,
                                .ldk = v->in.ldk,
                                .head = head,
                                .scale = v->scale,
                                .q = v->in.q + head * v->d,
                                .k = v->in.k + head * v->d};
}

/* P of head h, query q, key k. */
static real prob(const VT_R(vt_attn_view) *v, int h, int q, int k) {
    size_t ld = (size_t)vt_attn_ldp(v->t);
    return v->p[((size_t)h * (size_t)v->t + (size_t)q) * ld + (size_t)k];
}

/* J = (1/N) sum_q log a_q, a_q = (1/H) sum_h A[h][q][k]:  dJ/dA[h][q][k] = 1 / (N H a_q). Where nobody looks (a_q
 * under the smallest float) the logarithm is held. */
static double log_loss(real *rows, const VT_R(vt_attn_view) *v, int key, double weight) {
    double sum = 0;
    for (int q = 0; q < v->t; q++) {
        double a = 0;
        for (int h = 0; h < v->heads; h++) a += (double)prob(v, h, q, key);
        a /= v->heads;
        rows[q] = a > FLT_MIN ? (real)(weight / ((double)v->t * v->heads * a)) : 0;
        sum += log(fmax(a, FLT_MIN));
    }
    return sum / v->t;
}

/* Values of a block's heads, which the logarithm of the sum of exponentials turns into weights. */
static void scores(real *heads, const VT_R(vt_attn_view) *v, const VT_R(vt_attn_pull) *p) {
    for (int h = 0; h < v->heads; h++) {
        const VT_R(vt_attn_head) head = head_of(v, h);
        heads[h] = score_of(&head, p->key, p->class_query, p->normalise).value;
    }
}

/* heads [n blocks of `room` each, `count` used]: L = log sum exp heads, each becomes weight * exp(head - L). */
static double log_sum_exp(real *heads, const VT_R(vt_attn_pull) *pull, int first, int last, int room, int count,
                          double weight) {
    double top = -INFINITY, sum = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int l = first; l <= last; l++)
            for (int h = 0; pull[l].key >= 0 && h < count; h++) {
                real *v = heads + (size_t)l * (size_t)room + h;
                if (pass == 0) top = fmax(top, (double)*v);
                if (pass == 1) sum += exp((double)*v - top);
                if (pass == 2) *v = (real)(weight * exp((double)*v - top) / sum);
            }
    return top + log(sum);
}

double VT_R(vt_session_attention_loss)(VT_R(vt_session) *s, const vt_attn_loss *a) {
    double value = 0;
    VT_R(vt_attn_view) v = {0};
    for (int l = 0; l < s->pull_blocks; l++) {
        VT_R(vt_attn_pull) *p = &s->pull[l];
        real *room = s->pull_room + (size_t)l * (size_t)s->pull_len;
        *p = (VT_R(vt_attn_pull)){.key = -1, .class_query = a->class_query, .normalise = a->normalise};
        if (l < a->first || l > a->last) continue;
        s->ops->view(s, l, &v);
        if (a->kind == VT_ATTN_LOSS_SCORE && a->class_query && !v.prefix) continue;
        p->key = v.prefix + a->patch;
        if (a->kind == VT_ATTN_LOSS_LOG)
            value += log_loss(room, &v, p->key, a->weight), p->rows = room;
        else
            scores(room, &v, p), p->heads = room;
    }
    s->pull_last = a->last;
    s->pulling = true;
    if (a->kind == VT_ATTN_LOSS_SCORE)
        value = log_sum_exp(s->pull_room, s->pull, a->first, a->last, s->pull_len, v.heads, a->weight);
    return a->weight * value;
}

void VT_R(vt_session_attention_mean)(VT_R(vt_session) *s, int block, real *out) {
    VT_R(vt_attn_view) v;
    s->ops->view(s, block, &v);
    for (int k = v.prefix; k < v.t; k++) {
        double sum = 0;
        for (int h = 0; h < v.heads; h++)
            for (int q = 0; q < v.t; q++) sum += (double)prob(&v, h, q, k);
        out[k - v.prefix] = (real)(sum / ((double)v.heads * v.t));
    }
}
