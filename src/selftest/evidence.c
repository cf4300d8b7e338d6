/* SPDX-License-Identifier: MIT */
/* Turns what the parts found into hits and trials of each check. */
#include <math.h>
#include <stdlib.h>
#include "core/sort.h"
#include "models/arch.h"
#include "selftest/tools.h"

void vt_selftest_rates(vt_selftest *t) {
    static const struct {
        double rate, bound;
    } rows[VT_CHECK_COUNT] =
        {[VT_CHECK_RANDOM] = {0.01, 0},     [VT_CHECK_FLAT] = {0.01, 0},      [VT_CHECK_ZERO] = {0.01, 0},
         [VT_CHECK_CONSTANT] = {0.01, 0},   [VT_CHECK_ATTENTION] = {0.01, 0}, [VT_CHECK_WRONG] = {0.1, 0},
         [VT_CHECK_DERIVATIVE] = {0.1, 0},  [VT_CHECK_BATCH] = {0.01, 0},     [VT_CHECK_SEGMENT] = {0.1, 0.05},
         [VT_CHECK_PATH] = {0.35, 0.5},     [VT_CHECK_SCALE] = {0.1, 1},      [VT_CHECK_ROUGH] = {0.1, 1},
         [VT_CHECK_BACKWARD] = {0.05, 0.1}, [VT_CHECK_STEPS] = {0.5, 0},      [VT_CHECK_RADIUS] = {0.5, 0},
         [VT_CHECK_WHOLE] = {0.05, 0},      [VT_CHECK_NOISE] = {0.05, 0},     [VT_CHECK_TWIN] = {0.05, 0},
         [VT_CHECK_PROBE] = {0.05, 0},      [VT_CHECK_WAKEUP] = {0.05, 0},    [VT_CHECK_HEAD] = {0.1, 0.95},
         [VT_CHECK_SMOOTH] = {0.05, 0},     [VT_CHECK_SQUARE] = {0.05, 0},    [VT_CHECK_ACTIVE] = {0.05, 0}};
    for (int i = 0; i < VT_CHECK_COUNT; i++)
        t->checks[i] = (vt_check){.rate = rows[i].rate, .bound = rows[i].bound, .p = 1, .adjusted = 1};
}

static void count_trial(vt_check *c, bool against, int32_t image) {
    c->trials++;
    if (!against) return;
    c->hits++;
    if (c->n_images < (int)(sizeof c->images / sizeof *c->images)) c->images[c->n_images++] = image;
}

/* n values of a check, in place; NaN says no more than a value beyond the bound. */
static void count_value_trials(vt_check *c, double *values, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        count_trial(c, !(values[i] <= c->bound), images[i]);
        if (isnan(values[i])) values[i] = INFINITY;
    }
    if (n) c->median = vt_median(values, n);
}

void vt_count_direct(vt_selftest *t, const vt_direct *d, const int32_t *images, size_t n) {
    const vt_arch *arch = vt_arch_find(t->v->subject->model->config.arch);
    for (size_t i = 0; i < n; i++) {
        for (int k = VT_CHECK_RANDOM; k <= VT_CHECK_WRONG; k++)
            if (k != VT_CHECK_ATTENTION || (arch && arch->shows_attention))
                count_trial(&t->checks[k], d[i].bits >> k & 1, images[i]);
        if (d[i].claims) count_trial(&t->checks[VT_CHECK_DERIVATIVE], d[i].bits >> VT_CHECK_DERIVATIVE & 1, images[i]);
        if (d[i].again) count_trial(&t->checks[VT_CHECK_BATCH], d[i].bits >> VT_CHECK_BATCH & 1, images[i]);
        t->flags.clips += d[i].clips;
        for (int k = 0; k < VT_LOSS_COUNT; k++) t->flags.zero[k] += d[i].zero[k];
        t->flags.saturated += d[i].saturated;
        t->flags.softmax += d[i].softmax;
        t->flags.random += d[i].bits >> VT_CHECK_RANDOM & 1;
    }
    t->flags.looked = t->direct = (int64_t)n;
}

vt_status vt_count_scale(vt_selftest *t, const vt_scale *s, const int32_t *images, size_t n, vt_err *e) {
    double *values = calloc(n + 1, sizeof *values);
    if (!values) return vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    for (int k = 0; k < VT_SCALE_COUNT; k++) {
        for (size_t i = 0; i < n; i++) values[i] = s[i].value[k];
        if (k != VT_SCALE_BACKWARD || (n && s[0].backward))
            count_value_trials(&t->checks[VT_CHECK_SEGMENT + k], values, images, n);
    }
    t->scaled = (int64_t)n;
    free(values);
    return VT_OK;
}

void vt_count_strength(vt_selftest *t, const vt_strength *f, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (f[i].brief != f[i].white) count_trial(&t->checks[VT_CHECK_STEPS], f[i].brief, images[i]);
        if (f[i].half != f[i].white) count_trial(&t->checks[VT_CHECK_RADIUS], f[i].half, images[i]);
        if (f[i].whole_tried) count_trial(&t->checks[VT_CHECK_WHOLE], !f[i].whole, images[i]);
        t->survivors += !f[i].white;
    }
    t->attacked += (int64_t)n;
}

vt_status vt_count_ways(vt_selftest *t, const vt_ways *w, const int32_t *images, size_t n, size_t searched, vt_err *e) {
    double *values = calloc(n + 1, sizeof *values);
    int32_t *of = calloc(n + 1, sizeof *of);
    size_t heads = 0;
    for (size_t i = 0; values && of && i < n; i++) {
        count_trial(&t->checks[VT_CHECK_NOISE], w[i].noise, images[i]);
        if (!t->v->subject->remote) count_trial(&t->checks[VT_CHECK_TWIN], w[i].twin, images[i]);
        if (!t->v->subject->remote) count_trial(&t->checks[VT_CHECK_PROBE], w[i].probe, images[i]);
        count_trial(&t->checks[VT_CHECK_SMOOTH], w[i].smooth, images[i]);
        if (i < searched) count_trial(&t->checks[VT_CHECK_SQUARE], w[i].square, images[i]);
        if (w[i].head_tried) values[heads] = w[i].head, of[heads++] = images[i];
    }
    if (values && of) count_value_trials(&t->checks[VT_CHECK_HEAD], values, of, heads);
    vt_status s = values && of ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the self-test");
    free(values), free(of);
    return s;
}

static bool searched_alone(const vt_standing *s) { return s->right && s->random && !s->white; }

bool vt_count_square(vt_selftest *t, vt_standing *s) {
    vt_check c = {.rate = 0.02};
    for (size_t i = 0; t->ledger && i < t->v->n_images; i++)
        if (searched_alone(&s[i])) count_trial(&c, s[i].random_broke, t->v->images[i]);
    t->flags.square = c.hits, t->flags.images = t->ledger ? (int64_t)t->v->n_images : 0;
    if (c.trials < 4) return false;
    c.p = c.adjusted = 1;
    t->checks[VT_CHECK_SQUARE] = c;
    for (size_t i = 0; i < t->v->n_images; i++) s[i].looked |= searched_alone(&s[i]);
    return true;
}

void vt_count_active(vt_selftest *t, const vt_active_bits *b, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        t->active.images++;
        t->active.setup_failed += !b[i].setup;
        t->active.random_surface += b[i].surface, t->active.random_corner += b[i].corner;
        if (!b[i].setup) continue; /* says nothing: what is not tested is no evidence */
        t->active.attacked++;
        t->active.found += b[i].found;
        count_trial(&t->checks[VT_CHECK_ACTIVE], !b[i].found, images[i]);
    }
}

void vt_count_wakeup(vt_selftest *t, const vt_wakeup *w, int points, const int32_t *images, size_t n) {
    for (size_t i = 0; i < n; i++) {
        vt_wakeup all = {0};
        for (int k = 0; k < points; k++) {
            const vt_wakeup *one = &w[(size_t)k * n + i];
            all.tried |= one->tried, all.broken |= one->broken;
        }
        if (all.tried) count_trial(&t->checks[VT_CHECK_WAKEUP], all.broken, images[i]);
    }
}
