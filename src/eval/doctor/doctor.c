/* SPDX-License-Identifier: MIT */
#include "eval/doctor/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/rand.h"
#include "core/stats.h"
#include "core/threads.h"
#include "models/checkpoint/reorder.h"
#include "models/net/session.h"
#include "nn/loss.h"

/* The chance that a round calls anything better or worse that is not; shared by its tests (Bonferroni), two for each
 * trial and look. */
#define ALPHA 0.01
/* Settings whose losses differ by less than this, in nats and with two standard errors, are the same in practice: a
 * factor of 1.002 on the likelihood. */
#define NEGLIGIBLE 0.002
/* What another network must gain at least, in nats: a slightly wrong activation may calibrate a right network a hair
 * better (docs/images.md has what was measured). */
#define LEAST 0.01

const char *vt_judgement_name(vt_judgement j) {
    static const char *const names[] = {[VT_JUDGE_SAME] = "the same",
                                        [VT_JUDGE_UNDECIDED] = "undecided",
                                        [VT_JUDGE_WORSE] = "worse",
                                        [VT_JUDGE_BETTER] = "better"};
    return names[j];
}

static void trial_free(vt_trial *t) {
    free(t->logits), free(t->losses), free(t->pred);
    t->logits = NULL, t->losses = NULL, t->pred = NULL;
}

void vt_doctor_free(vt_doctor *d) {
    for (int i = 0; i < d->n_trials; i++) trial_free(&d->trials[i]);
    free(d->labels);
    d->n_trials = 0, d->labels = NULL;
}

/* ---- which images ---- */

size_t vt_doctor_sample(int32_t *out, size_t n, const int32_t *of, size_t count) {
    size_t bits = 0, k = 0;
    if (n > count) n = count;
    while ((size_t)1 << bits < n) bits++;
    for (size_t i = 0; i < (size_t)1 << bits; i++) { /* van der Corput's order: bits reversed */
        size_t j = 0;
        for (size_t b = 0; b < bits; b++) j |= (i >> b & 1) << (bits - 1 - b);
        if (j < n) out[k++] = of[j * count / n];
    }
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

/* ---- logits of a trial ---- */

typedef struct look {
    vt_doctor *d;
    vt_trial *t;
    vt_model variant;
    vt_dataset data;
    size_t from;
    vt_session_f32 **sessions; /* [threads] */
    float *x;                  /* [threads, pixels] */
} look;

/* x [pixels] of image number `at`, and its label. */
static vt_status read_image(const look *l, size_t at, float *x, vt_err *e) {
    const vt_config *c = &l->variant.config;
    vt_image im = {0};
    int label;
    if (l->d->interrupt && *l->d->interrupt) return VT_INTERRUPTED;
    VT_TRY(vt_dataset_read_as(&l->data, l->d->images[at], vt_config_shape(c), &im, &label, e));
    for (size_t i = 0, n = vt_config_input_pixels(c); i < n; i++) x[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    l->d->labels[at] = label;
    return VT_OK;
}

static void take_logits(const look *l, size_t at, const float *z) {
    size_t k = (size_t)l->variant.config.classes;
    bool finite = true;
    for (size_t j = 0; j < k; j++) finite = finite && isfinite(z[j]);
    for (size_t j = 0; j < k; j++) l->t->logits[at * k + j] = finite ? z[j] : 0; /* no answer: the loss of chance */
    l->t->pred[at] = finite ? vt_argmax_f32(z, l->variant.config.classes) : -1;
}

static vt_status one_image(void *ctx, int thread, size_t item, vt_err *e) {
    const look *l = ctx;
    float *x = l->x + (size_t)thread * vt_config_input_pixels(&l->variant.config);
    VT_TRY(read_image(l, l->from + item, x, e));
    take_logits(l, l->from + item, vt_session_forward_f32(l->sessions[thread], x, 1, false));
    return VT_OK;
}

/* What the setting does to the pixels of a model that does the rest itself. */
static void prepare_pixels(float *x, float *scratch, const vt_config *c) {
    size_t plane = vt_config_input_pixels(c) / 3;
    memcpy(scratch, x, 3 * plane * sizeof *x);
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < plane; i++) {
            double v = (double)scratch[(c->bgr ? 2 - k : k) * plane + i];
            x[k * plane + i] = (float)((v - c->mean[k]) / c->std[k]);
        }
}

/* Images [l->from, n) in batches of the model in another process. */
static vt_status ask_remote(look *l, vt_engine *engine, size_t n, vt_err *e) {
    size_t rows = (size_t)engine->capacity, pixels = engine->pixels, k = (size_t)engine->classes;
    float *scratch = vt_alloc(pixels * sizeof *scratch), *logits = vt_alloc(rows * k * sizeof *logits);
    const float **x = calloc(rows, sizeof *x);
    float **z = calloc(rows, sizeof *z);
    vt_status s = scratch && logits && x && z ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", rows);
    for (size_t at = l->from; at < n && s == VT_OK; at += rows) {
        size_t now = n - at < rows ? n - at : rows;
        for (size_t i = 0; i < rows; i++) x[i] = NULL, z[i] = logits + i * k;
        for (size_t i = 0; i < now && s == VT_OK; i++) {
            float *to = l->x + i * pixels;
            s = read_image(l, at + i, to, e);
            if (s == VT_OK) prepare_pixels(to, scratch, &l->variant.config);
            x[i] = to;
        }
        if (s == VT_OK) s = vt_engine_forward(engine, z, x, false, e);
        for (size_t i = 0; i < now && s == VT_OK; i++) take_logits(l, at + i, z[i]);
    }
    free(scratch), free(logits), free(x), free(z);
    return s;
}

static vt_status extend_remote(look *l, size_t n, vt_err *e) {
    vt_engine engine;
    VT_TRY(vt_remote_engine(&engine, l->d->remote, vt_remote_usual(l->d->remote), e));
    l->x = vt_alloc((size_t)engine.capacity * engine.pixels * sizeof *l->x);
    vt_status s = l->x ? ask_remote(l, &engine, n, e) : vt_fail(e, VT_E_MEMORY, "no memory for a batch of images");
    free(l->x);
    vt_engine_close(&engine);
    return s;
}

/* Column of a Linear patch embedding that holds channel c of pixel i. */
static size_t patch_column(vt_patch_order order, size_t c, size_t i, size_t pixels) {
    return order == VT_PATCH_HWC ? i * 3 + c : c * pixels + i;
}

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

static vt_status extend_here(look *l, size_t n, vt_err *e) {
    size_t threads = (size_t)l->d->threads;
    const vt_model *m = l->d->model;
    l->sessions = calloc(threads, sizeof *l->sessions);
    l->x = vt_alloc(threads * vt_config_input_pixels(&l->variant.config) * sizeof *l->x);
    vt_status s = l->sessions && l->x ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu threads", threads);
    if (s == VT_OK) s = vt_doctor_variant(&l->variant, m, e);
    for (size_t i = 0; i < threads && s == VT_OK; i++)
        s = vt_session_open_f32(&l->sessions[i], &l->variant, 1, VT_GRAD_NONE, e);
    if (s == VT_OK) s = vt_for_each(n - l->from, l->d->threads, one_image, l, e);
    for (size_t i = 0; l->sessions && i < threads; i++) vt_session_close_f32(l->sessions[i]);
    free(l->sessions), free(l->x);
    if (l->variant.w != m->w) free(l->variant.w);
    return s;
}

/* Images [t->images, n) of a trial. */
static vt_status extend_trial(vt_doctor *d, vt_trial *t, size_t n, vt_err *e) {
    look l = {.d = d, .t = t, .variant = *d->model, .data = *d->data, .from = (size_t)t->images};
    size_t k = (size_t)d->outputs;
    l.variant.config = t->setting.config, l.data.transform = t->setting.transform;
    float *logits = realloc(t->logits, n * k * sizeof *logits);
    if (logits) t->logits = logits;
    double *losses = realloc(t->losses, n * sizeof *losses);
    if (losses) t->losses = losses;
    int32_t *pred = realloc(t->pred, n * sizeof *pred);
    if (pred) t->pred = pred;
    if (!logits || !losses || !pred) return vt_fail(e, VT_E_MEMORY, "no memory for the logits of %zu images", n);
    VT_TRY(d->remote ? extend_remote(&l, n, e) : extend_here(&l, n, e));
    t->images = (int64_t)n;
    return VT_OK;
}

/* ---- numbers of a trial ---- */

/* -log p of the label at inverse temperature b, and the largest probability. */
static double loss_at(const float *z, int k, int label, double b, double *top) {
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < k; j++) max = fmax(max, (double)z[j]);
    for (int j = 0; j < k; j++) sum += exp(b * ((double)z[j] - max));
    if (top) *top = 1 / sum;
    return log(sum) - b * ((double)z[label] - max);
}

/* d/db of the mean loss: E_p[z] - z_label; it grows with b. */
static double slope_at(const vt_doctor *d, const vt_trial *t, double b) {
    double total = 0;
    int k = d->outputs;
    for (int64_t i = 0; i < t->images; i++) {
        const float *z = t->logits + i * k;
        double max = -INFINITY, sum = 0, mean = 0;
        for (int j = 0; j < k; j++) max = fmax(max, (double)z[j]);
        for (int j = 0; j < k; j++) {
            double p = exp(b * ((double)z[j] - max));
            sum += p, mean += p * ((double)z[j] - max);
        }
        total += mean / sum - ((double)z[d->labels[i]] - max);
    }
    return total;
}

/* The loss is convex in b, so bisection finds its minimum: 2^-30 of the range, in the logarithm. */
static double best_inverse_temperature(const vt_doctor *d, const vt_trial *t) {
    double lo = log(1e-3), hi = log(1e2);
    for (int i = 0; i < 30; i++) {
        double mid = (lo + hi) / 2;
        *(slope_at(d, t, exp(mid)) > 0 ? &hi : &lo) = mid;
    }
    return exp((lo + hi) / 2);
}

static void sum_up(const vt_doctor *d, vt_trial *t) {
    double b = best_inverse_temperature(d, t), n = (double)t->images, top;
    t->right = 0, t->confidence = t->loss = t->best_loss = 0;
    for (int64_t i = 0; i < t->images; i++) {
        const float *z = t->logits + i * d->outputs;
        t->right += t->pred[i] == d->labels[i];
        t->loss += loss_at(z, d->outputs, d->labels[i], 1, &top) / n;
        t->confidence += top / n;
        t->losses[i] = loss_at(z, d->outputs, d->labels[i], b, NULL);
        t->best_loss += t->losses[i] / n;
    }
}

/* ---- comparisons ---- */

/* What a one-sided test may err: of one comparison, such that all of a round together err in ALPHA, two for each trial
 * and look; and of a second witness, heard only where the first test has spoken, by looks alone. */
typedef struct level {
    double each, second;
} level;

/* One-sided normal tail of a mean of many differences. */
static double normal_tail(double mean, double error) { return erfc(mean / error / sqrt(2)) / 2; }

static bool of_pixels(const vt_trial *t) { return t->aspect <= VT_ASPECT_RESIZE; }

/* Fills what `a` has of a comparison with b, on the images that both have seen. Better, where only pixels differ: by
 * the loss or by accuracy where the other does not contradict it. Of another network both must say so. */
static vt_judgement compare_trials(const vt_doctor *d, vt_trial *a, const vt_trial *b, level alpha) {
    const int32_t *labels = d->labels;
    int64_t n = a->images < b->images ? a->images : b->images;
    double sum = 0, square = 0;
    a->only_here = a->only_there = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = b->losses[i] - a->losses[i];
        bool here = a->pred[i] == labels[i], there = b->pred[i] == labels[i];
        sum += x, square += x * x;
        a->only_here += here && !there, a->only_there += there && !here;
    }
    vt_mcnemar m = vt_mcnemar_exact(a->only_here, a->only_there);
    a->mcnemar = m.two_sided;
    a->gain = sum / (double)n;
    a->error = n > 1 ? sqrt(fmax(0, square / (double)n - a->gain * a->gain) / (double)(n - 1)) : INFINITY;
    if (fabs(a->gain) + 2 * a->error <= NEGLIGIBLE && m.two_sided > alpha.each) return VT_JUDGE_SAME;
    bool pixels = of_pixels(a) && of_pixels(b);
    double least = pixels ? 0 : LEAST; /* of the test; pixels must gain NEGLIGIBLE here, no more */
    bool better = a->gain > NEGLIGIBLE && a->error > 0 && normal_tail(a->gain - least, a->error) <= alpha.each;
    bool worse = a->error > 0 && normal_tail(-a->gain, a->error) <= alpha.each;
    /* accuracy speaks where the loss does not contradict it, and not at chance, where being wrong is no sign of
     * anything */
    bool right = m.a_better <= alpha.each && a->gain > 0 && !vt_doctor_chance(a->right, a->images, d->outputs);
    bool wrong = m.b_better <= alpha.each && a->gain < 0 && !vt_doctor_chance(b->right, b->images, d->outputs);
    if (pixels ? (better && m.b_better > alpha.each) || right : better && m.a_better <= alpha.second)
        return VT_JUDGE_BETTER;
    if ((worse && m.a_better > alpha.each) || wrong) return VT_JUDGE_WORSE;
    return VT_JUDGE_UNDECIDED;
}

static int class_of(const vt_trial *t) {
    if (t->aspect == VT_ASPECT_NONE) return 3;
    switch (t->judgement) {
    case VT_JUDGE_BETTER: /* settled: another was clearly better than this one */
        return t->settled ? 1 : 0;
    case VT_JUDGE_UNDECIDED:
        return t->gain > 2 * t->error ? 2 : 5;
    case VT_JUDGE_SAME:
        return 4;
    case VT_JUDGE_WORSE:
        break;
    }
    return 6;
}

/* The larger gain first; of equal ones what is first by name: nothing hangs on the order of the list. */
static int by_gain(const vt_trial *a, const vt_trial *b) {
    if (a->gain != b->gain) return a->gain < b->gain ? 1 : -1;
    return strcmp(a->what, b->what);
}

static int by_class_and_gain(const void *x, const void *y) {
    int first = class_of(x), second = class_of(y);
    return first != second ? first - second : by_gain(x, y);
}

/* Judges all against the present one (the first); true: more images could change something. Settles what needs
 * no more: the clearly worse, and what is as good as the present one. */
static bool judge_trials(vt_doctor *d, level alpha) {
    vt_trial *present = &d->trials[0], *leader = present;
    bool open = false;
    for (int i = 1; i < d->n_trials; i++) {
        vt_trial *t = &d->trials[i];
        if (t->settled) continue;
        t->judgement = compare_trials(d, t, present, alpha);
        if (t->judgement == VT_JUDGE_BETTER && (leader == present || by_gain(t, leader) < 0)) leader = t;
    }
    for (int i = 1; i < d->n_trials; i++) {
        vt_trial *t = &d->trials[i], first = *leader;
        if (t->settled || t == leader) continue;
        vt_judgement j = compare_trials(d, &first, t, alpha);
        t->settled = j == VT_JUDGE_BETTER || t->judgement == VT_JUDGE_SAME || t->judgement == VT_JUDGE_WORSE;
        open = open || (!t->settled && (j != VT_JUDGE_SAME || t->judgement == VT_JUDGE_UNDECIDED));
    }
    return open;
}

/* ---- a round ---- */

static vt_status size_of_first(const vt_doctor *d, int *width, int *height, vt_err *e) {
    vt_image im = {0};
    int label;
    VT_TRY(vt_dataset_read(d->data, d->images[0], &im, &label, e));
    *width = im.shape.width, *height = im.shape.height;
    vt_image_free(&im);
    return VT_OK;
}

/* All that are left look at the images up to n. A resize that the pictures do not allow is no trial. */
static vt_status look_at(vt_doctor *d, size_t n, vt_err *e) {
    size_t left = 0;
    for (int i = 0; i < d->n_trials; i++) left += !d->trials[i].settled;
    vt_progress_begin(&d->progress, "doctor", 0, left * n);
    for (int i = 0, done = 0; i < d->n_trials; i++) {
        vt_trial *t = &d->trials[i];
        if (t->settled) continue;
        vt_status s = extend_trial(d, t, n, e);
        if (s == VT_E_SHAPE && i > 0) {
            trial_free(t);
            memmove(t, t + 1, (size_t)(d->n_trials - i - 1) * sizeof *t);
            d->n_trials--, i--;
            continue;
        }
        if (s != VT_OK) return s;
        sum_up(d, t);
        vt_progress_step(&d->progress, (size_t)++done * n, t->what);
    }
    vt_progress_end(&d->progress, NULL);
    return VT_OK;
}

static int count_network_changes(const vt_config *a, const vt_config *b) {
    return (a->heads != b->heads) + (a->post_norm != b->post_norm) + (a->act != b->act);
}

/* Of networks that are clearly better the one with the fewest changes than which the first is not clearly better in
 * turn: a small network hardly tells GELU from ReLU, and then nothing speaks against what was read. */
static void prefer_fewer(vt_doctor *d, const vt_config *present, level alpha) {
    vt_trial *first = &d->trials[0];
    int best = 0;
    if (first->aspect != VT_ASPECT_NETWORK || first->judgement != VT_JUDGE_BETTER) return;
    for (int i = 1; i < d->n_trials; i++) {
        const vt_trial *t = &d->trials[i];
        vt_trial ahead = *first;
        if (t->aspect != VT_ASPECT_NETWORK || t->judgement != VT_JUDGE_BETTER || t->images != first->images) continue;
        bool fewer = count_network_changes(&t->setting.config, present) <
                     count_network_changes(&d->trials[best].setting.config, present);
        if (fewer && compare_trials(d, &ahead, t, alpha) != VT_JUDGE_BETTER) best = i;
    }
    vt_trial found = d->trials[best];
    memmove(&d->trials[1], &d->trials[0], (size_t)best * sizeof found);
    d->trials[0] = found;
}

/* Shuffles the trials after the present one by the seed. */
static void shuffle_trials(vt_doctor *d) {
    const vt_rng rng = {.seed = d->seed, .purpose = vt_rng_purpose("doctor's trials")};
    for (int i = d->n_trials - 1; i > 1; i--) {
        int k = 1 + (int)vt_rng_below(&rng, (uint64_t)i, (uint32_t)i);
        vt_trial swap = d->trials[i];
        d->trials[i] = d->trials[k], d->trials[k] = swap;
    }
}

vt_status vt_doctor_round(vt_doctor *d, const vt_setting *present, vt_err *e) {
    int width, height, looks = 1;
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
    if (d->drawn) shuffle_trials(d);
    size_t n = d->first && d->first < d->n_images ? d->first : d->n_images;
    for (size_t k = n; k < d->n_images; k *= 2) looks++;
    level alpha = {ALPHA / (2.0 * looks * d->n_trials), ALPHA / looks};
    for (;; n = 2 * n < d->n_images ? 2 * n : d->n_images) {
        VT_TRY(look_at(d, n, e));
        if (!judge_trials(d, alpha) || n == d->n_images) break;
    }
    qsort(d->trials, (size_t)d->n_trials, sizeof *d->trials, by_class_and_gain);
    prefer_fewer(d, &present->config, alpha);
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

bool vt_doctor_constant(const vt_doctor *d, const vt_trial *t) {
    size_t row = (size_t)d->outputs;
    bool same = t->images > 1;
    for (size_t i = 1; same && i < (size_t)t->images; i++)
        same = !memcmp(t->logits, t->logits + i * row, row * sizeof *t->logits);
    return same;
}

const vt_trial *vt_doctor_hint(const vt_doctor *d) {
    const vt_trial *now = vt_doctor_present(d), *best = NULL;
    for (int i = 0; i < d->n_trials; i++) { /* in the order of their gains */
        const vt_trial *t = &d->trials[i];
        if (t->judgement != VT_JUDGE_BETTER || t->images != now->images || t->right <= now->right) continue;
        bool own = vt_doctor_own_norm(d->data, &t->setting);
        if (!best || t->right > best->right ||
            (t->right == best->right && own && !vt_doctor_own_norm(d->data, &best->setting)))
            best = t;
    }
    return best;
}
