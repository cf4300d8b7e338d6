/* SPDX-License-Identifier: MIT */
#include "eval/verify.h"

#include <math.h>

static void measure(vt_verdict *v, const float *x, const float *y, size_t n, vt_norm norm, double eps) {
    long double squares = 0, sum = 0;
    double largest = 0;
    bool fine = true;
    for (size_t i = 0; i < n; i++) {
        double d = (double)y[i] - (double)x[i];
        fine = fine && y[i] >= 0 && y[i] <= 1 && isfinite(d);
        squares += (long double)d * (long double)d;
        sum += (long double)fabs(d);
        if (fabs(d) > largest) largest = fabs(d);
    }
    v->linf = largest, v->l2 = (double)sqrtl(squares), v->l1 = (double)sum;
    v->inside = fine && (norm == VT_LINF ? v->linf : norm == VT_L2 ? v->l2 : v->l1) <= eps;
}

vt_rng vt_verdict_key(uint64_t seed, int32_t image, int entry, int stage) {
    const char *purpose = entry ? "verdict" : "clean";
    uint32_t run = (uint32_t)entry << 16 | (uint32_t)stage;
    return (vt_rng){.seed = seed, .purpose = vt_rng_purpose(purpose), .image = (uint32_t)image, .run = run};
}

static void conclude(vt_verdict *v, int label) {
    v->broken = v->inside && v->finite && v->pred != label;
    v->borderline = v->broken && (v->pred64 == label || !(v->margin > v->noise));
}

vt_status vt_predict(vt_verdict *v, const vt_classifier *m, const float *x, int label, float *z, vt_err *e) {
    *v = (vt_verdict){.inside = true, .pred64 = -1, .margin64 = NAN, .margin = -INFINITY};
    VT_TRY(vt_classifier_logits(m, x, z, false, e));
    for (int k = 0; k < m->classes; k++) {
        if (z[k] > z[v->pred]) v->pred = k;
        if (!isfinite(z[k])) v->margin = NAN;
        if (k != label) v->margin = isnan(v->margin) ? NAN : fmax(v->margin, (double)z[k] - (double)z[label]);
    }
    return VT_OK;
}

vt_status vt_verify(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, int label, vt_norm norm,
                    double eps, float *z, double *z64, vt_err *e) {
    int classes = m->classes;
    measure(v, x, x_adv, m->pixels, norm, eps);
    VT_TRY(vt_classifier_logits(m, x_adv, z, false, e));
    VT_TRY(vt_classifier_logits64(m, x_adv, z64, e));
    v->pred = v->pred64 = 0, v->noise = 0;
    v->margin = v->margin64 = -INFINITY;
    bool good = true, good64 = true;
    for (int k = 0; k < classes; k++) {
        if (z[k] > z[v->pred]) v->pred = k;
        if (z64[k] > z64[v->pred64]) v->pred64 = k;
        good = good && isfinite(z[k]), good64 = good64 && isfinite(z64[k]);
        v->noise = fmax(v->noise, fabs((double)z[k] - z64[k]));
        if (k == label) continue;
        v->margin = fmax(v->margin, (double)z[k] - (double)z[label]);
        v->margin64 = fmax(v->margin64, z64[k] - z64[label]);
    }
    v->finite = good && good64;
    if (!good) v->margin = NAN;
    if (!good64) v->margin64 = NAN;
    conclude(v, label);
    return VT_OK;
}

/* After vt_verify, for a paper's evaluator: the point counts wherever it lies, as the paper counted it. */
static void as_published(vt_verdict *v, int label) {
    v->inside = true;
    conclude(v, label);
}

vt_status vt_verify_by(vt_verdict *v, const vt_terms *t, const vt_classifier *m, const vt_rng *key, const float *x,
                       const float *x_adv, int side, int label, float *z, double *z64, vt_err *e) {
    bool eight = t->scoring == VT_SCORE_EIGHT_BIT;
    vt_classifier_begin(m, key);
    VT_TRY(vt_verify(v, m, x, x_adv, label, t->norm, eight ? INFINITY : t->eps, z, z64, e));
    if (t->patch.size) vt_verify_patch(v, x, x_adv, side, side, &t->patch);
    if (eight) vt_verify_eight_bit(v, x, x_adv, m->pixels, t->norm, t->eps);
    if (t->scoring == VT_SCORE_PUBLISHED) as_published(v, label);
    return VT_OK;
}

vt_record_status vt_verdict_status(const vt_verdict *v) {
    return !v->finite   ? VT_RECORD_NOT_FINITE
           : !v->inside ? VT_RECORD_INVALID
           : v->broken  ? VT_RECORD_BROKEN
                        : VT_RECORD_ROBUST;
}
