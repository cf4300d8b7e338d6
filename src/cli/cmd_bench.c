/* SPDX-License-Identifier: MIT */
/* vitrine bench: images and floating-point operations a second of a forward and of a gradient step, beside sgemm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/oracle.h"
#include "cli/cli.h"
#include "linalg/gemm.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/rand.h"
#include "base/stats.h"
#include "parallel/threads.h"
#include "eval/options.h"
#include "models/arch.h"
#include "models/net/session.h"

#define SIDE 1024 /* of the square matrix product that stands for the machine's ceiling */
#define ROUNDS 5

/* One thread's share: the oracle that attacks call, on a random image. */
typedef struct bench_thread {
    vt_classifier model, draft;
    vt_oracle oracle, search; /* search: on the products of --search */
    vt_ball ball;
    float *x, *lo, *hi, *dx, *a, *b, *c;
    vt_session_f32 *session; /* training: MICRO images, with parameter gradients */
    float *batch, *dz, *grad;
} bench_thread;

typedef enum work { CEILING, CEILING_OPENBLAS, FORWARD, GRADIENT, SEARCH, TRAINING, WORKS } work;
#define MICRO 16 /* images of a training micro-batch */

typedef struct bench {
    bench_thread *threads_of;
    int threads;
    bool left_out[WORKS]; /* what is asked for: SEARCH and TRAINING */
    vt_subject subject;   /* the model, and how it is searched */
    work what;
    double seconds; /* of one measurement */
    double *rate;   /* [threads] calls a second */
} bench;

/* Accepts a zeroed one. */
static void close_thread(bench_thread *l) {
    vt_oracle_close(&l->oracle), vt_oracle_close(&l->search);
    vt_classifier_close(&l->model), vt_classifier_close(&l->draft);
    vt_session_close_f32(l->session);
    free(l->batch), free(l->dz), free(l->grad);
    free(l->x), free(l->lo), free(l->hi), free(l->dx), free(l->a), free(l->b), free(l->c);
}

/* Opens a session for micro-batches of MICRO random images and random cotangents of their logits. */
static vt_status open_training(bench_thread *l, const vt_model *m, int index, vt_err *e) {
    size_t scores = MICRO * (size_t)m->config.classes, pixels = MICRO * l->model.pixels;
    VT_TRY(vt_session_open_f32(&l->session, m, MICRO, VT_GRAD_PARAMS, e));
    l->batch = vt_alloc(pixels * sizeof(float)), l->dz = vt_alloc(scores * sizeof(float));
    l->grad = vt_alloc(m->params.total * sizeof(float));
    if (!l->batch || !l->dz || !l->grad) return vt_fail(e, VT_E_MEMORY, "no memory to measure");
    vt_rng r = {.purpose = vt_rng_purpose("bench"), .image = (uint32_t)index, .run = 1};
    vt_rng_uniforms(&r, l->batch, pixels);
    vt_rng_uniforms(&r, l->dz, scores);
    return VT_OK;
}

/* Opens the model with an oracle, a random image in an linf ball of 8/255, and two random SIDE x SIDE matrices. */
static vt_status open_thread(bench_thread *l, const vt_model *m, int index, vt_err *e) {
    VT_TRY(vt_classifier_open(&l->model, m, e));
    VT_TRY(vt_oracle_open(&l->oracle, &l->model, e));
    size_t bytes = l->model.pixels * sizeof(float), side = SIDE * SIDE * sizeof(float);
    l->x = vt_alloc(bytes), l->lo = vt_alloc(bytes), l->hi = vt_alloc(bytes), l->dx = vt_alloc(bytes);
    l->a = vt_alloc(side), l->b = vt_alloc(side), l->c = vt_alloc(side);
    if (!l->x || !l->lo || !l->hi || !l->dx || !l->a || !l->b || !l->c)
        return vt_fail(e, VT_E_MEMORY, "no memory to measure");
    vt_rng r = {.purpose = vt_rng_purpose("bench"), .image = (uint32_t)index};
    vt_rng_uniforms(&r, l->x, l->model.pixels);
    vt_rng_uniforms(&r, l->a, SIDE * SIDE);
    vt_rng_uniforms(&r, l->b, SIDE * SIDE);
    vt_ball_init(&l->ball, VT_LINF, 8 / 255.0, l->x, l->model.pixels, l->lo, l->hi);
    l->oracle.mode = VT_ORACLE_EXHAUSTIVE; /* no call ends early */
    vt_oracle_reset(&l->oracle, &l->ball, 0, true);
    return VT_OK;
}

/* Opens an oracle on the products that --search names. */
static vt_status open_search(bench_thread *l, const vt_subject *s, vt_err *e) {
    vt_engine n;
    VT_TRY(vt_subject_draft_engine(&n, s, 1, e));
    VT_TRY(vt_classifier_of(&l->draft, &n, e));
    VT_TRY(vt_oracle_open(&l->search, &l->draft, e));
    l->search.mode = VT_ORACLE_NO_VERDICT;
    vt_oracle_reset(&l->search, &l->ball, 0, true);
    return VT_OK;
}

/* Makes call i of one kind of work: a matrix product, a forward, a gradient or a training pass. */
static vt_status run_work_once(bench_thread *l, work what, int i) {
    float value;
    vt_loss ce = vt_oracle_loss(&l->oracle, VT_LOSS_CE);
    l->x[0] = (float)(i & 1); /* a new point each time, as in an attack: no forward is shared */
    switch (what) {
    case CEILING:
        vt_gemm_f32(false, false, SIDE, SIDE, SIDE, 1, l->a, SIDE, l->b, SIDE, 0, l->c, SIDE);
        return VT_OK;
    case CEILING_OPENBLAS:
        vt_gemm_openblas_f32(false, false, SIDE, SIDE, SIDE, 1, l->a, SIDE, l->b, SIDE, 0, l->c, SIDE);
        return VT_OK;
    case WORKS:
    case FORWARD:
        return vt_oracle_logits(&l->oracle, l->x, NULL);
    case GRADIENT:
        return vt_oracle_gradient(&l->oracle, l->x, &ce, NULL, &value, l->dx);
    case SEARCH:
        return vt_oracle_gradient(&l->search, l->x, &ce, NULL, &value, l->dx);
    case TRAINING:
        vt_session_forward_f32(l->session, l->batch, MICRO, true);
        vt_session_backward_f32(l->session, l->dz, NULL, l->grad);
        return VT_OK;
    }
    return VT_OK;
}

/* Repeats the work on one thread for b->seconds and stores its calls a second in b->rate[thread]. */
static vt_status measure_lane(void *ctx, int thread, size_t item, vt_err *e) {
    bench *b = ctx;
    (void)item, (void)e;
    double began = vt_now(), now;
    int n = 0;
    do {
        VT_TRY(run_work_once(&b->threads_of[thread], b->what, n));
        n++;
        now = vt_now();
    } while (now - began < b->seconds);
    b->rate[thread] = n / (now - began);
    return VT_OK;
}

/* Measures the calls a second of all threads together; 0 for work that was not asked for. */
static vt_status measure_rate(bench *b, work what, double *rate, vt_err *e) {
    *rate = 0, b->what = what;
    if (b->left_out[what]) return VT_OK;
    memset(b->rate, 0, (size_t)b->threads * sizeof *b->rate);
    VT_TRY(vt_for_each((size_t)b->threads, b->threads, measure_lane, b, e));
    for (int i = 0; i < b->threads; i++) *rate += b->rate[i];
    return VT_OK;
}

/* Measures all kinds of work ROUNDS times, interleaved, so that a machine that slows down slows all of them, and prints
 * the medians as a table. The ceiling of a round is the faster of two libraries at a large square product. */
static vt_status measure_all(bench *b, const vt_model *m, vt_err *e) {
    double rate[WORKS][ROUNDS], share[WORKS][ROUNDS], flop[WORKS], warm, in_batch, unused;
    flop[CEILING] = flop[CEILING_OPENBLAS] = 2.0 * SIDE * SIDE * SIDE;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &flop[FORWARD], &flop[GRADIENT]);
    flop[SEARCH] = flop[GRADIENT];
    vt_arch_find(m->config.arch)->flops(&m->config, false, &in_batch, &unused);
    flop[TRAINING] = 3 * in_batch; /* every product once forward, twice backward */
    for (int w = 0; w < WORKS; w++) VT_TRY(measure_rate(b, (work)w, &warm, e));
    for (int r = 0; r < ROUNDS; r++) {
        for (int w = 0; w < WORKS; w++) VT_TRY(measure_rate(b, (work)w, &rate[w][r], e));
        rate[TRAINING][r] *= MICRO;
        double top = fmax(rate[CEILING][r], rate[CEILING_OPENBLAS][r]) * flop[CEILING];
        for (int w = 0; w < WORKS; w++) share[w][r] = rate[w][r] * flop[w] / top;
    }
    static const char *const names[] = {"sgemm oneDNN",  "sgemm OpenBLAS", "forward",
                                        "gradient step", "the same, bf16", "training pass"};
    char kernels[128];
    vt_gemm_kernels(kernels, sizeof kernels);
    printf("%d thread%s, %s on %s; median of %d rounds of %.2g s\n", b->threads, b->threads == 1 ? "" : "s", kernels,
           vt_cpu_isa(), ROUNDS, b->seconds);
    printf("bfloat16 (--search bf16): %s\n",
           vt_bf16_hardware() ? vt_bf16_hardware() : "none, this processor has neither AVX512-BF16 nor AMX");
    printf("%-15s %12s %12s %12s %10s\n", "", "images/s", "GFLOP/image", "GFLOP/s", "% ceiling");
    for (int w = 0; w < WORKS; w++) {
        if (b->left_out[w]) continue;
        double r = vt_median(rate[w], ROUNDS), s = vt_median(share[w], ROUNDS);
        if (w < FORWARD)
            printf("%-15s %12s %12s %12.1f %10.1f\n", names[w], "", "", r * flop[w] * 1e-9, 100 * s);
        else
            printf("%-15s %12.1f %12.4f %12.1f %10.1f\n", names[w], r, flop[w] * 1e-9, r * flop[w] * 1e-9, 100 * s);
    }
    return VT_OK;
}

/* Reads --search into b->subject and, for bfloat16 in hardware, packs the model's matrices into *packed. */
static vt_status prepare_search(bench *b, vt_packed **packed, const vt_cli *c, vt_model *m, vt_err *e) {
    b->subject.model = m;
    VT_TRY(vt_search_parse(&c->given, &b->subject, e));
    b->left_out[SEARCH] = !b->subject.search;
    if (b->subject.search != VT_PRODUCTS_BF16) return VT_OK;
    vt_status s = vt_model_pack(packed, m, e);
    b->subject.packed = *packed;
    return s;
}

/* Runs vitrine bench: opens sessions for every thread and measures what they do in --ms of each kind of work. */
static vt_status run(const vt_cli *c, vt_err *e) {
    long long threads, ms;
    VT_TRY(vt_cli_threads(c, &threads, e));
    VT_TRY(vt_cli_int(c, "ms", 10, 60000, 500, &ms, e));
    vt_model *m;
    VT_TRY(vt_cli_model(c, &m, e));
    bench b = {.threads = (int)threads, .seconds = (double)ms / 1000};
    b.left_out[TRAINING] = !vt_cli_has(c, "train");
    b.threads_of = calloc((size_t)threads, sizeof *b.threads_of);
    b.rate = calloc((size_t)threads, sizeof *b.rate);
    vt_status s = b.threads_of && b.rate ? vt_cli_known(c, m, e) : vt_fail(e, VT_E_MEMORY, "no memory to measure");
    for (int i = 0; i < threads && s == VT_OK; i++) s = open_thread(&b.threads_of[i], m, i, e);
    for (int i = 0; i < threads && s == VT_OK && !b.left_out[TRAINING]; i++)
        s = open_training(&b.threads_of[i], m, i, e);
    vt_packed *packed = NULL;
    if (s == VT_OK) s = prepare_search(&b, &packed, c, m, e);
    for (int i = 0; i < threads && s == VT_OK && !b.left_out[SEARCH]; i++)
        s = open_search(&b.threads_of[i], &b.subject, e);
    if (s == VT_OK) s = measure_all(&b, m, e);
    for (int i = 0; b.threads_of && i < threads; i++) close_thread(&b.threads_of[i]);
    free(b.threads_of), free(b.rate);
    vt_packed_free(packed);
    vt_model_close(m);
    return s;
}

static const vt_arg args[] = {
    {"threads", "N", "threads, one image each (default OMP_NUM_THREADS, else all cores given)", VT_OF_RUN},
    {"search", "auto|bf16|bf16-emulated", "also a gradient step on those products", VT_OF_RUN},
    {"train", NULL, "also forward and full backward of micro-batches of 16 images", VT_OF_RUN},
    {"ms", "N", "milliseconds of one measurement (default 500)", VT_OF_RUN},
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_bench = {
    .name = "bench",
    .summary = "images/s and GFLOP/s of forward and gradient step, beside the sgemm ceiling",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "Timed on the path that attacks use (the oracle, one image a thread). GFLOP counts the matrix products "
               "that are really executed: the last block's projection and MLP run on the tokens that the head reads.",
    .examples = {"vitrine bench weights/shapes10-vit --ms 50",
                 "vitrine bench weights/shapes10-vit --ms 50 --threads 1 --train"},
    .run = run,
};
