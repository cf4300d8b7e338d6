/* SPDX-License-Identifier: MIT */
/* APGD-T: DLR towards the classes ranked 2, 3, ... by the clean logits, or in MALT's order; any other class counts. */
#include "attacks/apgd.h"
#include "attacks/target_order.h"

static const vt_opt opts[] = {
    VT_APGD_OPTS(1),
    VT_OPT_I("targets", vt_apgd_params, targets, "target classes, at most classes - 1", 9, 1, 100000),
    VT_CHOOSE_OPT(vt_apgd_params, VT_BY_LOGIT),
    VT_OPT_END,
};

/* Runs APGD towards target after target, each with all restarts, run by run with a key of its own, until one breaks the
 * image; t->x_adv: the last run's point. */
static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    const vt_apgd_params *p = params;
    float *merit = t->work + vt_apgd_work_len(params, t);
    int targets = vt_target_count(p->targets, t->classes, o->goal >= 0);
    VT_TRY(vt_target_merits(o, t, p->choose, merit));
    vt_loss loss = vt_oracle_loss(o, VT_LOSS_DLR_T);
    for (int r = 0; r < targets; r++) {
        loss.other = vt_target_at(o, t, merit, r + 1);
        for (int k = 0; k < p->restarts; k++) {
            vt_rng rng = t->rng;
            rng.run = (uint32_t)(r * p->restarts + k);
            bool broken;
            VT_TRY(vt_apgd_run(o, p, t, &loss, &rng, &broken));
            if (broken && vt_oracle_may_end(o, true)) return VT_OK;
        }
    }
    return VT_OK;
}

/* Returns the passes that an image takes at most: ordering the targets, then all runs. */
static vt_passes cost(const void *params, const vt_cost_dims *d) {
    const vt_apgd_params *p = params;
    vt_passes c = vt_target_cost(p->choose, d);
    c.gradients += vt_target_count(p->targets, d->classes, d->aimed) * vt_apgd_cost(p, d).gradients;
    return c;
}

const vt_attack_def vt_attack_def_apgd_t = {
    .name = "apgd-t",
    .summary = "Auto-PGD on the targeted difference-of-logits ratio, class by class",
    .reference = "Croce and Hein 2020 (ICML), algorithm 1 and eq. 7; l1: Croce and Hein 2021, section 3",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .white_box = true,
    .tested = true,
    .dlr_classes = 4,
    .work_len = vt_apgd_work_len,
    VT_ATTACK_CODE(vt_apgd_params, .images = 1, .logits = 3),
};
