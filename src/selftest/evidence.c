/* SPDX-License-Identifier: MIT */
/* Turns what the parts found into hits and trials of each check. */
#include <math.h>
#include <stdlib.h>
#include "core/sort.h"
#include "models/arch.h"
#include "selftest/tools.h"

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

void vt_count_scale(vt_selftest *t, const vt_scale *s, const int32_t *images, size_t n) {
    double values[VT_PART_MOST];
    for (int k = 0; k < VT_SCALE_COUNT; k++) {
        for (size_t i = 0; i < n; i++) values[i] = s[i].value[k];
        if (k != VT_SCALE_BACKWARD || (n && s[0].backward))
            count_value_trials(&t->checks[VT_CHECK_SEGMENT + k], values, images, n);
    }
    t->scaled = (int64_t)n;
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

void vt_count_ways(vt_selftest *t, const vt_ways *w, const int32_t *images, size_t n, size_t searched) {
    double values[VT_PART_MOST];
    int32_t of[VT_PART_MOST];
    size_t heads = 0;
    for (size_t i = 0; i < n; i++) {
        count_trial(&t->checks[VT_CHECK_NOISE], w[i].noise, images[i]);
        if (!t->v->subject->remote) count_trial(&t->checks[VT_CHECK_TWIN], w[i].twin, images[i]);
        if (!t->v->subject->remote) count_trial(&t->checks[VT_CHECK_PROBE], w[i].probe, images[i]);
        count_trial(&t->checks[VT_CHECK_SMOOTH], w[i].smooth, images[i]);
        if (i < searched) count_trial(&t->checks[VT_CHECK_SQUARE], w[i].square, images[i]);
        if (w[i].head_tried) values[heads] = w[i].head, of[heads++] = images[i];
    }
    count_value_trials(&t->checks[VT_CHECK_HEAD], values, of, heads);
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
