/* SPDX-License-Identifier: MIT */
/* L1-APGD (Croce and Hein 2021, "Mind the box", section 3): sparse steps of adapted width, projected
 * onto ball and box together; by default first in balls of 3 eps and 2 eps. */
#include <math.h>
#include <string.h>
#include "attacks/apgd.h"
#include "attacks/l1.h"

/* One run inside `ball` from cur = t->work, where it leaves its best point. sparse: the start says how many entries a
 * step shall change, else a fifth of all. */
static vt_status run_in(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss,
                        const vt_ball *ball, int steps, bool sparse, bool *broken) {
    size_t n = t->n, bytes = n * sizeof(float), old = sparse ? vt_l1_moved(t->work, t->x, n) : n;
    float *cur = t->work, *step = cur + n, *g = step + n, *best = g + n, *g_best = best + n, *z = g_best + n, value,
          most;
    size_t count = sparse ? vt_l1_two_thirds(old) : (n + 4) / 5;
    int every = steps >= 50 ? (int)(0.04 * steps) : 1;
    double length = ball->eps;
    memcpy(t->x_adv, cur, bytes);
    memcpy(best, cur, bytes);
    VT_TRY(vt_apgd_gradient(o, p, t, cur, loss, z, &value, g));
    *broken = vt_oracle_reached(o, z);
    memcpy(g_best, g, bytes);
    most = value;
    for (int i = 1; i <= steps; i++) {
        vt_l1_drop_blocked(g, cur, n); /* ours: on linear models 1.005 times the optimum instead of 1.05 */
        vt_l1_sparse_step(step, g, n, count, length);
        for (size_t j = 0; j < n; j++) cur[j] += step[j];
        vt_ball_project(ball, cur);
        VT_TRY(vt_apgd_gradient(o, p, t, cur, loss, z, &value, g));
        if (vt_oracle_reached(o, z)) {
            *broken = true;
            memcpy(t->x_adv, cur, bytes); /* the latest misclassified iterate, whatever its loss */
        }
        if (value > most) {
            most = value;
            memcpy(best, cur, bytes);
            memcpy(g_best, g, bytes);
        }
        if (i % every) continue;
        size_t now = vt_l1_moved(best, t->x, n);
        bool sparser = (double)now < 0.95 * (double)old;
        count = vt_l1_two_thirds(now), old = now;
        length = sparser ? ball->eps : fmax(length / 1.5, ball->eps / 10);
        if (!sparser) continue;
        memcpy(cur, best, bytes);
        memcpy(g, g_best, bytes);
    }
    memcpy(cur, best, bytes);
    return VT_OK;
}

vt_status vt_apgd_l1_run(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss,
                         const vt_rng *rng, bool *broken) {
    int wide = p->large_eps ? (int)ceil(0.3 * p->steps) : 0, last = p->steps - 2 * wide;
    if (last < 1) wide = 0, last = p->steps;
    vt_ball ball = *t->ball;
    float *cur = t->work;
    ball.eps *= wide ? 3 : 1;
    memcpy(cur, t->x, t->n * sizeof(float));
    if (p->random_start) vt_ball_start_projected(&ball, rng, cur);
    bool sparse = wide && p->random_start;
    for (int k = wide ? 3 : 1; k >= 1; k--) {
        ball.eps = k * t->ball->eps;
        vt_ball_project(&ball, cur);
        VT_TRY(run_in(o, p, t, loss, &ball, k > 1 ? wide : last, sparse, broken));
        sparse = true;
    }
    if (!*broken) memcpy(t->x_adv, cur, t->n * sizeof(float));
    return VT_OK;
}
