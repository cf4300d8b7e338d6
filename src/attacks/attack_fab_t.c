/* SPDX-License-Identifier: MIT */
/* FAB-T: one boundary at a time, towards the classes ranked 2, 3, ... by the clean logits. */
#include "attacks/fab.h"
#include "attacks/target_order.h"

static const vt_opt opts[] = {
    VT_FAB_OPTS(1),
    VT_OPT_I("targets", vt_fab_params, targets, "target classes, at most classes - 1", 9, 1, 100000),
    VT_OPT_END,
};

/* Runs FAB towards the first targets of the clean logits, or the goal alone (vt_fab_runs). One forward more. */
static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    const vt_fab_params *p = params;
    float *clean = t->work + 6 * t->n + 2 * (size_t)t->classes;
    VT_TRY(vt_oracle_logits(o, t->x, clean));
    return vt_fab_runs(o, p, t, clean, vt_target_count(p->targets, t->classes, o->goal >= 0));
}

VT_COST(vt_fab_params,
        .forwards = 1 + (double)vt_target_count(p->targets, d->classes, d->aimed) * p->restarts * p->steps,
        .gradients = (double)vt_target_count(p->targets, d->classes, d->aimed) * p->restarts * p->steps)

const vt_attack_def vt_attack_def_fab_t = {
    .name = "fab-t",
    .summary = "FAB towards one class at a time",
    .reference = "Croce and Hein 2020 (ICML), AutoAttack, section 5",
    .norms = VT_CAN_ALL,
    .traits = VT_DRAWS_RESTARTS | VT_SHARES_FORWARDS,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(vt_fab_params, .images = 6, .logits = 3),
};
