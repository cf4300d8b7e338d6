/* SPDX-License-Identifier: MIT */
#include "eval/doctor/doctor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "base/stats.h"
#include "parallel/threads.h"
#include "checkpoint/names.h"
#include "nn/loss.h"

/* The chance that a round calls anything better that is not, and the same of worse; shared by its trials (Bonferroni).
 */
#define ALPHA 0.01

const char *vt_judgement_name(vt_judgement j) {
    static const char *const names[] = {[VT_JUDGE_UNDECIDED] = "undecided",
                                        [VT_JUDGE_WORSE] = "worse",
                                        [VT_JUDGE_AS_GOOD] = "as good",
                                        [VT_JUDGE_BETTER] = "better"};
    return names[j];
}

void vt_doctor_free(vt_doctor *d) {
    for (int i = 0; i < d->n_trials; i++) free(d->trials[i].pred);
    free(d->labels);
    d->n_trials = 0, d->labels = NULL;
}

/* ---- which images ---- */

size_t vt_doctor_sample(int32_t *out, size_t n, const int32_t *of, size_t count) {
    if (n > count) n = count;
    for (size_t i = 0; i < n; i++) out[i] = of ? of[i * count / n] : (int32_t)(i * count / n);
    return n;
}

size_t vt_doctor_draw(int32_t *out, size_t n, const int32_t *of, size_t count, uint64_t seed) {
    const vt_rng rng = {.seed = seed, .purpose = vt_rng_purpose("doctor's images")};
    if (n > count) n = count;
    for (size_t i = 0; i < count; i++) { /* the first n shuffled as they come, then a reservoir */
        size_t at = vt_rng_below(&rng, i, (uint32_t)(i + 1));
        if (i < n) out[i] = at < i ? out[at] : of[i];
        if (at < n) out[at] = of[i];
    }
    return n;
}

/* ---- the model under another setting ---- */

/* Returns the column of a Linear patch embedding that holds channel c of pixel i of `pixels`. */
static size_t patch_column(vt_patch_order order, size_t c, size_t i, size_t pixels) {
    return order == VT_PATCH_HWC ? i * 3 + c : c * pixels + i;
}

/* Reorders parameter p [rows, 3 pixels] in w as v's patch order reads the file; m read it in its own. p NULL:
 * nothing. */
static void reorder_rows(float *w, const vt_model *v, const vt_model *m, const vt_param *p, size_t pixels) {
    for (size_t d = 0; p && d < p->numel / (3 * pixels); d++)
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < pixels; i++) {
                size_t k =
                    patch_column(v->config.patch_order, c, i, pixels); /* of the file; where it was put before: */
                bool hwc = m->config.patch_order == VT_PATCH_HWC;
                size_t from = hwc ? k % 3 * pixels + k / 3 : k;
                w[p->offset + (d * 3 + c) * pixels + i] = m->w[p->offset + d * 3 * pixels + from];
            }
}

vt_status vt_doctor_variant(vt_model *v, const vt_model *m, vt_err *e) {
    static const char *const names[] = {"patch_embed.proj.weight", "patch_embed.norm_in.weight",
                                        "patch_embed.norm_in.bias"};
    const size_t pixels = (size_t)(m->config.patch * m->config.patch);
    const vt_config *now = &m->config;
    vt_model file = *v; /* what its forms say of the file, where the model was read otherwise */
    if (file.config.qkv_rows == now->qkv_rows) file.config.qkv_rows = VT_QKV_ROWS;
    if (file.config.class_last == now->class_last) file.config.class_last = false;
    if (fabs(file.config.embed_scale - now->embed_scale) <= 0) file.config.embed_scale = 0;
    const bool other = file.config.qkv_rows || file.config.class_last || file.config.embed_scale > 0;
    if (v->config.patch_order == now->patch_order && !other) return VT_OK;
    float *w = vt_alloc(m->params.total * sizeof *w);
    if (!w) return vt_fail(e, VT_E_MEMORY, "no memory for %zu parameters", m->params.total);
    memcpy(w, m->w, m->params.total * sizeof *w);
    for (size_t i = 0; v->config.patch_order != now->patch_order && i < sizeof names / sizeof *names; i++)
        reorder_rows(w, v, m, vt_model_param(m, names[i]), pixels);
    v->w = file.w = w, v->wt = NULL;
    return other ? vt_model_reorder(&file, e) : VT_OK;
}

/* ---- one trial ---- */

enum { ROWS = 64 }; /* of a batch, at most (remote/remote.h) */

typedef struct measurement {
    vt_doctor *d;
    vt_model variant;
    vt_dataset data;
    vt_engine *engines; /* [threads] */
    size_t capacity;    /* of each engine */
    float *x, *z;       /* [threads, capacity, pixels]; logits [n_images, classes] */
} measurement;

/* Applies c's mean, std and channel order to the pixels of a model that normalises by `own` itself (std 0: it does
 * not).
 */
static void prepare_pixels(float *x, const vt_config *c, const vt_config *own) {
    size_t plane = vt_config_input_pixels(c) / 3;
    for (size_t i = 0; i < plane; i++) {
        const double v[3] = {(double)x[i], (double)x[plane + i], (double)x[2 * plane + i]};
        for (int k = 0; k < 3; k++)
            x[(size_t)k * plane + i] =
                (float)((v[c->bgr ? 2 - k : k] - c->mean[k]) / c->std[k] * (own->std[k] > 0 ? own->std[k] : 1) +
                        own->mean[k]);
    }
}

/* Reads image number `at` of the sample into x [pixels], prepared if pixels alone are tried, and its label into
 * d->labels; VT_INTERRUPTED; VT_E_SHAPE. */
static vt_status read_image(const measurement *m, size_t at, float *x, vt_err *e) {
    const vt_config *c = &m->variant.config;
    vt_image im = {0};
    int label;
    if (m->d->interrupt && *m->d->interrupt) return VT_INTERRUPTED;
    VT_TRY(vt_dataset_read_as(&m->data, m->d->images[at], vt_config_shape(c), &im, &label, e));
    for (size_t i = 0, n = vt_config_input_pixels(c); i < n; i++) x[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    if (vt_doctor_pixels_alone(m->d)) prepare_pixels(x, c, &m->d->model->config);
    m->d->labels[at] = label;
    return VT_OK;
}

/* Computes m->z of one batch of the sample, m->capacity images, and their labels. */
static vt_status one_batch(void *ctx, int thread, size_t batch, vt_err *e) {
    const measurement *m = ctx;
    const float *x[ROWS] = {NULL};
    float *z[ROWS] = {NULL};
    for (size_t i = 0; i < m->capacity && batch * m->capacity + i < m->d->n_images; i++) {
        const size_t at = batch * m->capacity + i;
        float *to = m->x + ((size_t)thread * m->capacity + i) * vt_config_input_pixels(&m->variant.config);
        VT_TRY(read_image(m, at, to, e));
        x[i] = to, z[i] = m->z + at * (size_t)m->d->outputs;
    }
    return vt_engine_forward(&m->engines[thread], z, x, false, e);
}

/* Sets t->pred (-1: not finite), right and constant from z [n_images, outputs]. */
static void count_right(const vt_doctor *d, vt_trial *t, const float *z) {
    const size_t k = (size_t)d->outputs;
    t->right = 0, t->constant = d->n_images > 1;
    for (size_t i = 0; i < d->n_images; i++) {
        bool finite = true;
        for (size_t j = 0; j < k; j++) finite = finite && isfinite(z[i * k + j]);
        t->pred[i] = finite ? vt_argmax_f32(z + i * k, d->outputs) : -1;
        t->right += t->pred[i] == d->labels[i];
        t->constant = t->constant && !memcmp(z, z + i * k, k * sizeof *z);
    }
}

/* Sets t->pred (allocated, also after a failure), right and constant by one setting on all images of the sample, and
 * d->labels. VT_E_SHAPE: the setting does not fit the images. */
static vt_status run_trial(vt_doctor *d, vt_trial *t, vt_err *e) {
    const size_t threads = d->remote ? 1 : (size_t)d->threads;
    measurement m = {.d = d, .variant = *d->model, .data = *d->data};
    m.capacity = d->remote ? (size_t)vt_remote_usual(d->remote) : 1;
    m.variant.config = t->setting.config, m.data.transform = t->setting.transform;
    m.engines = calloc(threads, sizeof *m.engines);
    m.x = vt_alloc(threads * m.capacity * vt_config_input_pixels(&m.variant.config) * sizeof *m.x);
    m.z = vt_alloc(d->n_images * (size_t)d->outputs * sizeof *m.z);
    t->pred = calloc(d->n_images, sizeof *t->pred);
    vt_status s = m.engines && m.x && m.z && t->pred
                      ? VT_OK
                      : vt_fail(e, VT_E_MEMORY, "no memory for the logits of %zu images", d->n_images);
    if (s == VT_OK && !d->remote) s = vt_doctor_variant(&m.variant, d->model, e);
    for (size_t i = 0; i < threads && s == VT_OK; i++)
        s = d->remote ? vt_remote_engine(&m.engines[i], d->remote, (int)m.capacity, e)
                      : vt_engine_open(&m.engines[i], &m.variant, 1, false, NULL, e);
    if (s == VT_OK) s = vt_for_each((d->n_images + m.capacity - 1) / m.capacity, (int)threads, one_batch, &m, e);
    if (s == VT_OK) count_right(d, t, m.z);
    for (size_t i = 0; m.engines && i < threads; i++) vt_engine_close(&m.engines[i]);
    if (m.variant.w != d->model->w) free(m.variant.w);
    free(m.engines), free(m.x), free(m.z);
    return s;
}

/* ---- comparisons ---- */

/* Compares trial `a` with b by McNemar's exact test at level alpha, and sets a's only_here, only_there and mcnemar. Not
 * better if it is at chance: there being right is no sign of anything. */
static vt_judgement compare_trials(const vt_doctor *d, vt_trial *a, const vt_trial *b, double alpha) {
    a->only_here = a->only_there = 0;
    for (size_t i = 0; i < d->n_images; i++) {
        bool here = a->pred[i] == d->labels[i], there = b->pred[i] == d->labels[i];
        a->only_here += here && !there, a->only_there += there && !here;
    }
    vt_mcnemar m = vt_mcnemar_exact(a->only_here, a->only_there);
    a->mcnemar = m.two_sided;
    if (m.a_better <= alpha && !vt_doctor_chance(a->right, (int64_t)d->n_images, d->outputs)) return VT_JUDGE_BETTER;
    return m.b_better <= alpha ? VT_JUDGE_WORSE : VT_JUDGE_UNDECIDED;
}

/* Returns the rank of a trial's judgement: 0 better, 1 the present setting, 2 others. */
static int class_of(const vt_trial *t) {
    return t->judgement == VT_JUDGE_BETTER ? 0 : t->aspect == VT_ASPECT_NONE ? 1 : 2;
}

/* Orders trials for qsort: by rank, then more images right, then mean and std in use for the data, then by name. */
static int by_class_and_right(const void *x, const void *y) {
    const vt_trial *a = x, *b = y;
    if (class_of(a) != class_of(b)) return class_of(a) - class_of(b);
    if (a->right != b->right) return a->right < b->right ? 1 : -1;
    return a->own_norm != b->own_norm ? b->own_norm - a->own_norm : strcmp(a->what, b->what);
}

/* Returns how many of heads, norm order and activation differ. */
static int count_network_changes(const vt_config *a, const vt_config *b) {
    return (a->heads != b->heads) + (a->post_norm != b->post_norm) + (a->act != b->act);
}

/* Marks the better trials that are as good as the first. Among networks the one with the fewest changes takes its
 * place, as d->trials[0]: a small network hardly tells GELU from ReLU, and then nothing speaks against what was
 * read. */
static void find_as_good(vt_doctor *d, const vt_config *present, double alpha) {
    const vt_trial first = d->trials[0];
    int best = 0;
    for (int i = 1; i < d->n_trials && d->trials[i].judgement == VT_JUDGE_BETTER; i++) {
        vt_trial *t = &d->trials[i], ahead = first;
        if (t->aspect != first.aspect || compare_trials(d, &ahead, t, alpha) == VT_JUDGE_BETTER) continue;
        t->judgement = VT_JUDGE_AS_GOOD;
        bool fewer = count_network_changes(&t->setting.config, present) <
                     count_network_changes(&d->trials[best].setting.config, present);
        if (t->aspect == VT_ASPECT_NETWORK && fewer) best = i;
    }
    vt_trial found = d->trials[best];
    memmove(&d->trials[1], &d->trials[0], (size_t)best * sizeof found);
    d->trials[0] = found;
    if (best) d->trials[1].judgement = VT_JUDGE_AS_GOOD, d->trials[0].judgement = VT_JUDGE_BETTER;
}

/* ---- a round ---- */

/* Sets width and height to those of the first image, in pixels. */
static vt_status size_of_first(const vt_doctor *d, int *width, int *height, vt_err *e) {
    vt_image im = {0};
    int label;
    VT_TRY(vt_dataset_read(d->data, d->images[0], &im, &label, e));
    *width = im.shape.width, *height = im.shape.height;
    vt_image_free(&im);
    return VT_OK;
}

/* Runs all trials of the list; one whose resize the pictures do not allow (VT_E_SHAPE), but for the first, is
 * dropped. */
static vt_status run_trials(vt_doctor *d, vt_err *e) {
    vt_progress_begin(&d->progress, "doctor", 0, (size_t)d->n_trials * d->n_images);
    for (int i = 0; i < d->n_trials; i++) {
        vt_trial *t = &d->trials[i];
        vt_status s = run_trial(d, t, e);
        if (s == VT_E_SHAPE && i > 0) {
            free(t->pred);
            memmove(t, t + 1, (size_t)(d->n_trials - i - 1) * sizeof *t);
            d->n_trials--, i--;
            continue;
        }
        VT_TRY(s);
        vt_progress_step(&d->progress, (size_t)(i + 1) * d->n_images, t->what);
    }
    vt_progress_end(&d->progress, NULL);
    return VT_OK;
}

vt_status vt_doctor_round(vt_doctor *d, const vt_setting *present, vt_err *e) {
    int width, height;
    vt_doctor_free(d);
    d->outputs = present->config.classes;
    VT_TRY(size_of_first(d, &width, &height, e));
    if (!(d->labels = calloc(d->n_images, sizeof *d->labels)))
        return vt_fail(e, VT_E_MEMORY, "no memory for %zu labels", d->n_images);
    d->n_trials = vt_doctor_list(d, present, width, height, d->trials, VT_DOCTOR_TRIALS);
    if (d->n_trials < 0) {
        d->n_trials = 0;
        return vt_fail(e, VT_E_MEMORY, "no memory for the settings to try");
    }
    VT_TRY(run_trials(d, e));
    const double alpha = ALPHA / d->n_trials;
    for (int i = 1; i < d->n_trials; i++) {
        vt_trial *t = &d->trials[i];
        t->judgement = compare_trials(d, t, &d->trials[0], alpha);
        t->own_norm = vt_doctor_own_norm(d->data, &t->setting);
    }
    qsort(d->trials, (size_t)d->n_trials, sizeof *d->trials, by_class_and_right);
    find_as_good(d, &present->config, alpha);
    return VT_OK;
}

const vt_trial *vt_doctor_better(const vt_doctor *d) {
    return d->n_trials && d->trials[0].judgement == VT_JUDGE_BETTER ? &d->trials[0] : NULL;
}

const vt_trial *vt_doctor_present(const vt_doctor *d) {
    for (int i = 0; i < d->n_trials; i++)
        if (d->trials[i].aspect == VT_ASPECT_NONE) return &d->trials[i];
    return NULL;
}

bool vt_doctor_chance(int64_t right, int64_t total, int classes) {
    double chance = 1.0 / classes;
    return (double)right < fmin(2 * chance, (1 + chance) / 2) * (double)total;
}
