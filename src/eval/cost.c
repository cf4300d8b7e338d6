/* SPDX-License-Identifier: MIT */
#include "eval/cost.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include "core/mem.h"
#include "core/progress.h"
#include "core/sort.h"
#include "core/threads.h"
#include "models/wrap/classifier.h"

enum { ROUNDS_MOST = 201, ROUNDS_LEAST = 3 };
#define SECONDS 0.3

/* A classifier and what its calls need; and seconds of its calls, a round each. */
typedef struct bench {
    vt_classifier c;
    float *x, *dx, *z, *target;
    double *z64;
    double forward[ROUNDS_MOST], gradient[ROUNDS_MOST], verdict[ROUNDS_MOST];
    int n;
} bench;

static void bench_close(bench *b) {
    vt_classifier_close(&b->c);
    free(b->x), free(b->dx), free(b->z), free(b->target), free(b->z64);
}

static vt_status bench_open(bench *b, const vt_model *m, vt_err *e) {
    *b = (bench){0};
    VT_TRY(vt_classifier_open(&b->c, m, e));
    size_t n = b->c.pixels, k = (size_t)b->c.classes;
    b->x = vt_alloc(n * sizeof *b->x), b->dx = vt_alloc(n * sizeof *b->dx);
    b->z = vt_alloc(k * sizeof *b->z), b->target = vt_alloc(k * sizeof *b->target);
    b->z64 = vt_alloc((size_t)vt_classifier_votes(&b->c) * k * sizeof *b->z64);
    if (!b->x || !b->dx || !b->z || !b->target || !b->z64) return vt_fail(e, VT_E_MEMORY, "no memory to measure");
    for (size_t i = 0; i < n; i++) b->x[i] = 0.5f;
    b->target[0] = 1;
    return VT_OK;
}

/* Of this thread's own computing: what else the machine does is left out. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A forward alone, then a gradient, then a verdict if it is asked for. */
static vt_status one_round(bench *b, bool verdict, vt_err *e) {
    vt_loss loss = {.kind = VT_LOSS_CE, .target = b->target};
    float value;
    double t0 = thread_seconds();
    VT_TRY(vt_classifier_logits(&b->c, b->x, b->z, false, e));
    double t1 = thread_seconds();
    VT_TRY(vt_classifier_logits(&b->c, b->x, b->z, true, e));
    VT_TRY(vt_classifier_backward(&b->c, &loss, &value, b->dx, e));
    double t2 = thread_seconds();
    if (verdict) VT_TRY(vt_classifier_logits64(&b->c, b->x, b->z64, e));
    b->forward[b->n] = t1 - t0, b->gradient[b->n] = t2 - t1, b->verdict[b->n] = t1 - t0 + thread_seconds() - t2;
    return VT_OK;
}

static vt_status run_rounds(bench *b, bool verdict, vt_err *e) {
    VT_TRY(one_round(b, verdict, e)); /* the first prepares products */
    double began = vt_now();
    for (; b->n < ROUNDS_MOST && (b->n < ROUNDS_LEAST || vt_now() - began < SECONDS); b->n++)
        VT_TRY(one_round(b, verdict, e));
    return VT_OK;
}

double vt_measure_gradient_cost(const vt_model *m) {
    bench b;
    double ratios[ROUNDS_MOST], cost = NAN;
    if (bench_open(&b, m, NULL) == VT_OK && run_rounds(&b, false, NULL) == VT_OK) {
        for (int i = 0; i < b.n; i++) ratios[i] = b.gradient[i] / b.forward[i];
        cost = vt_median(ratios, (size_t)b.n);
    }
    bench_close(&b);
    return cost;
}

static vt_status measure_bench(void *benches, int thread, size_t item, vt_err *e) {
    (void)thread;
    return run_rounds((bench *)benches + item, true, e);
}

vt_status vt_measure_seconds(vt_seconds *s, const vt_model *m, int threads, vt_err *e) {
    bench *b = calloc((size_t)threads, sizeof *b);
    vt_status st = b ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory to measure");
    for (int i = 0; i < threads && st == VT_OK; i++) st = bench_open(&b[i], m, e);
    if (st == VT_OK) st = vt_for_each((size_t)threads, threads, measure_bench, b, e);
    *s = (vt_seconds){0};
    for (int i = 0; i < threads && st == VT_OK; i++) {
        size_t n = (size_t)b[i].n;
        s->forward += vt_median(b[i].forward, n) / threads, s->gradient += vt_median(b[i].gradient, n) / threads;
        s->verdict += vt_median(b[i].verdict, n) / threads;
    }
    for (int i = 0; b && i < threads; i++) bench_close(&b[i]);
    free(b);
    return st;
}
