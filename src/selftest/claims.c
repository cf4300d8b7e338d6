/* SPDX-License-Identifier: MIT */
/* Part 1, of a model in another process: what it claims of itself, held against its logits alone. About 20 forwards an
 * image. Is its vjp the derivative of its logits (a detached branch, a hand-written backward and BPDA are not)? Is an
 * image's answer its own, whatever stands beside it in a batch? What does it do with values outside of [0,1]? */
#include <math.h>
#include <string.h>
#include "selftest/tools.h"

#define STEPS 2
static const double steps[STEPS] = {1 / 510.0, 1 / 2550.0}; /* half a grey level and a tenth: kinks show in the longer,
                                                             * float's noise in the shorter; one of them must do */
enum { DIRECTIONS = 6 };
#define OFF 0.15    /* of the change: what is promised may differ by so much */
#define APART 1e-3  /* of the logits' span: batches of another size round otherwise, by 1e-6 */
#define OUTSIDE 0.2 /* beyond the box */

/* The logit of a minus that of b, where only the logits are asked for. */
static double logit_difference(vt_selftest_worker *g, const float *x, int a, int b) {
    vt_selftest_worker_logits(g, &g->model, x, g->z, false);
    g->forwards++;
    return (double)g->z[a] - (double)g->z[b];
}

/* to = x + h d, in the box: d of random signs. (Along the gradient itself a part of it would look like all of it.) */
static void add_random_signs(vt_selftest_worker *g, vt_rng r, int k, double h, float *to) {
    r.step = (uint32_t)k;
    for (size_t i = 0; i < g->pixels; i++)
        to[i] = (float)fmin(fmax((double)g->x[i] + (vt_rng_bits(&r, i) >> 31 ? h : -h), 0), 1);
}

/* By how much the claimed derivative misses the changes of the logits, as a share of these, at the better of the steps.
 */
static double derivative_error(vt_selftest_worker *g, int a, int b, vt_rng r) {
    float value, *target = g->o_model.target;
    double best = INFINITY;
    memset(target, 0, (size_t)g->classes * sizeof *target);
    target[a] = 1, target[b] = -1;
    vt_selftest_worker_logits(g, &g->model, g->x, g->z, true);
    double f0 = (double)g->z[a] - (double)g->z[b];
    vt_selftest_worker_backward(g, &g->model, &(vt_loss){.kind = VT_LOSS_LINEAR, .target = target}, &value, g->dx);
    g->gradients++;
    for (int s = 0; s < STEPS; s++) {
        double error = 0, change = 0;
        for (int k = 0; k < DIRECTIONS; k++) {
            double promised = 0;
            add_random_signs(g, r, k, steps[s], g->y);
            for (size_t i = 0; i < g->pixels; i++) promised += (double)g->dx[i] * ((double)g->y[i] - (double)g->x[i]);
            double real_change = logit_difference(g, g->y, a, b) - f0;
            error += (real_change - promised) * (real_change - promised);
            change += fmax(real_change * real_change, promised * promised);
        }
        best = fmin(best, sqrt(error / change)); /* NaN, of no change at all, is none that the next leaves */
    }
    return best;
}

/* The largest difference between repeated queries, alone and beside others, as a share of what the logits span. */
static double max_repeat_difference(vt_selftest_worker *g) {
    int rows = vt_classifier_votes(&g->model), n = g->classes;
    double most = 0, low = INFINITY, high = -INFINITY;
    if (!g->failed.code && vt_classifier_logits64(&g->model, g->x, g->z64, &g->failed) != VT_OK) return 0;
    g->forwards += rows;
    for (int k = 0; k < n; k++) {
        low = fmin(low, g->z64[k]), high = fmax(high, g->z64[k]);
        for (int r = 1; r < rows; r++) most = fmax(most, fabs(g->z64[r * n + k] - g->z64[k]));
    }
    return high > low ? most / (high - low) : most;
}

/* Are points outside of the box answered as the nearest inside? */
static bool is_input_clipped(vt_selftest_worker *g) {
    float *again = g->z + g->classes + 1;
    for (int out = 0; out < 2; out++) {
        for (size_t i = 0; i < g->pixels; i++) {
            bool bright = g->x[i] >= 0.5f;
            g->y[i] = bright ? 1.0f + (out ? (float)OUTSIDE : 0) : 0.0f - (out ? (float)OUTSIDE : 0);
        }
        vt_selftest_worker_logits(g, &g->model, g->y, out ? again : g->z, false);
    }
    g->forwards += 2;
    return !memcmp(g->z, again, (size_t)g->classes * sizeof *again);
}

void vt_claims_image(vt_selftest_worker *g, int32_t image, int label, vt_direct *d) {
    vt_rng r = vt_selftest_key(g->t, "selftest claims", image);
    vt_selftest_worker_logits(g, &g->model, g->x, g->z, false);
    int other = vt_runner_up(g->z, g->classes, label);
    d->claims = true;
    if (!(derivative_error(g, label, other, r) <= OFF)) d->bits |= 1u << VT_CHECK_DERIVATIVE;
    d->again = vt_classifier_votes(&g->model) == 2;
    if (d->again && !(max_repeat_difference(g) <= APART)) d->bits |= 1u << VT_CHECK_BATCH;
    d->clips = is_input_clipped(g);
}
