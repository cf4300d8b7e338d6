/* SPDX-License-Identifier: MIT */
/* From counts to a verdict. */
#include <math.h>
#include <stdio.h>
#include "core/stats.h"
#include "selftest/selftest.h"

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
