/* SPDX-License-Identifier: MIT */
/* The active test (Zimmermann et al. 2022, "Increasing confidence in adversarial robustness evaluations"): a
 * two-class head for each image, such that a point of the ball is known to be misclassified, in the logits' original
 * range. The attack under test runs on it with its own settings. Inner points 0.95 eps, one planted corner, closeness
 * 0.999, adaptive rescale. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "eval/verify.h"
#include "selftest/tools.h"

/* ---- the head ----
 * A linear SVM with C = 1e6 on standardised features, by coordinate descent on the dual (Hsieh et al. 2008, algorithm
 * 1, with the bias as a constant feature). Deterministic; ends as soon as the planted point lies on one side and all
 * others on the other. */

#define COST 1e6
#define EPOCHS 2000

/* Returns what float32 leaves of a feature: it was summed from d others of the rows' size, each right to half of
 * FLT_EPSILON, and again in every block before; 8 bounds what all of these together were seen to make. */
static double feature_resolution(const float *x, size_t values, size_t d) {
    double s = 0;
    for (size_t i = 0; i < values; i++) s += (double)x[i] * (double)x[i];
    return 8 * FLT_EPSILON * sqrt((double)d) * sqrt(s / (double)values);
}

size_t vt_standardise(double *mean, double *inverse, const float *x, int n, size_t d) {
    double least = feature_resolution(x, (size_t)n * d, d);
    size_t taken = 0;
    for (size_t j = 0; j < d; j++) {
        double s = 0, s2 = 0;
        for (int i = 0; i < n; i++) s += (double)x[(size_t)i * d + j];
        mean[j] = s / n;
        for (int i = 0; i < n; i++)
            s2 += ((double)x[(size_t)i * d + j] - mean[j]) * ((double)x[(size_t)i * d + j] - mean[j]);
        double deviation = sqrt(s2 / n);
        inverse[j] = deviation > least ? 1 / deviation : 0;
        taken += deviation > least;
    }
    return taken;
}

/* Computes gram [n, n] of the standardised rows, plus the constant feature. */
static void compute_gram_matrix(double *gram, const float *x, const double *mean, const double *inverse, int n,
                                size_t d) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k <= i; k++) {
            double s = 1;
            for (size_t j = 0; j < d; j++)
                s += ((double)x[(size_t)i * d + j] - mean[j]) * ((double)x[(size_t)k * d + j] - mean[j]) * inverse[j] *
                     inverse[j];
            gram[i * n + k] = gram[k * n + i] = s;
        }
}

/* Solves the dual: alpha [n], f [n] decision values. false: the last point is not separated from the others. */
static bool solve_svm_dual(double *alpha, double *f, const double *gram, int n) {
    memset(alpha, 0, (size_t)n * sizeof *alpha);
    memset(f, 0, (size_t)n * sizeof *f);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double worst = 0;
        for (int i = 0; i < n; i++) {
            double y = i == n - 1 ? 1 : -1, slope = y * f[i] - 1;
            double next = fmin(fmax(alpha[i] - slope / gram[i * n + i], 0), COST), step = next - alpha[i];
            if (step == 0) continue;
            alpha[i] = next;
            for (int k = 0; k < n; k++) f[k] += step * y * gram[i * n + k];
            worst = fmax(worst, fabs(slope));
        }
        if (worst < 1e-3) break;
    }
    for (int i = 0; i < n - 1; i++)
        if (!(f[i] < f[n - 1])) return false;
    return f[n - 1] > 0;
}

bool vt_separate(double *w, double *b, const float *x, int n, size_t d, double *scratch) {
    double *gram = scratch, *alpha = gram + (size_t)n * (size_t)n, *f = alpha + n, *mean = f + n, *inverse = mean + d;
    if (!vt_standardise(mean, inverse, x, n, d)) return false;
    compute_gram_matrix(gram, x, mean, inverse, n, d);
    if (!solve_svm_dual(alpha, f, gram, n)) return false;
    memset(w, 0, d * sizeof *w);
    *b = 0;
    for (int i = 0; i < n; i++) {
        double a = i == n - 1 ? alpha[i] : -alpha[i];
        *b += a;
        for (size_t j = 0; a != 0 && j < d; j++) w[j] += a * ((double)x[(size_t)i * d + j] - mean[j]) * inverse[j];
    }
    for (size_t j = 0; j < d; j++) { /* w.(x - mean) inverse + b, as a function of x */
        w[j] *= inverse[j];
        *b -= w[j] * mean[j];
    }
    return true;
}

/* ---- the test ---- */

#define ETA 0.95
#define CLOSENESS 0.999

/* Stores the features of x in row `point` of g->points. */
static void compute_features(vt_tester *g, const float *x, int point) {
    vt_tester_logits(g, &g->features.c, x, g->points + (size_t)point * g->phi, false);
}

/* Fills g->points: row 0 of x, then of inner points, last of the planted point, which is kept in g->planted. */
static void make_points(vt_tester *g) {
    const vt_eval_options *v = g->t->v;
    vt_ball inner, ball;
    vt_rng r = vt_selftest_key(g->t, "selftest inner", g->image);
    compute_features(g, g->x, 0);
    vt_ball_init(&inner, v->norm, ETA * v->eps, g->x, g->pixels, g->attacker.lo, g->attacker.hi);
    for (int i = 0; i < VT_ACTIVE_INNER; i++) {
        r.step = (uint32_t)i;
        (v->norm == VT_LINF ? vt_ball_start_inside : vt_ball_start_surface)(&inner, &r, g->y);
        vt_ball_project(&inner, g->y);
        compute_features(g, g->y, 1 + i);
    }
    vt_ball_init(&ball, v->norm, v->eps, g->x, g->pixels, g->attacker.lo, g->attacker.hi);
    r.purpose = vt_rng_purpose("selftest planted");
    vt_draw_corner(&ball, &r, g->planted);
    vt_ball_project(&ball, g->planted);
    compute_features(g, g->planted, VT_ACTIVE_INNER + 1);
}

/* Measures the smallest logit, and the range of logits, of the model itself on the clean and the planted point. */
static void original_range(vt_tester *g, double *low, double *range) {
    double high = -INFINITY;
    *low = INFINITY;
    for (int i = 0; i < 2; i++) {
        vt_tester_logits(g, &g->model.c, i ? g->planted : g->x, g->z, false);
        for (int k = 0; k < g->classes; k++) *low = fmin(*low, (double)g->z[k]), high = fmax(high, (double)g->z[k]);
    }
    *range = high - *low;
}

/* Makes a head with logits -(w.f + b), +(w.f + b); then the plane is moved to just inside the planted point, and both
 * logits are brought into the original range (the binarisation test of Zimmermann et al. 2022; closeness and range as
 * in their released code). head [2 phi], bias [2]. false: no plane separates the point. */
static bool make_head(vt_tester *g, double *head, double bias[2]) {
    int n = VT_ACTIVE_INNER + 2;
    double *w = head + 2 * g->phi, b, most = 0, planted = 0, low, range;
    if (!vt_separate(w, &b, g->points, n, g->phi, w + g->phi)) return false;
    for (int i = 0; i < n; i++) {
        double f = b;
        for (size_t k = 0; k < g->phi; k++) f += w[k] * (double)g->points[(size_t)i * g->phi + k];
        most = fmax(most, fabs(f));
        planted = f; /* of the last */
    }
    original_range(g, &low, &range);
    if (!(planted > 0 && most > 0 && range > 0)) return false;
    double s = 2 * most / range; /* binary range: max over points and both signs */
    for (size_t k = 0; k < g->phi; k++) head[k] = -w[k] / s, head[g->phi + k] = w[k] / s;
    double offset = low + most / s, shift = CLOSENESS * planted;
    bias[0] = (-b + shift) / s + offset, bias[1] = (b - shift) / s + offset;
    return isfinite(bias[0]) && isfinite(bias[1]);
}

/* Does the planted point count by the same rules as any other: inside, misclassified in both precisions, and x not?
 * false also after a failure of the model, which g->failed keeps. */
static bool planted_counts(vt_tester *g) {
    vt_verdict d;
    bool unsure;
    const vt_eval_options *v = g->t->v;
    if (vt_verify(&d, &g->two.c, g->x, g->planted, 0, v->norm, v->eps, g->z, g->z64, &g->failed) != VT_OK) return false;
    bool good = d.broken && !d.borderline;
    if (vt_predict(&d, &unsure, &g->two.c, g->x, 0, g->z, g->z64, &g->failed) != VT_OK) return false;
    g->forwards += 2;
    return good && d.pred == 0;
}

vt_status vt_active_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    const vt_eval_options *v = g->t->v;
    const vt_attack *a = g->t->attack;
    double bias[2];
    bool surface, corner = false, found = false;
    VT_TRY(vt_tester_load(g, image, "selftest active", e));
    vt_classifier_begin(&g->features.c, &g->key);
    vt_classifier_begin(&g->two.c, &g->key);
    make_points(g);
    if (!make_head(g, g->fit, bias)) return VT_OK;
    vt_head_set(g->two.own, g->fit, bias, 2, g->phi);
    if (!planted_counts(g)) return VT_OK; /* not tested: no evidence */
    VT_TRY(vt_try_noise(g, &g->two.c, 0, VT_ACTIVE_RANDOM / 2, false, &surface));
    if (v->norm == VT_LINF) VT_TRY(vt_try_noise(g, &g->two.c, 0, VT_ACTIVE_RANDOM / 2, true, &corner));
    vt_note_flag(f, VT_FLAG_SURFACE, surface), vt_note_flag(f, VT_FLAG_CORNER, corner);
    for (int k = 0; k < a->n_stages && !found; k++) {
        if (!a->stages[k].def->white_box) continue;
        vt_attack_trial t = {&g->two, &g->two.c, v->eps, 0, a->stages[k].def->name, false};
        VT_TRY(vt_try_attack(g, &a->stages[k], &t, &found, e));
    }
    vt_note_evidence(f, VT_CHECK_ACTIVE, !found);
    return VT_OK;
}
