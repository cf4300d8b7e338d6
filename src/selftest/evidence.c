/* SPDX-License-Identifier: MIT */
/* From what the parts found to hits and trials of each check, and from these to a verdict. */
#include <math.h>
#include <stdio.h>
#include "base/stats.h"
#include "selftest/tools.h"

/* Counts one image: a trial, and a hit if it is against the hypothesis. */
static void count_trial(vt_check *c, bool against, int32_t image) {
    c->trials++;
    if (!against) return;
    c->hits++;
    if (c->n_images < (int)(sizeof c->images / sizeof *c->images)) c->images[c->n_images++] = image;
}

/* Adds one check's trials on n images to c, and sets its median if it has a bound; of such a check NaN says no more
 * than a value beyond it. */
static void count_check(vt_check *c, int id, const vt_evidence *found, const int32_t *images, size_t n) {
    double values[VT_PART_MOST];
    size_t tried = 0;
    for (size_t i = 0; i < n; i++) {
        double v = found[i].value[id];
        if (!(found[i].tried >> id & 1)) continue;
        count_trial(c, c->bound > 0 ? !(v <= c->bound) : found[i].against >> id & 1, images[i]);
        values[tried++] = isnan(v) ? INFINITY : v;
    }
    if (tried && c->bound > 0) c->median = vt_median(values, tried);
}

void vt_count(vt_selftest *t, const vt_evidence *found, const int32_t *images, size_t n) {
    for (int id = 0; id < VT_CHECK_COUNT; id++) count_check(&t->checks[id], id, found, images, n);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < VT_FLAG_COUNT; k++) t->flags[k] += found[i].flags >> k & 1;
}

/* Was a right image left by white-box attacks and then tried by a random search? */
static bool left_to_random_search(const vt_standing *s) { return s->right && s->random && !s->white; }

bool vt_count_square(vt_selftest *t, vt_standing *s) {
    vt_check c = {.rate = 0.02};
    for (size_t i = 0; t->ledger && i < t->v->n_images; i++)
        if (left_to_random_search(&s[i])) count_trial(&c, s[i].random_broke, t->v->images[i]);
    t->square_broken = c.hits, t->run_images = t->ledger ? (int64_t)t->v->n_images : 0;
    if (c.trials < 4) return false;
    c.p = c.adjusted = 1;
    t->checks[VT_CHECK_SQUARE] = c;
    for (size_t i = 0; i < t->v->n_images; i++) s[i].looked |= left_to_random_search(&s[i]);
    return true;
}

/* ---- verdict ---- */

/* Returns the logarithm of n over k. */
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

/* Sets the interval of the active test's success rate, and whether it passed. */
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
