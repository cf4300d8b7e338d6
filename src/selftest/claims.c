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

/* By how much the claimed derivative misses the changes of the logits, as a share of these, at the better of the steps.
 */
static double derivative_error(vt_selftest_worker *g, int a, int b) {
    vt_rng r = vt_selftest_key(g->t, "selftest claims", g->image);
    double best = INFINITY, f0 = vt_logit_difference(g, g->x, a, b, g->dx);
    for (int s = 0; s < STEPS; s++) {
        double error = 0, change = 0;
        for (int k = 0; k < DIRECTIONS; k++) {
            r.step = (uint32_t)k;
            vt_random_step(g, r, steps[s]);
            double promised = vt_promised(g, g->dx, g->y), real_change = vt_logit_difference(g, g->y, a, b, NULL) - f0;
            error += (real_change - promised) * (real_change - promised);
            change += fmax(real_change * real_change, promised * promised);
        }
        best = fmin(best, sqrt(error / change)); /* NaN, of no change at all, is none that the next leaves */
    }
    return best;
}

/* The largest difference between repeated queries, alone and beside others, as a share of what the logits span. */
static double max_repeat_difference(vt_selftest_worker *g) {
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
static bool is_input_clipped(vt_selftest_worker *g) {
    float *again = g->z + g->classes + 1;
    for (int out = 0; out < 2; out++) {
        for (size_t i = 0; i < g->pixels; i++) {
            bool bright = g->x[i] >= 0.5f;
            g->y[i] = bright ? 1.0f + (out ? (float)OUTSIDE : 0) : 0.0f - (out ? (float)OUTSIDE : 0);
        }
        vt_selftest_worker_logits(g, &g->model.c, g->y, out ? again : g->z, false);
    }
    return !memcmp(g->z, again, (size_t)g->classes * sizeof *again);
}

void vt_claims_image(vt_selftest_worker *g, vt_direct *d) {
    vt_selftest_worker_logits(g, &g->model.c, g->x, g->z, true); /* priced with the gradient that follows */
    d->claims = true;
    if (!(derivative_error(g, g->label, vt_runner_up(g->z, g->classes, g->label)) <= OFF))
        d->bits |= 1u << VT_CHECK_DERIVATIVE;
    d->again = vt_classifier_votes(&g->model.c) == 2;
    if (d->again && !(max_repeat_difference(g) <= APART)) d->bits |= 1u << VT_CHECK_BATCH;
    d->clips = is_input_clipped(g);
}
