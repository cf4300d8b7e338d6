/* SPDX-License-Identifier: MIT */
#include "eval/verify.h"

#include <math.h>
#include "base/stats.h"

static void measure_distances(vt_verdict *v, const float *x, const float *y, size_t n, vt_norm norm, double eps) {
    long double squares = 0, sum = 0;
    double largest = 0, differ = 0;
    bool fine = true;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        fine = fine && y[i] >= 0 && y[i] <= 1 && isfinite(d);
        squares += (long double)d * (long double)d;
        sum += (long double)fabs(d);
        differ += y[i] != x[i];
        if (fabs(d) > largest) largest = fabs(d);
    }
    v->linf = largest, v->l2 = (double)sqrtl(squares), v->l1 = (double)sum;
    v->l0 = differ;
    v->inside = fine && (norm == VT_LINF ? v->linf : norm == VT_L2 ? v->l2 : norm == VT_L1 ? v->l1 : v->l0) <= eps;
}

vt_rng vt_verdict_key(uint64_t seed, int32_t image, int entry, int stage) {
    const char *purpose = entry ? "verdict" : "clean";
    uint32_t run = (uint32_t)entry << 16 | (uint32_t)stage;
    return (vt_rng){.seed = seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)image, .run = run};
}

bool vt_verdict_open(const vt_verdict *v) { return vt_mcnemar_exact(v->wrong, v->votes - v->wrong).two_sided >= 0.05; }

/* What is asked of a point: another class than the label, or (target >= 0) that one. */
typedef struct question {
    int label, target;
} question;

static bool is_adversarial_class(question q, int pred) { return q.target < 0 ? pred != q.label : pred == q.target; }

/* vt_verdict.margin */
static double margin_of(question q, const double *z, int classes) {
    int from = q.target < 0 ? q.label : q.target;
    double most = -INFINITY;
    for (int k = 0; k < classes; k++)
        if (k != from) most = fmax(most, z[k] - z[from]);
    return q.target < 0 ? most : -most;
}

static void decide_if_broken(vt_verdict *v, question q) {
    v->broken = v->inside && v->finite && is_adversarial_class(q, v->pred);
    if (v->votes) {
        v->broken = v->inside && v->finite && 2 * v->wrong > v->votes;
        v->borderline = v->broken && vt_verdict_open(v);
        return;
    }
    v->borderline = v->broken && (!is_adversarial_class(q, v->pred64) || !(v->margin > v->noise) ||
                                  (v->again && !(v->margin64 > v->noise)));
}

/* The largest difference of any two of them, of so many [rows, n]. */
static double noise_of(const float *z, const double *z64, int rows, int n) {
    double most = 0;
    for (int k = 0; k < n; k++) {
        double low = (double)z[k], high = low;
        for (int r = 0; r < rows; r++) low = fmin(low, z64[r * n + k]), high = fmax(high, z64[r * n + k]);
        most = fmax(most, high - low);
    }
    return most;
}

/* What most repeated queries say, of those that are wrong (hit) where these are more than half, else of the others. */
static int majority_class(const int *pred, const vt_verdict *v, question q) {
    int best = q.label, most = 0;
    bool wrong = 2 * v->wrong > v->votes;
    for (int r = 0; r < v->votes; r++) {
        int same = 0;
        for (int k = 0; k < v->votes; k++) same += pred[k] == pred[r];
        if (is_adversarial_class(q, pred[r]) == wrong && same > most) best = pred[r], most = same;
    }
    return best;
}

/* The repeated queries in z64, beside z: pred64 and margin64 are those of the least sure of them. Of a model that draws
 * pred is what most of them say, and the margins are means. Returns how many are wrong. */
static int combine_answers(vt_verdict *v, const vt_classifier *m, question q, const float *z, const double *z64) {
    int rows = vt_classifier_votes(m), n = m->classes, wrong = 0, pred[VT_VOTES_MOST];
    double sum = 0;
    v->margin64 = INFINITY, v->pred64 = 0, v->votes = v->wrong = 0, v->again = rows > 1;
    v->noise = noise_of(z, z64, rows, n);
    for (int r = 0; r < rows; r++) {
        const double *at = z64 + r * n;
        double margin = margin_of(q, at, n);
        pred[r] = 0;
        for (int k = 0; k < n; k++)
            if (at[k] > at[pred[r]]) pred[r] = k;
        if (margin < v->margin64) v->margin64 = margin, v->pred64 = pred[r];
        sum += margin, wrong += is_adversarial_class(q, pred[r]);
    }
    if (!m->random) return wrong;
    v->votes = rows, v->wrong = wrong;
    v->pred = v->pred64 = majority_class(pred, v, q);
    v->margin = v->margin64 = sum / rows;
    return wrong;
}

/* pred and margin of float logits; false: they are not all finite, and the margin is NaN. */
static bool first_answer(vt_verdict *v, question q, const float *z, int classes) {
    int from = q.target < 0 ? q.label : q.target;
    double most = -INFINITY;
    bool good = true;
    v->pred = 0;
    for (int k = 0; k < classes; k++) {
        if (z[k] > z[v->pred]) v->pred = k;
        good = good && isfinite(z[k]);
        if (k != from) most = fmax(most, (double)z[k] - (double)z[from]);
    }
    v->margin = !good ? NAN : q.target < 0 ? most : -most;
    return good;
}

vt_status vt_predict(vt_verdict *v, bool *unsure, const vt_classifier *m, const float *x, int label, float *z,
                     double *z64, vt_err *e) {
    const question q = {label, -1};
    *v = (vt_verdict){.inside = true, .finite = true, .pred64 = -1, .margin64 = NAN};
    *unsure = false;
    VT_TRY(vt_classifier_alone(m, x, z, e));
    if (!first_answer(v, q, z, m->classes) || vt_classifier_votes(m) == 1) return VT_OK;
    VT_TRY(vt_classifier_logits64(m, x, z64, e));
    bool first = v->pred != label;
    int wrong = combine_answers(v, m, q, z, z64);
    *unsure = v->votes ? vt_verdict_open(v) : wrong != first * vt_classifier_votes(m);
    v->pred64 = -1, v->margin64 = NAN;
    return VT_OK;
}

static vt_status judge_candidate(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, question q,
                                 vt_norm norm, double eps, float *z, double *z64, vt_err *e) {
    measure_distances(v, x, x_adv, m->pixels, norm, eps);
    VT_TRY(vt_classifier_alone(m, x_adv, z, e));
    VT_TRY(vt_classifier_logits64(m, x_adv, z64, e));
    bool good = first_answer(v, q, z, m->classes), good64 = true;
    for (int k = 0; k < m->classes * vt_classifier_votes(m); k++) good64 = good64 && isfinite(z64[k]);
    combine_answers(v, m, q, z, z64);
    v->finite = good && good64;
    if (!good) v->margin = NAN;
    if (!good64) v->margin64 = NAN;
    decide_if_broken(v, q);
    return VT_OK;
}

vt_status vt_verify(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, int label, vt_norm norm,
                    double eps, float *z, double *z64, vt_err *e) {
    return judge_candidate(v, m, x, x_adv, (question){label, -1}, norm, eps, z, z64, e);
}

/* After vt_verify, for a paper's evaluator: the point counts wherever it lies, as the paper counted it. */
static void as_published(vt_verdict *v, question q) {
    v->inside = true;
    decide_if_broken(v, q);
}

double vt_allowance(double each, const vt_terms *t, size_t n) {
    if (t->patch.size || t->norm == VT_L0) return 0;
    return each * (t->norm == VT_LINF ? 1 : t->norm == VT_L2 ? sqrt((double)n) : (double)n);
}

vt_status vt_verify_by(vt_verdict *v, const vt_terms *t, const vt_classifier *m, const vt_rng *key, const float *x,
                       const float *x_adv, vt_shape shape, int label, float *z, double *z64, vt_err *e) {
    bool eight = t->scoring == VT_SCORE_EIGHT_BIT;
    const question q = {label, t->target ? *t->target : -1};
    vt_classifier_begin(m, key);
    VT_TRY(judge_candidate(v, m, x, x_adv, q, t->norm, eight ? INFINITY : t->eps, z, z64, e));
    if (t->patch.size) vt_verify_patch(v, x, x_adv, shape, &t->patch);
    if (eight) vt_verify_eight_bit(v, x, x_adv, m->pixels, t->norm, t->eps);
    if (t->scoring == VT_SCORE_PUBLISHED) as_published(v, q);
    return VT_OK;
}

vt_record_status vt_clean_status(const vt_verdict *v, int label) {
    return !isfinite(v->margin) ? VT_RECORD_NOT_FINITE : v->pred == label ? VT_RECORD_CORRECT : VT_RECORD_WRONG;
}

vt_record_status vt_verdict_status(const vt_verdict *v) {
    return !v->finite   ? VT_RECORD_NOT_FINITE
           : !v->inside ? VT_RECORD_INVALID
           : v->broken  ? VT_RECORD_BROKEN
                        : VT_RECORD_ROBUST;
}
