/* SPDX-License-Identifier: MIT */
/* One thread's tools to look at a checkpoint on images (vt_analysis_worker). */
#include "research/analysis/analyze.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/min_norm.h"
#include "base/mem.h"
#include "parallel/threads.h"
#include "models/net/session64.h"

/* An attack's task for the model's input shape and classes, without image or threat. */
static vt_task task_of_model(const vt_analyzed *s) {
    return vt_attacker_dims(vt_config_shape(&s->model->config), s->model->config.classes, NULL);
}

/* Floats of scratch for the command's attack and, usually enough, for vt_analysis_worker_nearest's. */
static size_t scratch_length(const vt_analyze *a, const vt_analyzed *s) {
    size_t most = 8 * vt_config_input_pixels(&s->model->config) + 4 * (size_t)s->model->config.classes;
    const vt_task dims = task_of_model(s);
    size_t own = a->attack ? vt_attacker_work(a->attack, &dims) : 0;
    return own > most ? own : most;
}

size_t vt_analysis_worker_bytes(const vt_analyze *a, const vt_analyzed *s) {
    size_t n = vt_config_input_pixels(&s->model->config);
    return vt_session_bytes_f64(s->model, 1, VT_GRAD_INPUT) + vt_session_bytes_f32(s->model, 1, VT_GRAD_INPUT) +
           (4 * n + scratch_length(a, s)) * sizeof(float) + 2 * n * sizeof(double);
}

/* Opens sessions, attacker and buffers of one thread; a failure leaves what close_worker frees. */
static vt_status open_worker(vt_analysis_worker *b, const vt_analyze *a, const vt_analyzed *s, vt_err *e) {
    const vt_task dims = task_of_model(s);
    *b = (vt_analysis_worker){.a = a, .s = s, .pixels = dims.n, .shape = dims.shape, .classes = dims.classes};
    size_t bytes = b->pixels * sizeof(float), k = (size_t)b->classes;
    VT_TRY(vt_session_open_f64(&b->session, s->model, 1, VT_GRAD_INPUT, e));
    VT_TRY(vt_classifier_open(&b->model, s->model, e));
    VT_TRY(vt_oracle_open(&b->oracle, &b->model, e));
    b->oracle.interrupt = a->interrupt;
    VT_TRY(vt_attacker_open(&b->attacker, b->shape, scratch_length(a, s), e));
    b->x = vt_alloc(bytes), b->z = vt_alloc(k * sizeof(float));
    b->x64 = vt_alloc(2 * bytes), b->adv64 = vt_alloc(2 * bytes), b->z64 = vt_alloc(k * sizeof(double));
    if (b->x && b->z && b->x64 && b->adv64 && b->z64) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

/* Frees all of one worker; accepts a zeroed one. */
static void close_worker(vt_analysis_worker *b) {
    void *blocks[] = {b->x, b->z, b->x64, b->adv64, b->z64};
    vt_session_close_f64(b->session);
    vt_attacker_close(&b->attacker);
    vt_oracle_close(&b->oracle), vt_classifier_close(&b->model);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
}

/* Runs one attack stage to its end from the clean image, keyed by seed, stage and image; its point is in
 * attacker.x_adv. A failure names the image. */
static vt_status run_stage(vt_analysis_worker *b, const vt_attack_stage *stage, vt_oracle_mode mode, vt_norm norm,
                           double eps, vt_err *e) {
    vt_task t = {.clean = b->x, .label = b->label, .classes = b->classes, .norm = norm, .eps = eps, .mode = mode};
    t.rng = (vt_rng){.seed = b->a->seed, .purpose = vt_rng_purpose(stage->def->name), .image = (uint32_t)b->image};
    vt_status s = vt_attacker_run(&b->attacker, &b->oracle, stage, &t);
    if (s == VT_INTERRUPTED) return vt_fail(e, s, "interrupted; an analysis keeps nothing half done");
    if (s == VT_OK) return VT_OK;
    return vt_fail(e, s, "image %d: %s failed: %.1800s", b->image, stage->def->name, vt_attacker_why(&b->oracle, s));
}

/* Runs all stages until one's point is misclassified; no stage is left early. Sets attacked, broken, adv64,
 * attacker.x_adv and z. */
static vt_status attack_image(vt_analysis_worker *b, vt_err *e) {
    b->attacked = true, b->broken = false;
    for (int k = 0; k < b->a->attack->n_stages && !b->broken; k++) {
        VT_TRY(run_stage(b, &b->a->attack->stages[k], VT_ORACLE_EXHAUSTIVE, b->a->norm, b->a->eps, e));
        VT_TRY(vt_classifier_logits(&b->model, b->attacker.x_adv, b->z, false, e));
        b->broken = vt_argmax_f32(b->z, b->classes) != b->label;
    }
    for (size_t i = 0; i < b->pixels; i++) b->adv64[i] = (double)b->attacker.x_adv[i];
    return VT_OK;
}

vt_status vt_analysis_worker_nearest(vt_analysis_worker *b, const vt_attack_stage *stage, vt_norm norm,
                                     double *distance, vt_err *e) {
    const vt_task dims = task_of_model(b->s);
    if (vt_attack_work_len(stage, &dims) > b->attacker.work_len)
        return vt_fail(e, VT_E_RANGE, "%s wants more scratch memory than an analysis keeps", stage->def->name);
    VT_TRY(run_stage(b, stage, VT_ORACLE_MIN_DISTANCE, norm, vt_box_radius(norm, b->x, b->pixels), e));
    *distance = b->oracle.has_found ? b->oracle.found_value : INFINITY;
    return VT_OK;
}

typedef struct job {
    vt_analysis_worker *benches;
    const vt_analyze *a;
    vt_analysis_image_fn fn;
    void *ctx;
    size_t done;
} job;

/* Work item of vt_for_each_in_order: reads image i into the thread's worker, attacks it if a->attack, and calls fn.
 * VT_INTERRUPTED, or the failure of one of them. */
static vt_status process_image(void *ctx, int thread, size_t i, vt_err *e) {
    job *j = ctx;
    vt_analysis_worker *b = &j->benches[thread];
    vt_image im = {0};
    VT_TRY(vt_check_interrupt(j->a->interrupt, "an analysis", e));
    b->image = j->a->images[i];
    VT_TRY(vt_dataset_read_as(b->s->data, b->image, b->shape, &im, &b->label, e));
    for (size_t k = 0; k < b->pixels; k++) b->x[k] = vt_image_at(&im, k), b->x64[k] = (double)b->x[k];
    vt_image_free(&im);
    if (j->a->attack) VT_TRY(attack_image(b, e));
    return j->fn(j->ctx, b, i, e);
}

/* In image order: counts one image in the progress. */
static void report_progress(void *ctx, int thread, size_t i) {
    job *j = ctx;
    (void)thread, (void)i;
    if (j->a->progress) vt_progress_step(j->a->progress, ++j->done, "");
}

vt_status vt_analysis_images(const vt_analyze *a, const vt_analyzed *s, vt_analysis_image_fn fn, void *ctx, vt_err *e) {
    int threads = a->threads < (int)a->n_images ? a->threads : (int)a->n_images;
    job j = {.a = a, .fn = fn, .ctx = ctx, .benches = calloc((size_t)threads, sizeof *j.benches)};
    vt_status st = j.benches ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %d threads", threads);
    for (int i = 0; i < threads && st == VT_OK; i++) st = open_worker(&j.benches[i], a, s, e);
    if (st == VT_OK && a->progress) vt_progress_begin(a->progress, s->path, 0, a->n_images);
    if (st == VT_OK) st = vt_for_each_in_order(a->n_images, threads, process_image, report_progress, &j, e);
    if (st == VT_OK && a->progress) vt_progress_end(a->progress, "");
    for (int i = 0; i < threads && j.benches; i++) close_worker(&j.benches[i]);
    free(j.benches);
    return st;
}
