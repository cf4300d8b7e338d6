/* SPDX-License-Identifier: MIT */
#include "train/validation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "parallel/threads.h"
#include "train/augment.h"

/* Returns the floats of one thread's buffer: two images and the targets. */
static size_t buffer_length(const vt_model *m) {
    return 2 * vt_config_input_pixels(&m->config) + (size_t)m->config.classes;
}

int64_t vt_validation_count(const vt_recipe *r, const vt_dataset *d) {
    int64_t most = d->split == VT_SPLIT_TRAIN ? d->count / 10 : d->count;
    return r->probe.images < most ? r->probe.images : most;
}

int64_t vt_validation_image(int64_t k, int64_t watched, int64_t count) { return (2 * k + 1) * count / (2 * watched); }

int64_t vt_unwatched_image(int64_t i, int64_t watched, int64_t count) {
    int64_t lo = 0, hi = watched; /* the number k of watched images at or before it: image k - k <= i for all of them */
    while (lo < hi) {
        int64_t k = (lo + hi) / 2;
        if (vt_validation_image(k, watched, count) - k <= i)
            lo = k + 1;
        else
            hi = k;
    }
    return i + lo;
}

size_t vt_validation_bytes(const vt_recipe *r, const vt_model *m, int threads) {
    if (!r->probe.images) return 0;
    size_t one = vt_inner_bytes(m, r->probe.attack, (vt_norm)r->attack.norm) + buffer_length(m) * sizeof(float);
    return (size_t)threads * one;
}

vt_status vt_validation_open(vt_validation *w, const vt_recipe *r, const vt_model *m, const vt_dataset *d, int threads,
                             vt_team *team, vt_err *e) {
    *w = (vt_validation){.r = r, .m = m, .data = d, .threads = threads, .team = team};
    w->count = d ? vt_validation_count(r, d) : 0;
    if (!w->count) return VT_OK;
    w->inner = calloc((size_t)threads, sizeof *w->inner);
    w->buffer = vt_alloc((size_t)threads * buffer_length(m) * sizeof(float));
    w->right = vt_alloc(2 * (size_t)w->count);
    w->all = vt_alloc(2 * (size_t)w->count * (size_t)vt_team_size(team));
    if (!w->inner || !w->buffer || !w->right || !w->all)
        return vt_fail(e, VT_E_MEMORY, "no memory to watch %d images", r->probe.images);
    for (int i = 0; i < threads; i++)
        VT_TRY(vt_inner_open(&w->inner[i], m, r->probe.attack, (vt_norm)r->attack.norm, VT_INNER_LABEL, 0, NULL,
                             (uint64_t)r->top.seed, e));
    return VT_OK;
}

void vt_validation_close(vt_validation *w) {
    for (int i = 0; w->inner && i < w->threads; i++) vt_inner_close(&w->inner[i]);
    free(w->inner), free(w->buffer), free(w->right), free(w->all);
    memset(w, 0, sizeof *w);
}

bool vt_validation_collapsed(double single, double single_before, double robust, double robust_best, int64_t images) {
    double error = sqrt(robust_best * (1 - robust_best) / (double)images);
    return single > single_before && robust_best >= 0.05 && robust < robust_best / 2 &&
           robust_best - robust > 3 * error;
}

/* For vt_for_each: classifies this rank's image number `own`, clean and, if that is right and the recipe names a
 * radius, attacked, into w->right; the attack's draws are keyed by the image's number. */
static vt_status validate_image(void *ctx, int thread, size_t own, vt_err *e) {
    static const vt_recipe_augment none = {0};
    static const vt_mix unmixed = {.kind = VT_MIX_NONE, .lambda = 1};
    vt_validation *w = ctx;
    vt_inner *in = &w->inner[thread];
    size_t item = own * (size_t)vt_team_size(w->team) + (size_t)vt_team_rank(w->team);
    int k = w->m->config.classes, y;
    float *x = w->buffer + (size_t)thread * buffer_length(w->m), *adv = x + vt_config_input_pixels(&w->m->config),
          *target = adv + vt_config_input_pixels(&w->m->config);
    VT_TRY(vt_augment_image(x, &y, w->data, vt_validation_image((int64_t)item, w->count, w->data->count),
                            vt_config_input(&w->m->config), &none, 0, 0, e));
    VT_TRY(vt_classifier_logits(&in->model, x, in->z, false, e));
    w->right[item] = vt_argmax_f32(in->z, k) == y;
    w->right[w->count + (int64_t)item] = 0;
    if (!w->right[item] || !(w->r->probe.eps > 0)) return VT_OK;
    vt_mix_target(target, y, y, &unmixed, 0, k);
    VT_TRY(vt_inner_run(in, adv, x, target, w->r->probe.eps, (int64_t)item, 0, 0, 1, e));
    VT_TRY(vt_classifier_logits(&in->model, adv, in->z, false, e));
    w->right[w->count + (int64_t)item] = vt_argmax_f32(in->z, k) == y;
    return VT_OK;
}

/* Sets w->right to what every rank found of its images. Collective. */
static void gather_results(vt_validation *w) {
    size_t n = 2 * (size_t)w->count;
    int size = w->team->size;
    w->team->ops->gather(w->team->ctx, w->right, n, w->all);
    for (int64_t i = 0; i < w->count; i++) {
        const unsigned char *from = w->all + (size_t)(i % size) * n;
        w->right[i] = from[i], w->right[w->count + i] = from[w->count + i];
    }
}

vt_status vt_validation_run(vt_validation *w, double *clean, double *robust, vt_err *e) {
    *clean = *robust = -1;
    if (!w->count) return VT_OK;
    int size = vt_team_size(w->team);
    size_t own = (size_t)((w->count - vt_team_rank(w->team) + size - 1) / size);
    VT_TRY(vt_team_agree(w->team, vt_for_each(own, w->threads, validate_image, w, e), e));
    if (w->team) gather_results(w);
    int64_t right = 0, held = 0;
    for (int64_t i = 0; i < w->count; i++) right += w->right[i], held += w->right[w->count + i];
    *clean = (double)right / (double)w->count;
    if (w->r->probe.eps > 0) *robust = (double)held / (double)w->count;
    return VT_OK;
}
