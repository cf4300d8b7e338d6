/* SPDX-License-Identifier: MIT */
#include "models/net/attention_loss.h"

#include <float.h>
#include <math.h>

/* Returns the sizes and inputs of one head of a view. */
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
static real prob_at(const VT_R(vt_attn_view) *v, int h, int q, int k) {
    size_t ld = (size_t)vt_attn_ldp(v->t);
    return v->p[((size_t)h * (size_t)v->t + (size_t)q) * ld + (size_t)k];
}

/* Returns J = (1/N) sum_q log a_q, a_q = (1/H) sum_h A[h][q][k];  rows [t]: weight dJ/dA[h][q][k] = weight / (N H a_q).
 * Where nobody looks (a_q under the smallest float) the logarithm is held and the gradient 0. */
static double log_loss(real *rows, const VT_R(vt_attn_view) *v, int key, double weight) {
    double sum = 0;
    for (int q = 0; q < v->t; q++) {
        double a = 0;
        for (int h = 0; h < v->heads; h++) a += (double)prob_at(v, h, q, key);
        a /= v->heads;
        rows[q] = a > FLT_MIN ? (real)(weight / ((double)v->t * v->heads * a)) : 0;
        sum += log(fmax(a, FLT_MIN));
    }
    return sum / v->t;
}

/* Sets heads [v->heads] to the heads' scores, which the logarithm of the sum of exponentials turns into weights. */
static void score_heads(real *heads, const VT_R(vt_attn_view) *v, const VT_R(vt_attn_inject) *p) {
    for (int h = 0; h < v->heads; h++) {
        const VT_R(vt_attn_head) head = head_of(v, h);
        heads[h] = VT_R(vt_attn_inject_score)(p, &head);
    }
}

/* heads [n blocks of `room` each, `count` used]: returns L = log sum exp heads over blocks first to last whose key is
 * not -1; each of theirs becomes weight * exp(head - L). */
static double log_sum_exp(real *heads, const VT_R(vt_attn_inject) *inject, int first, int last, int room, int count,
                          double weight) {
    double top = -INFINITY, sum = 0;
    for (int pass = 0; pass < 3; pass++)
        for (int l = first; l <= last; l++)
            for (int h = 0; inject[l].key >= 0 && h < count; h++) {
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
    for (int l = 0; l < s->inject_blocks; l++) {
        VT_R(vt_attn_inject) *p = &s->inject[l];
        real *room = s->inject_weights + (size_t)l * (size_t)s->inject_len;
        *p = (VT_R(vt_attn_inject)){.key = -1, .class_query = a->class_query, .normalise = a->normalise};
        if (l < a->first || l > a->last) continue;
        s->ops->view(s, l, &v);
        if (a->kind == VT_ATTN_LOSS_SCORE && a->class_query && !v.prefix) continue;
        p->key = v.prefix + a->patch;
        if (a->kind == VT_ATTN_LOSS_LOG)
            value += log_loss(room, &v, p->key, a->weight), p->rows = room;
        else
            score_heads(room, &v, p), p->heads = room;
    }
    s->inject_last = a->last;
    s->injecting = true;
    if (a->kind == VT_ATTN_LOSS_SCORE)
        value = log_sum_exp(s->inject_weights, s->inject, a->first, a->last, s->inject_len, v.heads, a->weight);
    return a->weight * value;
}

void VT_R(vt_session_attention_mean)(VT_R(vt_session) *s, int block, real *out) {
    VT_R(vt_attn_view) v;
    s->ops->view(s, block, &v);
    for (int k = v.prefix; k < v.t; k++) {
        double sum = 0;
        for (int h = 0; h < v.heads; h++)
            for (int q = 0; q < v.t; q++) sum += (double)prob_at(&v, h, q, k);
        out[k - v.prefix] = (real)(sum / ((double)v.heads * v.t));
    }
}
