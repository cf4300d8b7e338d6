/* SPDX-License-Identifier: MIT */
#include "research/analysis/affinity.h"

#include <math.h>
#include <stdlib.h>
#include "research/analysis/operator.h"
#include "base/mem.h"

typedef struct room {
    double *s, *s1, *a, *a1; /* [t] scores and probabilities of a row */
    double *keys;            /* [t, d] H K and the like */
    double k, hk, hdk;       /* spectral norms */
} room;

/* Scores s [t] = scale K q and probabilities a [t] = softmax(s) of one query q [d] against keys k [t, ldk]. */
static void attention_row(double *s, double *a, const double *q, const double *k, int ldk, const vt_affinity_pair *p) {
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < p->t; j++) {
        s[j] = p->scale * vt_dot64(q, k + (size_t)j * (size_t)ldk, (size_t)p->d);
        most = fmax(most, s[j]);
    }
    for (int j = 0; j < p->t; j++) sum += a[j] = exp(s[j] - most);
    for (int j = 0; j < p->t; j++) a[j] /= sum;
}

/* out: spectral norm of a - b [t, d] (b NULL: of a), with the mean over tokens subtracted first if centred. */
static vt_status keys_norm(double *out, const room *r, const double *a, int lda, const double *b, int ldb, bool centred,
                           const vt_affinity_pair *p, vt_err *e) {
    for (int c = 0; c < p->d; c++) {
        double mean = 0;
        for (int j = 0; j < p->t; j++) {
            double x = a[(size_t)j * (size_t)lda + (size_t)c] - (b ? b[(size_t)j * (size_t)ldb + (size_t)c] : 0);
            r->keys[(size_t)j * (size_t)p->d + (size_t)c] = x, mean += x / p->t;
        }
        for (int j = 0; centred && j < p->t; j++) r->keys[(size_t)j * (size_t)p->d + (size_t)c] -= mean;
    }
    return vt_matrix_norm(out, r->keys, p->t, p->d, p->d, e);
}

/* *most = max(*most, measured / bound); 0 / 0 counts as 0, a NaN stays. */
static void raise_worst_ratio(double *most, double measured, double bound) {
    double ratio = measured == 0 ? 0 : measured / bound;
    if (!(ratio <= *most) && !isnan(*most)) *most = ratio;
}

/* Adds query i's row to the sums, and raises the largest ratios of its measured change to each bound. */
static void add_row(vt_affinity *s, const vt_affinity_pair *p, const room *r, int i) {
    const double *q = p->q + (size_t)i * (size_t)p->ldq, *q1 = p->q1 + (size_t)i * (size_t)p->ldq1;
    double eps = 0, fixed = 0, moving = 0, l1 = 0, low = INFINITY, high = -INFINITY;
    for (int c = 0; c < p->d; c++) eps += (q1[c] - q[c]) * (q1[c] - q[c]);
    eps = sqrt(eps);
    attention_row(r->s, r->a, q, p->k, p->ldk, p);
    attention_row(r->s1, r->a1, q1, p->k, p->ldk, p);
    for (int j = 0; j < p->t; j++) {
        double step = r->a1[j] - r->a[j];
        fixed += step * step, l1 += fabs(step);
        low = fmin(low, r->s1[j] - r->s[j]), high = fmax(high, r->s1[j] - r->s[j]);
    }
    attention_row(r->s1, r->a1, q1, p->k1, p->ldk1, p);
    for (int j = 0; j < p->t; j++) moving += (r->a1[j] - r->a[j]) * (r->a1[j] - r->a[j]);
    fixed = sqrt(fixed), moving = sqrt(moving);
    double half = p->scale / 2, extended = half * (r->hk * eps + r->hdk * vt_length64(q1, (size_t)p->d));
    raise_worst_ratio(&s->paper, fixed, 4 * half * r->k * eps), raise_worst_ratio(&s->half, fixed, half * r->k * eps);
    raise_worst_ratio(&s->centred, fixed, half * r->hk * eps), raise_worst_ratio(&s->l1, l1, (high - low) / 2);
    raise_worst_ratio(&s->extended, moving, extended);
    raise_worst_ratio(&s->most_fixed, fixed, 1), raise_worst_ratio(&s->most_moving, moving, 1);
    s->rows++, s->fixed += fixed, s->moving += moving;
    s->sum_paper += 4 * half * r->k * eps, s->sum_centred += half * r->hk * eps, s->sum_extended += extended;
}

vt_status vt_affinity_add(vt_affinity *s, const vt_affinity_pair *p, vt_err *e) {
    size_t t = (size_t)p->t;
    double *base = vt_alloc((4 * t + t * (size_t)p->d) * sizeof *base);
    if (!base) return vt_fail(e, VT_E_MEMORY, "no memory for the rows of %d tokens", p->t);
    room r = {.s = base, .s1 = base + t, .a = base + 2 * t, .a1 = base + 3 * t, .keys = base + 4 * t};
    vt_status st = keys_norm(&r.k, &r, p->k, p->ldk, NULL, 0, false, p, e);
    if (st == VT_OK) st = keys_norm(&r.hk, &r, p->k, p->ldk, NULL, 0, true, p, e);
    if (st == VT_OK) st = keys_norm(&r.hdk, &r, p->k1, p->ldk1, p->k, p->ldk, true, p, e);
    for (int i = 0; st == VT_OK && i < p->t; i++) add_row(s, p, &r, i);
    free(base);
    return st;
}

void vt_affinity_merge(vt_affinity *s, const vt_affinity *o) {
    double *const most[] = {&s->most_fixed, &s->most_moving, &s->paper, &s->half, &s->centred, &s->l1, &s->extended};
    const double his[] = {o->most_fixed, o->most_moving, o->paper, o->half, o->centred, o->l1, o->extended};
    for (size_t i = 0; i < sizeof his / sizeof *his; i++) raise_worst_ratio(most[i], his[i], 1);
    s->rows += o->rows, s->fixed += o->fixed, s->moving += o->moving;
    s->sum_paper += o->sum_paper, s->sum_centred += o->sum_centred, s->sum_extended += o->sum_extended;
}
