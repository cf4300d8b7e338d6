/* SPDX-License-Identifier: MIT */
/* One image of a planted classifier (planted.h) on the bench, for the tests of src/attacks: guarded copies of all that
 * an attack is given, and what holds of every run. */
#ifndef ATTACK_BENCH_H
#define ATTACK_BENCH_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include "attacks/attack.h"
#include "planted.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { GUARD = 16 };

static const float guard_word = -12345.5f;

typedef struct bench {
    planted *p;
    vt_inside inside;
    planted surrogate; /* the same function with counters of its own, without watchers and faults */
    vt_oracle o;
    vt_ball ball;
    float *x, *x_copy, *lo, *hi, *x_adv; /* x and x_adv have GUARD words behind them */
    int label;
    const int *goal; /* of the oracle; NULL: none */
    uint64_t seed;
    uint32_t image;
} bench;

static inline float *floats(size_t n) {
    float *f = calloc(n ? n : 1, sizeof *f);
    assert_non_null(f);
    return f;
}

static inline void fence(float *f, size_t n) {
    for (size_t i = 0; i < GUARD; i++) f[n + i] = guard_word;
}

static inline void assert_fenced(const float *f, size_t n) {
    for (size_t i = 0; i < GUARD; i++) assert_true(f[n + i] == guard_word);
}

/* Pixels exactly 0 and exactly 1 (a quarter each) among the others, or all within [0.3, 0.7]. */
static inline void paint(float *x, size_t n, uint32_t image, bool interior) {
    for (size_t i = 0; i < n; i++) {
        vt_rng r = {.seed = 7, .purpose = vt_rng_purpose("paint"), .image = image};
        float u = vt_rng_uniform(&r, i);
        if (interior)
            x[i] = 0.3f + 0.4f * u;
        else
            x[i] = u < 0.25f ? 0 : u < 0.5f ? 1 : (float)(int)(u * 255) / 255.0f;
    }
}

static inline int predicted(planted *p, const float *x) {
    double z[PLANTED_MOST];
    int best = 0;
    p->logits(p, x, z);
    for (int k = 1; k < p->classes; k++)
        if (z[k] > z[best]) best = k;
    return best;
}

/* What is inside a planted classifier: its logits. */
static inline vt_status bench_logit(void *self, const float *x, int k, float *dx, vt_err *e) {
    bench *b = self;
    float z[PLANTED_MOST], target[PLANTED_MOST] = {0}, value;
    target[k] = 1;
    VT_TRY(vt_classifier_logits(&b->surrogate.c, x, z, true, e));
    return vt_classifier_backward(&b->surrogate.c, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, dx, e);
}

/* The label is what the classifier says: the image starts right. */
static inline void bench_open(bench *b, planted *p, uint32_t image, bool interior) {
    memset(b, 0, sizeof *b);
    size_t n = p->n;
    b->p = p, b->image = image, b->seed = 1;
    b->x = floats(n + GUARD), b->x_copy = floats(n), b->lo = floats(n), b->hi = floats(n), b->x_adv = floats(n + GUARD);
    paint(b->x, n, image, interior);
    fence(b->x, n);
    memcpy(b->x_copy, b->x, n * sizeof(float));
    assert_int_equal(vt_oracle_open(&b->o, &p->c, NULL), VT_OK);
    b->o.interrupt = &p->flag;
    b->o.mode = VT_ORACLE_EXHAUSTIVE;
    b->surrogate.kept = floats(n);
    b->o.surrogate = &b->surrogate.c;
    b->inside = (vt_inside){b->p->classes, b, bench_logit}, b->o.inside = &b->inside;
    if (p->logits) b->label = predicted(p, b->x);
}

static inline void bench_ball(bench *b, vt_norm norm, double eps) {
    vt_ball_init(&b->ball, norm, eps, b->x, b->p->n, b->lo, b->hi);
}

static inline void bench_close(bench *b) {
    vt_oracle_close(&b->o);
    free(b->x), free(b->x_copy), free(b->lo), free(b->hi), free(b->x_adv), free(b->surrogate.kept);
}

static inline double distance(vt_norm norm, const float *a, const float *b, size_t n) {
    double most = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];
        most = fmax(most, fabs(d));
        sum += norm == VT_L1 ? fabs(d) : d * d;
    }
    return norm == VT_LINF ? most : norm == VT_L2 ? sqrt(sum) : sum;
}

/* In ball and box by this file's own arithmetic: double, no tolerance. */
static inline void assert_inside(const bench *b, const float *v) {
    assert_true(distance(b->ball.norm, v, b->x, b->p->n) <= b->ball.eps);
    for (size_t i = 0; i < b->p->n; i++) assert_true(v[i] >= 0 && v[i] <= 1);
}

/* The surrogate becomes p as it stands now; its weights stay p's. */
static inline void bench_surrogate(bench *b, const planted *p) {
    float *kept = b->surrogate.kept;
    b->surrogate = *p;
    b->surrogate.kept = kept, b->surrogate.c.self = &b->surrogate, b->surrogate.c.tokens.self = &b->surrogate;
    b->surrogate.watch = NULL, b->surrogate.watch_gradient = NULL;
    b->surrogate.forwards = b->surrogate.keeps = b->surrogate.groups = b->surrogate.backwards = 0;
    b->surrogate.forwards64 = b->surrogate.poison_after = b->surrogate.flag_after = 0;
}

/* One stage, from the surrogate that bench_surrogate made; checks what holds whatever the outcome: the input and the
 * words behind every buffer are as before, and the result is feasible when there is one. Buffers start as NaN, so that
 * nothing is read before it is written. */
static inline vt_status bench_run_from(bench *b, const vt_attack_stage *s, bool gradients) {
    size_t n = b->p->n;
    vt_task t = {.x = b->x, .n = n, .shape = b->p->shape, .classes = b->p->classes};
    t.label = b->label, t.ball = &b->ball, t.x_adv = b->x_adv;
    t.rng = (vt_rng){.seed = b->seed, .purpose = vt_rng_purpose(s->def->name), .image = b->image};
    size_t len = vt_attack_work_len(s, &t);
    t.work = floats(len + GUARD);
    for (size_t i = 0; i < len; i++) t.work[i] = NAN;
    for (size_t i = 0; i < n; i++) b->x_adv[i] = NAN;
    fence(t.work, len);
    fence(b->x_adv, n);
    b->p->forwards = b->p->keeps = b->p->groups = b->p->backwards = b->p->forwards64 = 0;
    b->p->flag = 0;
    vt_oracle_reset(&b->o, &b->ball, b->label, gradients);
    if (b->goal) vt_oracle_aim(&b->o, *b->goal);
    vt_status st = s->def->run(&b->o, s->params, &t);
    assert_fenced(t.work, len);
    assert_fenced(b->x_adv, n);
    assert_fenced(b->x, n);
    assert_memory_equal(b->x, b->x_copy, n * sizeof(float));
    if (st == VT_OK) assert_inside(b, b->x_adv);
    free(t.work);
    return st;
}

/* The same from a surrogate that is the classifier itself. */
static inline vt_status bench_run(bench *b, const vt_attack_stage *s, bool gradients) {
    bench_surrogate(b, b->p);
    return bench_run_from(b, s, gradients);
}

/* A point that the oracle kept lies in the ball and is misclassified in float; after VT_STOP in double as
 * well, beyond VT_CONFIRM_FACTOR times the float noise. */
static inline void assert_found(const bench *b, vt_status st) {
    double d[PLANTED_MOST], noise = 0, other = -INFINITY;
    if (st == VT_STOP) assert_true(b->o.has_found && b->o.mode == VT_ORACLE_SEARCH);
    if (!b->o.has_found) return;
    assert_inside(b, b->o.found);
    b->p->logits(b->p, b->o.found, d);
    int best = 0;
    for (int k = 0; k < b->p->classes; k++) {
        if ((float)d[k] > (float)d[best]) best = k;
        if (k != b->label) other = fmax(other, d[k]);
        noise = fmax(noise, fabs((double)(float)d[k] - d[k]));
    }
    assert_int_not_equal(best, b->label);
    if (st == VT_STOP) assert_true(other - d[b->label] > VT_CONFIRM_FACTOR * noise);
}

static inline vt_status run_spec(bench *b, const char *spec) {
    vt_attack a;
    vt_err e = {0};
    if (vt_attack_parse(&a, spec, b->ball.norm, &e) != VT_OK) fail_msg("%s", e.text);
    assert_int_equal(a.n_stages, 1);
    vt_status st = bench_run(b, &a.stages[0], true);
    vt_attack_free(&a);
    return st;
}

static inline double margin_at(planted *p, const float *x) {
    double z[PLANTED_MOST];
    p->logits(p, x, z);
    return z[1] - z[0];
}

static inline void tilt_profile(double s, double *z, double *slope) { z[0] = 0, z[1] = s, slope[0] = 0, slope[1] = 1; }

#endif
