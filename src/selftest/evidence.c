/* SPDX-License-Identifier: MIT */
/* From what the parts found to hits and trials of each check, and from these to a verdict. */
#include <math.h>
#include <stdio.h>
#include "base/stats.h"
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

/* ---- verdict ---- */

static double log_choose(int64_t n, int64_t k) {
    int sign; /* lgamma would write a global */
    return lgamma_r((double)n + 1, &sign) - lgamma_r((double)k + 1, &sign) - lgamma_r((double)(n - k) + 1, &sign);
}

double vt_binomial_tail(int64_t k, int64_t n, double rate) {
    double sum = 0;
    if (k <= 0) return 1;
    for (int64_t i = n; i >= k; i--) /* the small terms first */
        sum += exp(log_choose(n, i) + (double)i * log(rate) + (double)(n - i) * log1p(-rate));
    return fmin(1, sum);
}

const char *vt_grade_name(vt_grade g) {
    static const char *const names[VT_GRADE_COUNT] = {[VT_GRADE_NO_SIGN] = "no sign of masking",
                                                      [VT_GRADE_DOUBTFUL] = "doubtful",
                                                      [VT_GRADE_MASKED] = "gradients are masked",
                                                      [VT_GRADE_NONE] = "not tested"};
    return names[g];
}

bool vt_selftest_guesses(int64_t right, int64_t images, int classes) {
    double rate = 1.0 / classes;
    if (classes < 2 || right < 1) return true;
    double mid_p = (vt_binomial_tail(right, images, rate) + vt_binomial_tail(right + 1, images, rate)) / 2;
    return mid_p > VT_ALPHA_GUESS * (1 + 1e-9); /* 1 of 1 of 10 classes is 0.05 up to rounding */
}

int vt_selftest_made(const vt_selftest *t) {
    int made = 0;
    for (int i = 0; i < VT_CHECK_COUNT; i++) made += t->checks[i].trials > 0;
    return made;
}

static void judge_active(vt_active *a) {
    int64_t valid = a->attacked, random = a->random_corner;
    if (a->random_surface > random) random = a->random_surface;
    vt_wilson_at(a->found, valid, VT_Z_TWO_SIDED, &a->low, &a->high);
    a->passed = valid > 0 && a->low >= 0.95 && 2 * random <= valid && 20 * a->setup_failed <= a->images;
}

void vt_selftest_judge(vt_selftest *t) {
    double p[VT_CHECK_COUNT], adjusted[VT_CHECK_COUNT];
    int made[VT_CHECK_COUNT], n = 0;
    judge_active(&t->active);
    t->grade = VT_GRADE_NO_SIGN;
    for (int i = 0; i < VT_CHECK_COUNT; i++) {
        vt_check *c = &t->checks[i];
        c->p = c->adjusted = 1;
        if (!c->trials) continue;
        c->p = vt_binomial_tail(c->hits, c->trials, c->rate);
        made[n] = i, p[n++] = c->p;
    }
    vt_holm(adjusted, p, n);
    for (int i = 0; i < n; i++) {
        vt_check *c = &t->checks[made[i]];
        c->adjusted = adjusted[i];
        vt_grade g = c->adjusted <= VT_ALPHA_MASKED     ? VT_GRADE_MASKED
                     : c->adjusted <= VT_ALPHA_DOUBTFUL ? VT_GRADE_DOUBTFUL
                                                        : VT_GRADE_NO_SIGN;
        if (g > t->grade) t->grade = g;
    }
    if (n) return;
    t->grade = VT_GRADE_NONE;
    if (!*t->nothing) snprintf(t->nothing, sizeof t->nothing, "no check could be made");
}
