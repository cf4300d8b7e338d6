/* SPDX-License-Identifier: MIT */
/* FAB, untargeted: every step goes to the nearest of all K - 1 boundaries (K - 1 gradients a step). */
#include "attacks/fab.h"

static const vt_opt opts[] = {VT_FAB_OPTS(1), VT_OPT_END};

/* Runs FAB's restarts towards whichever boundary is nearest (vt_fab_runs). */
static vt_status run(vt_oracle *o, const void *params, const vt_task *t) { return vt_fab_runs(o, params, t, NULL, 1); }

VT_COST(vt_fab_params, .forwards = (double)p->restarts * p->steps,
        .gradients = (double)p->restarts * p->steps * (d->aimed ? 1 : d->classes - 1))

const vt_attack_def vt_attack_def_fab = {
    .name = "fab",
    .summary = "minimum-norm attack by projection on linearised class boundaries",
    .reference = "Croce and Hein 2020 (ICML), 'Minimally distorted adversarial examples', algorithm 1",
    .norms = VT_CAN_ALL,
    .traits = VT_DRAWS_RESTARTS | VT_SHARES_FORWARDS,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(vt_fab_params, .images = 6, .logits = 2),
};
