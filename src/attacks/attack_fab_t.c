/* SPDX-License-Identifier: MIT */
/* FAB-T: one boundary at a time, towards the classes ranked 2, 3, ... by the clean logits. */
#include <stddef.h>
#include <string.h>
#include "attacks/fab.h"
#include "attacks/target_order.h"

static const vt_opt opts[] = {
    VT_FAB_OPTS(1),
    VT_OPT_I("targets", vt_fab_params, targets, "target classes, at most classes - 1", 9, 1, 100000),
    VT_OPT_END,
};

static size_t work_len(const void *params, const vt_task *t) {
    return vt_fab_work_len(params, t) + t->n + (size_t)t->classes;
}

static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    const vt_fab_params *p = params;
    float *best = t->work + vt_fab_work_len(params, t), *clean = best + t->n;
    int targets = vt_target_count(p->targets, t->classes, o->goal >= 0);
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    VT_TRY(vt_oracle_logits(o, t->x, clean));
    for (int k = 0; k < targets * p->restarts; k++) {
        int target = vt_target_at(o, t, clean, k / p->restarts + 1);
        vt_rng rng = t->rng;
        rng.run = (uint32_t)k;
        double distance;
        VT_TRY(vt_fab_run(o, p, t, target, k % p->restarts > 0, &rng, best, &distance));
        if (!(distance <= t->ball->eps)) continue;
        memcpy(t->x_adv, best, t->n * sizeof(float));
        if (vt_oracle_may_end(o, true)) return VT_OK;
    }
    return VT_OK;
}

static vt_passes cost(const void *params, const vt_cost_dims *d) {
    const vt_fab_params *p = params;
    double steps = (double)vt_target_count(p->targets, d->classes, d->aimed) * p->restarts * p->steps;
    return (vt_passes){.forwards = 1 + steps, .gradients = steps};
}

const vt_attack_def vt_attack_def_fab_t = {
    .name = "fab-t",
    .summary = "FAB towards one class at a time",
    .reference = "Croce and Hein 2020 (ICML), AutoAttack, section 5",
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
