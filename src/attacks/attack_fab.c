/* SPDX-License-Identifier: MIT */
/* FAB, untargeted: every step goes to the nearest of all K - 1 boundaries (K - 1 gradients a step). */
#include <stddef.h>
#include <string.h>
#include "attacks/fab.h"

static const vt_opt opts[] = {VT_FAB_OPTS(1), VT_OPT_END};

static size_t work_len(const void *params, const vt_task *t) { return vt_fab_work_len(params, t) + t->n; }

static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    const vt_fab_params *p = params;
    float *best = t->work + vt_fab_work_len(params, t);
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    for (int r = 0; r < p->restarts; r++) {
        vt_rng rng = t->rng;
        rng.run = (uint32_t)r;
        double distance;
        VT_TRY(vt_fab_run(o, p, t, -1, r > 0, &rng, best, &distance));
        if (!(distance <= t->ball->eps)) continue;
        memcpy(t->x_adv, best, t->n * sizeof(float));
        if (vt_oracle_may_end(o, true)) return VT_OK;
    }
    return VT_OK;
}

static vt_passes cost(const void *params, const vt_cost_dims *d) {
    const vt_fab_params *p = params;
    double steps = (double)p->restarts * p->steps;
    return (vt_passes){.forwards = steps, .gradients = steps * (d->aimed ? 1 : d->classes - 1)};
}

const vt_attack_def vt_attack_def_fab = {
    .name = "fab",
    .summary = "minimum-norm attack by projection on linearised class boundaries",
    .reference = "Croce and Hein 2020 (ICML), 'Minimally distorted adversarial examples', algorithm 1",
    .norms = VT_CAN_ALL,
    .traits = VT_DRAWS_RESTARTS | VT_SHARES_FORWARDS,
    .white_box = true,
    .minimum_norm = true,
    .params_size = sizeof(vt_fab_params),
    .opts = opts,
    .work_len = work_len,
    .run = run,
    .cost = cost,
};
