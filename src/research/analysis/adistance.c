/* SPDX-License-Identifier: MIT */
#include "research/analysis/adistance.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "research/analysis/logistic.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rand.h"
#include "parallel/threads.h"

/* One fold's work: its training rows, standardised, with a 1 after each. */
typedef struct scratch {
    double *x, *w, *mean, *scale; /* [2 n, d + 1], [d + 1], [d] twice */
    bool *yes;                    /* [2 n] */
} scratch;

typedef struct job {
    const vt_adistance *o;
    vt_adistance_result *r;
    const double *x;
    size_t n, d;
    int *fold; /* [n] of each pair */
    size_t wrong[VT_ADISTANCE_FOLDS], tested[VT_ADISTANCE_FOLDS];
    double gradient[VT_ADISTANCE_FOLDS];
} job;

/* Takes one fold's arrays for 2 n rows of d features from arena a; an arena without base only counts the bytes. */
static void lay_out_buffers(scratch *g, vt_arena *a, size_t n, size_t d) {
    g->x = vt_arena_take(a, 2 * n * (d + 1), sizeof *g->x);
    g->w = vt_arena_take(a, d + 1, sizeof *g->w);
    g->mean = vt_arena_take(a, d, sizeof *g->mean), g->scale = vt_arena_take(a, d, sizeof *g->scale);
    g->yes = vt_arena_take(a, 2 * n, sizeof *g->yes);
}

size_t vt_adistance_bytes(size_t n, size_t d, int threads) {
    scratch g;
    vt_arena a = {0};
    lay_out_buffers(&g, &a, n, d);
    return (size_t)threads * (a.used + vt_logistic_bytes(2 * n, d + 1));
}

typedef struct ticket {
    uint64_t draw;
    size_t pair;
} ticket;

/* qsort order of tickets: ascending draw, then ascending pair. */
static int by_draw(const void *a_, const void *b_) {
    const ticket *a = a_, *b = b_;
    return a->draw != b->draw ? (a->draw > b->draw ? 1 : -1) : (a->pair > b->pair) - (a->pair < b->pair);
}

/* Sets fold[pair] for n pairs: shuffled by the seed, then dealt in turn, so that fold sizes differ by at most one. */
static vt_status assign_folds(job *j, vt_err *e) {
    vt_rng r = {.seed = j->o->seed, .purpose = vt_rng_purpose("analyze features folds")};
    ticket *t = calloc(j->n, sizeof *t);
    j->fold = calloc(j->n, sizeof *j->fold);
    if (!t || !j->fold) {
        free(t);
        return vt_fail(e, VT_E_MEMORY, "no memory for folds of %zu pairs", j->n);
    }
    for (size_t i = 0; i < j->n; i++)
        t[i] = (ticket){(uint64_t)vt_rng_bits(&r, 2 * i) << 32 | vt_rng_bits(&r, 2 * i + 1), i};
    qsort(t, j->n, sizeof *t, by_draw);
    for (size_t i = 0; i < j->n; i++) j->fold[t[i].pair] = (int)(i % (size_t)j->o->folds);
    free(t);
    return VT_OK;
}

/* Returns whether a row of x [2 n, d] is held out in a fold; both rows of a pair share its fold. */
static bool is_test_row(const job *j, size_t row, int fold) { return j->fold[row % j->n] == fold; }

/* Sets mean and scale [d], 1 / population deviation of the fold's training rows; scale 0 if a feature is constant. */
static void fit_standardisation(scratch *g, const job *j, int fold) {
    size_t d = j->d, n = 0;
    memset(g->mean, 0, d * sizeof *g->mean), memset(g->scale, 0, d * sizeof *g->scale);
    for (size_t i = 0; i < 2 * j->n; i++) {
        if (is_test_row(j, i, fold)) continue;
        n++;
        for (size_t k = 0; k < d; k++) g->mean[k] += j->x[i * d + k];
    }
    for (size_t k = 0; k < d; k++) g->mean[k] /= (double)n;
    for (size_t i = 0; i < 2 * j->n; i++)
        for (size_t k = 0; k < d && !is_test_row(j, i, fold); k++) {
            double t = j->x[i * d + k] - g->mean[k];
            g->scale[k] += t * t;
        }
    for (size_t k = 0; k < d; k++) {
        double deviation = sqrt(g->scale[k] / (double)n);
        /* what is left of a constant is rounding of its mean */
        g->scale[k] = deviation > 1e-12 * fabs(g->mean[k]) ? 1 / deviation : 0;
    }
}

/* to [d + 1] = (x - mean) * scale, then a 1 for the bias. */
static void standardise_row(double *to, const scratch *g, const double *x, size_t d) {
    for (size_t k = 0; k < d; k++) to[k] = (x[k] - g->mean[k]) * g->scale[k];
    to[d] = 1;
}

/* Fits the classifier on rows outside the fold; counts tested and wrong rows of the fold, keeps the fit's gradient. */
static vt_status train_and_test(scratch *g, job *j, int fold, vt_err *e) {
    size_t d = j->d, n = 0;
    fit_standardisation(g, j, fold);
    for (size_t i = 0; i < 2 * j->n; i++)
        if (!is_test_row(j, i, fold)) g->yes[n] = i >= j->n, standardise_row(g->x + n++ * (d + 1), g, j->x + i * d, d);
    const vt_logistic l = {.x = g->x, .yes = g->yes, .n = n, .m = d + 1, .lambda = j->o->lambda};
    VT_TRY(vt_logistic_fit(g->w, &j->gradient[fold], &l, e));
    for (size_t i = 0; i < 2 * j->n; i++) {
        if (!is_test_row(j, i, fold)) continue;
        double f = 0;
        standardise_row(g->x, g, j->x + i * d, d);
        for (size_t k = 0; k <= d; k++) f += g->w[k] * g->x[k];
        j->tested[fold]++, j->wrong[fold] += (f > 0) != (i >= j->n);
    }
    return VT_OK;
}

/* Work item of vt_for_each: allocates scratch, trains and tests fold `item`. VT_E_MEMORY, or an interrupt's status. */
static vt_status run_fold(void *ctx, int thread, size_t item, vt_err *e) {
    job *j = ctx;
    scratch g;
    vt_arena a = {0};
    (void)thread;
    VT_TRY(vt_check_interrupt(j->o->interrupt, "an analysis", e));
    lay_out_buffers(&g, &a, j->n, j->d);
    a = (vt_arena){.base = vt_alloc(a.used), .size = a.used};
    if (!a.base) return vt_fail(e, VT_E_MEMORY, "no memory for a fold of %zu x %zu features", 2 * j->n, j->d);
    lay_out_buffers(&g, &a, j->n, j->d);
    vt_status s = train_and_test(&g, j, (int)item, e);
    free(a.base);
    return s;
}

/* 2 (1 - 2 wrong / tested) */
static double distance_from_errors(size_t wrong, size_t tested) { return 2 * (1 - 2 * (double)wrong / (double)tested); }

/* Fills the result from the folds' counts: value over all 2 n rows, sample deviation of the folds' distances. */
static void summarise_folds(job *j) {
    vt_adistance_result *r = j->r;
    int folds = j->o->folds;
    double mean = 0, squares = 0;
    *r = (vt_adistance_result){0};
    for (int f = 0; f < folds; f++) {
        r->wrong += j->wrong[f], r->gradient = fmax(r->gradient, j->gradient[f]);
        r->of_fold[f] = distance_from_errors(j->wrong[f], j->tested[f]), mean += r->of_fold[f] / folds;
    }
    for (int f = 0; f < folds; f++) squares += (r->of_fold[f] - mean) * (r->of_fold[f] - mean);
    r->value = distance_from_errors(r->wrong, 2 * j->n), r->spread = sqrt(squares / (folds - 1));
}

vt_status vt_adistance_run(vt_adistance_result *r, const double *x, size_t n, size_t d, const vt_adistance *o,
                           vt_err *e) {
    job j = {.o = o, .r = r, .x = x, .n = n, .d = d};
    if (o->folds < 2 || o->folds > VT_ADISTANCE_FOLDS || (size_t)o->folds > n)
        return vt_fail(e, VT_E_RANGE, "%d folds of %zu pairs; there must be 2 to %d, and a pair for each", o->folds, n,
                       VT_ADISTANCE_FOLDS);
    vt_status s = assign_folds(&j, e);
    if (s == VT_OK) s = vt_for_each((size_t)o->folds, o->threads, run_fold, &j, e);
    if (s == VT_OK) summarise_folds(&j);
    free(j.fold);
    return s;
}
