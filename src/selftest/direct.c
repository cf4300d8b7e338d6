/* SPDX-License-Identifier: MIT */
/* Part 1: what the gradients are at single points. About twelve forwards an image, of a model in another process 32. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

#define TINY 1e-5 /* of [0,1]: far below a grey level, far above float32's steps */
/* -log of the smallest normal float32: softmax rounds to one-hot, and its derivative to zero */
#define UNDERFLOW 87.3
#define DIRECTIONS 3
#define STEP (1 / 2550.0) /* at most a tenth of a grey level: where a smooth network is linear, whatever eps is */

/* Computes the margin's gradient dx at x, whose logits come to g->z. Returns the margin. */
static float margin_gradient(vt_tester *g, const float *x, float *dx) {
    float value, *target = g->model.o.own.label;
    memset(target, 0, (size_t)g->classes * sizeof *target);
    target[g->label] = 1;
    vt_tester_logits(g, &g->model.c, x, g->z, true);
    vt_tester_backward(g, &g->model.c, &(vt_loss){.kind = VT_LOSS_MARGIN, .target = target}, &value, dx);
    g->gradients++;
    return value;
}

/* Are all n values 0? */
static bool all_zero(const float *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (v[i] != 0) return false;
    return true;
}

/* Notes which losses have a gradient of zero in every pixel at the point of the last kept forward. */
static void note_zero_losses(vt_tester *g, vt_evidence *f) {
    static const vt_loss_kind kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR, VT_LOSS_DLR_T};
    int other = vt_best_other_f32(g->z, g->label, g->classes);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        float value;
        vt_loss loss = {.kind = kinds[i], .target = g->model.o.own.label, .other = other};
        vt_tester_backward(g, &g->model.c, &loss, &value, g->dy);
        g->gradients += 0.5; /* the forward is there already */
        vt_note_flag(f, VT_FLAG_ZERO + (int)kinds[i], all_zero(g->dy, g->pixels));
    }
}

/* Does the gradient dx at x (margin m0) say more of the margin at x + h d than "no change"? Over random directions: the
 * sum of squared errors against the sum of squared changes. */
static bool is_gradient_wrong(vt_tester *g, float m0, const float *dx, double h) {
    vt_rng r = vt_selftest_key(g->t, "selftest direction", g->image);
    double error = 0, change = 0;
    for (int k = 0; k < DIRECTIONS; k++) {
        r.step = (uint32_t)k;
        vt_random_step(g, r, h);
        vt_tester_logits(g, &g->model.c, g->y, g->z, false);
        double predicted = vt_predicted_change(g, dx, g->y);
        double actual = (double)vt_margin_f32(g->z, g->label, g->classes) - (double)m0;
        error += (actual - predicted) * (actual - predicted), change += actual * actual;
    }
    return !(error < change);
}

/* Is the median row of attention one-hot to float32, in the network as it is? */
static bool is_attention_saturated(vt_tester *g) {
    int64_t rows = 0, one_hot = 0;
    vt_session_forward_f32(g->look, g->x, 1, true);
    g->forwards++;
    for (int block = 0; block < vt_model_blocks(g->t->v->subject->model); block++) {
        vt_attn_view_f32 view;
        g->look->ops->view(g->look, block, &view);
        for (int row = 0; row < view.heads * view.t; row++) {
            const float *p = view.p + (size_t)row * (size_t)vt_attn_ldp(view.t);
            float most = 0;
            for (int k = 0; k < view.t; k++) most = fmaxf(most, p[k]);
            rows++, one_hot += most >= 1 - FLT_EPSILON;
        }
    }
    return 2 * one_hot > rows;
}

/* Is the gradient of a loss zero that the attacks under test follow: the margin, which stands in for cross-entropy
 * where that underflows (attacks/oracle.h), and the ratio if one of them has it? */
static bool zero_gradient(const vt_tester *g, const vt_evidence *f) {
    const uint32_t margin = 1u << VT_LOSS_MARGIN, ratios = 1u << VT_LOSS_DLR | 1u << VT_LOSS_DLR_T;
    bool ratio = false;
    for (int i = 0; i < g->t->attack->n_stages; i++) {
        int least = g->t->attack->stages[i].def->dlr_classes;
        ratio = ratio || (least && g->classes >= least);
    }
    return f->flags & (ratio ? margin | ratios : margin);
}

/* Are the logits a distribution already? As AutoAttack's check_range_output. */
static bool is_distribution(const float *z, int classes) {
    double sum = 0;
    for (int k = 0; k < classes; k++) {
        if (!(z[k] > -1e-5f && z[k] < 1 + 1e-5f)) return false;
        sum += (double)z[k];
    }
    return fabs(sum - 1) < 1e-5;
}

/* ---- claims: what a model in another process says of itself, held against its logits ----
 * Is its vjp the derivative of its logits (a detached branch, a hand-written backward and BPDA are not)? Is an image's
 * answer its own, whatever stands beside it in a batch? What does it do with values outside of [0,1]? */

/* Half a grey level and a tenth: kinks show in the longer, float's noise in the shorter; one of them must do. */
enum { CLAIM_STEPS = 2, CLAIM_DIRECTIONS = 6 };
static const double claim_steps[CLAIM_STEPS] = {1 / 510.0, 1 / 2550.0};
#define OFF 0.15    /* of the change: what is predicted may differ by so much */
#define APART 1e-3  /* of the logits' span: batches of another size round otherwise, by 1e-6 */
#define OUTSIDE 0.2 /* beyond the box */

/* Returns by how much the derivative of logit a minus b that the model claims misses the logits' changes, as a share of
 * these, at the better of the steps. */
static double derivative_error(vt_tester *g, int a, int b) {
    vt_rng r = vt_selftest_key(g->t, "selftest claims", g->image);
    double best = INFINITY, f0 = vt_logit_difference(g, g->x, a, b, g->dx);
    for (int s = 0; s < CLAIM_STEPS; s++) {
        double error = 0, change = 0;
        for (int k = 0; k < CLAIM_DIRECTIONS; k++) {
            r.step = (uint32_t)k;
            vt_random_step(g, r, claim_steps[s]);
            double predicted = vt_predicted_change(g, g->dx, g->y),
                   actual = vt_logit_difference(g, g->y, a, b, NULL) - f0;
            error += (actual - predicted) * (actual - predicted);
            change += fmax(actual * actual, predicted * predicted);
        }
        best = fmin(best, sqrt(error / change)); /* NaN, of no change at all, is none that the next leaves */
    }
    return best;
}

/* Returns the largest difference between repeated queries, alone and beside others, as a share of the logits' span. */
static double max_repeat_difference(vt_tester *g) {
    int rows = vt_classifier_votes(&g->model.c), n = g->classes;
    double most = 0, low = INFINITY, high = -INFINITY;
    if (!g->failed.code && vt_classifier_logits64(&g->model.c, g->x, g->z64, &g->failed) != VT_OK) return 0;
    g->forwards += rows;
    for (int k = 0; k < n; k++) {
        low = fmin(low, g->z64[k]), high = fmax(high, g->z64[k]);
        for (int r = 1; r < rows; r++) most = fmax(most, fabs(g->z64[r * n + k] - g->z64[k]));
    }
    return high > low ? most / (high - low) : most;
}

/* Are points outside of the box answered as the nearest inside? */
static bool is_input_clipped(vt_tester *g) {
    float *again = g->z + g->classes + 1;
    for (int out = 0; out < 2; out++) {
        for (size_t i = 0; i < g->pixels; i++) {
            bool bright = g->x[i] >= 0.5f;
            g->y[i] = bright ? 1.0f + (out ? (float)OUTSIDE : 0) : 0.0f - (out ? (float)OUTSIDE : 0);
        }
        vt_tester_logits(g, &g->model.c, g->y, out ? again : g->z, false);
    }
    return !memcmp(g->z, again, (size_t)g->classes * sizeof *again);
}

/* Notes the checks of an external model: derivative, independence of the batch, clipped input. */
static void test_remote_claims(vt_tester *g, vt_evidence *f) {
    vt_tester_logits(g, &g->model.c, g->x, g->z, true); /* priced with the gradient that follows */
    double error = derivative_error(g, g->label, vt_best_other_f32(g->z, g->label, g->classes));
    vt_note_evidence(f, VT_CHECK_DERIVATIVE, !(error <= OFF));
    if (vt_classifier_votes(&g->model.c) == 2)
        vt_note_evidence(f, VT_CHECK_BATCH, !(max_repeat_difference(g) <= APART));
    vt_note_flag(f, VT_FLAG_CLIPS, is_input_clipped(g));
}

vt_status vt_direct_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e) {
    const vt_eval_options *v = g->t->v;
    const vt_classifier *m = &g->model.c;
    size_t bytes = (size_t)g->classes * sizeof(float);
    float *again = g->z + g->classes + 1;
    VT_TRY(vt_tester_load(g, image, "selftest direct", e));
    vt_tester_logits(g, m, g->x, g->z, false);
    vt_tester_logits(g, m, g->x, again, false);
    vt_note_evidence(f, VT_CHECK_RANDOM, memcmp(g->z, again, bytes) != 0);
    vt_random_step(g, g->key, TINY);
    vt_tester_logits(g, m, g->y, again, false);
    vt_note_evidence(f, VT_CHECK_FLAT, !memcmp(g->z, again, bytes));
    vt_note_flag(f, VT_FLAG_SOFTMAX, is_distribution(g->z, g->classes));
    vt_note_flag(f, VT_FLAG_SATURATED, fabsf(vt_margin_f32(g->z, g->label, g->classes)) > UNDERFLOW);
    if (g->look) vt_note_evidence(f, VT_CHECK_ATTENTION, is_attention_saturated(g));
    float m0 = margin_gradient(g, g->x, g->dx);
    note_zero_losses(g, f);
    vt_note_evidence(f, VT_CHECK_ZERO, zero_gradient(g, f));
    double each = v->eps / vt_box_diameter(v->norm, g->pixels);
    vt_note_evidence(f, VT_CHECK_WRONG, is_gradient_wrong(g, m0, g->dx, fmin(each / 10, STEP)));
    vt_random_step(g, g->key, 1 / 255.0);
    margin_gradient(g, g->y, g->dy);
    bool constant = !memcmp(g->dx, g->dy, g->pixels * sizeof(float)); /* as it may be: where the margin is linear */
    vt_note_evidence(f, VT_CHECK_CONSTANT, constant && is_gradient_wrong(g, m0, g->dx, 1 / 255.0));
    if (v->subject->remote) test_remote_claims(g, f);
    return VT_OK;
}
