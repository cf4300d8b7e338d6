/* SPDX-License-Identifier: MIT */
#include "eval/universal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "eval/evaluate.h"
#include "parallel/threads.h"

#define MOMENTUM 0.9

/* One thread's classifier, image, and what it computes of a draw. */
typedef struct vt_universal_worker {
    vt_classifier model;
    float *x, *dx, *z, *wanted, *g; /* [pixels], [pixels], [classes], [classes], [values] */
    float value;
} worker;

/* ---- the mean gradient ---- */

/* Draws the squares of draw `item` on an image. */
static vt_squares draw_squares(const vt_universal *u, int32_t image, size_t item) {
    const vt_patch *p = &u->v->patch;
    const vt_shape shape = vt_subject_shape(u->v->subject);
    const vt_rng key = {u->v->seed, vt_rng_purpose("universal place"), (uint32_t)image, (uint32_t)item,
                        (uint32_t)u->step};
    vt_squares s = {.size = p->size, .n = p->count};
    for (int k = 0; k < p->count; k++)
        s.at[k] = vt_patch_place(p, shape, (int)vt_rng_below(&key, (uint64_t)k, (uint32_t)vt_patch_places(p, shape)));
    return s;
}

/* Draws an image and its squares, and computes loss and gradient by the picture. */
static vt_status compute_draw(void *ctx, int thread, size_t item, vt_err *e) {
    const vt_universal *u = ctx;
    const vt_subject *subject = u->v->subject;
    worker *w = &u->thread[thread];
    vt_rng key = {.seed = u->v->seed, .purpose = vt_rng_purpose("universal image"), .step = (uint32_t)u->step};
    const int32_t image = u->v->images[vt_rng_below(&key, item, (uint32_t)u->v->n_images)];
    const vt_squares s = draw_squares(u, image, item);
    const vt_loss loss = {.kind = VT_LOSS_MARGIN, .target = w->wanted, .towards = u->target >= 0};
    int label;
    VT_TRY(vt_subject_image(subject, image, w->x, &label, e));
    vt_patch_paste(w->x, &s, vt_subject_shape(subject), u->picture);
    memset(w->wanted, 0, (size_t)w->model.classes * sizeof *w->wanted);
    w->wanted[u->target >= 0 ? u->target : label] = 1;
    key.image = (uint32_t)image, key.run = (uint32_t)item;
    vt_classifier_begin(&w->model, &key);
    VT_TRY(vt_classifier_logits(&w->model, w->x, w->z, true, e));
    VT_TRY(vt_classifier_backward(&w->model, &loss, &w->value, w->dx, e));
    vt_patch_paste_backward(w->g, w->dx, &s, vt_subject_shape(subject));
    if (isfinite(w->value)) return VT_OK;
    return vt_fail(e, VT_E_NUMERIC, "image %d with a patch: the model's logits are not finite", image);
}

/* Adds a draw to the means. */
static void add_draw(void *ctx, int thread, size_t item) {
    vt_universal *u = ctx;
    const worker *w = &u->thread[thread];
    (void)item;
    u->loss += (double)w->value / u->draws;
    for (size_t i = 0; i < vt_shape_values(u->shape); i++) u->gradient[i] += w->g[i] / (float)u->draws;
}

vt_status vt_universal_gradient(vt_universal *u, vt_err *e) {
    memset(u->gradient, 0, vt_shape_values(u->shape) * sizeof *u->gradient);
    u->loss = 0;
    return vt_for_each_in_order((size_t)u->draws, u->threads, compute_draw, add_draw, u, e);
}

/* ---- training ---- */

/* Moves the picture along the sign of the momentum of gradients of unit l1 length, which no scale of the logits
 * changes. */
static void apply_step(vt_universal *u) {
    const size_t n = vt_shape_values(u->shape);
    const double length = vt_length(VT_L1, u->gradient, n), scale = length > 0 ? 1 / length : 0;
    const float step = (float)(u->rate * vt_cosine(u->step, u->steps));
    for (size_t i = 0; i < n; i++) {
        u->momentum[i] = (float)(MOMENTUM * (double)u->momentum[i] + scale * (double)u->gradient[i]);
        const float sign = (float)((u->momentum[i] > 0) - (u->momentum[i] < 0));
        u->picture[i] = fminf(fmaxf(u->picture[i] + step * sign, 0), 1);
    }
}

/* Rounds the picture to k/255. */
static void round_picture(vt_universal *u) {
    for (size_t i = 0; i < vt_shape_values(u->shape); i++) u->picture[i] = rintf(255 * u->picture[i]) / 255;
}

vt_status vt_universal_train(vt_universal *u, vt_err *e) {
    vt_progress progress = u->v->progress;
    progress.unit = "steps";
    vt_progress_begin(&progress, "patch", 0, (size_t)u->steps);
    memset(u->momentum, 0, vt_shape_values(u->shape) * sizeof *u->momentum);
    for (u->step = 0; u->step < u->steps; u->step++) {
        char note[40];
        VT_TRY(vt_check_interrupt(u->v->interrupt, "a patch", e));
        VT_TRY(vt_universal_gradient(u, e));
        apply_step(u);
        snprintf(note, sizeof note, "loss %.4g", u->loss);
        vt_progress_step(&progress, (size_t)u->step + 1, note);
    }
    vt_progress_end(&progress, NULL);
    round_picture(u);
    return VT_OK;
}

/* Opens a thread's classifier and buffers; close it after a failure too. */
static vt_status worker_open(worker *w, const vt_universal *u, vt_err *e) {
    VT_TRY(vt_subject_classifier(&w->model, u->v->subject, NULL, e));
    const size_t pixels = vt_subject_pixels(u->v->subject), classes = (size_t)w->model.classes;
    w->x = vt_alloc((2 * pixels + 2 * classes + vt_shape_values(u->shape)) * sizeof *w->x);
    if (!w->x) return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
    w->dx = w->x + pixels, w->z = w->dx + pixels, w->wanted = w->z + classes, w->g = w->wanted + classes;
    return VT_OK;
}

vt_status vt_universal_open(vt_universal *u, vt_err *e) {
    const vt_rng key = {.seed = u->v->seed, .purpose = vt_rng_purpose("universal start")};
    u->shape = (vt_shape){vt_subject_shape(u->v->subject).channels, u->v->patch.size, u->v->patch.size};
    u->threads = u->v->threads < u->draws ? u->v->threads : u->draws;
    const size_t n = vt_shape_values(u->shape);
    if (!vt_subject_differentiable(u->v->subject))
        return vt_fail(e, VT_E_USAGE, "a patch is trained along gradients, which the model %.300s does not give",
                       u->v->subject->model->path);
    u->picture = vt_alloc(3 * n * sizeof *u->picture), u->thread = calloc((size_t)u->threads, sizeof *u->thread);
    if (!u->picture || !u->thread) return vt_fail(e, VT_E_MEMORY, "no memory to train a patch");
    u->gradient = u->picture + n, u->momentum = u->gradient + n;
    vt_rng_uniforms(&key, u->picture, n);
    round_picture(u);
    for (int i = 0; i < u->threads; i++) VT_TRY(worker_open(&u->thread[i], u, e));
    return VT_OK;
}

void vt_universal_close(vt_universal *u) {
    for (int i = 0; u->thread && i < u->threads; i++) vt_classifier_close(&u->thread[i].model), free(u->thread[i].x);
    free(u->thread), free(u->picture);
    *u = (vt_universal){0};
}

/* ---- its success ---- */

/* Runs the evaluation in memory and counts. */
static vt_status run_and_count(const vt_eval_options *v, int64_t *right, int64_t *fell, vt_err *e) {
    vt_header *header;
    vt_ledger *l = NULL;
    VT_TRY(vt_eval_header(&header, v, e));
    vt_status s = vt_ledger_memory(&l, header, vt_subject_pixels(v->subject), e);
    vt_header_free(header);
    if (s == VT_OK) s = vt_eval_run(v, l, e);
    *right = *fell = 0;
    for (size_t i = 0; s == VT_OK && i < l->count; i++) {
        *right += l->records[i].status == VT_RECORD_CORRECT;
        *fell += l->records[i].status == VT_RECORD_BROKEN;
    }
    vt_ledger_close(l);
    return s;
}

vt_status vt_universal_score(const vt_universal *u, const int32_t *images, size_t n, int64_t *right, int64_t *fell,
                             vt_err *e) {
    vt_eval_options v = *u->v;
    vt_targets targets = {.by = "file", .path = "target", .n = n};
    vt_attack attack;
    VT_TRY(vt_attack_parse(&attack, "universal", VT_NORM_PATCH, e));
    v.attacks = &attack, v.n_attacks = 1, v.images = images, v.n_images = n;
    v.picture = u->picture, v.picture_sha256 = "";
    targets.rows = calloc(n, sizeof *targets.rows);
    vt_status s = targets.rows ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    for (size_t i = 0; s == VT_OK && i < n; i++) targets.rows[i].image = images[i], targets.rows[i].target = u->target;
    if (u->target >= 0) v.targets = &targets;
    if (s == VT_OK) s = run_and_count(&v, right, fell, e);
    free(targets.rows);
    vt_attack_free(&attack);
    return s;
}
