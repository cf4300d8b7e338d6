/* SPDX-License-Identifier: MIT */
/* FGSM: x' = clip(x + eps sign(grad CE)); l2: a step of length eps along the gradient. No random start. */
#include "attacks/ascent.h"

/* Sets t->x_adv to the point after one step, and asks for its logits. */
static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    (void)params;
    float *g = t->work, *step = t->work + t->n, value;
    vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
    vt_ascent_start(t, 0, false);
    VT_TRY(vt_oracle_gradient(o, t->x, &ce, NULL, &value, g));
    vt_ascent_step(t, g, t->ball->eps, step);
    return vt_oracle_logits(o, t->x_adv, NULL);
}

VT_COST(void, .forwards = 1, .gradients = 1, .unread = 1)

const vt_attack_def vt_attack_def_fgsm = {
    .name = "fgsm",
    .summary = "one signed gradient step of length eps",
    .reference = "Goodfellow, Shlens, Szegedy 2015, section 4",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .work = {2, 0},
    .run = run,
    .cost = cost,
};
