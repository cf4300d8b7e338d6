/* SPDX-License-Identifier: MIT */
/* Penalties at work on small models, in double: what test_msvp.c and test_penalty.c share. */
#ifndef PENALTY_BENCH_H
#define PENALTY_BENCH_H

#define VT_DOUBLE
#include "base/real.h"
#include "apply_penalty.h"
#include "options.h"
#include "toy.h"

#include "models/model.h"

/* A penalty, a model and its weights in double. */
typedef struct bench {
    const vt_penalty_def_f64 *def;
    void *params;
    vt_model *m;
    size_t total, state_len;
    double *w, *grad, *state, *work, *last; /* last: apply's gradient alone */
} bench;

static inline bench bench_open(const char *name, const char *options, vt_model *m) {
    bench b = {.def = vt_penalty_find_f64(name), .m = m, .total = m->params.total};
    vt_err e = {0};
    assert_non_null(b.def);
    b.params = t_params(b.def->opts, b.def->params_size, options);
    if (b.def->check && b.def->check(b.params, m, &e) != VT_OK) fail_msg("%s", e.text);
    b.state_len = b.def->state_len ? b.def->state_len(b.params, m) : 0;
    size_t work = b.def->work_len ? b.def->work_len(b.params, m) : 0;
    b.w = t_doubles(b.total, 0, 0), b.grad = t_doubles(b.total, 0, 0), b.last = t_doubles(b.total, 0, 0);
    b.state = b.state_len ? t_doubles(b.state_len, 0, 0) : NULL;
    b.work = work ? t_doubles(work, 0, 0) : NULL;
    for (size_t i = 0; i < b.total; i++) b.w[i] = (double)m->w[i];
    if (b.def->start) b.def->start(b.state, b.work, b.w, m, b.params, 11);
    return b;
}

/* One apply() on a gradient that already holds something. */
static inline double bench_apply(bench *b) {
    t_normals(b->grad, b->total, 77, 1);
    memcpy(b->last, b->grad, b->total * sizeof *b->last);
    double value = apply_penalty(b->def, b->grad, b->state, b->work, b->w, b->m, b->params);
    for (size_t i = 0; i < b->total; i++) b->last[i] = b->grad[i] - b->last[i];
    return value;
}

/* The value, its gradient alone in b->last. */
static inline double bench_scalar(void *ctx) {
    bench *b = ctx;
    memset(b->last, 0, b->total * sizeof *b->last);
    return apply_penalty(b->def, b->last, b->state, b->work, b->w, b->m, b->params);
}

static inline void bench_close(bench *b, const char *what) {
    free(b->params);
    vt_model_close(b->m);
    t_release(what);
}

static inline vt_matrix matrix(const bench *b, int block, vt_weight_kind r) {
    vt_matrix w;
    assert_true(vt_model_matrix(b->m, block, r, &w));
    return w;
}

/* Columns 0..n-1 of q [n, n] orthonormal, by Gram and Schmidt, twice. */
static inline void orthonormal(double *q, int n, uint64_t seed) {
    t_normals(q, (size_t)(n * n), seed, 1);
    for (int pass = 0; pass < 2; pass++)
        for (int j = 0; j < n; j++) {
            double size = 0;
            for (int k = 0; k < j; k++) {
                double s = 0;
                for (int i = 0; i < n; i++) s += q[i * n + j] * q[i * n + k];
                for (int i = 0; i < n; i++) q[i * n + j] -= s * q[i * n + k];
            }
            for (int i = 0; i < n; i++) size += q[i * n + j] * q[i * n + j];
            for (int i = 0; i < n; i++) q[i * n + j] /= sqrt(size);
        }
}

#endif
