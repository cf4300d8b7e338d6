/* SPDX-License-Identifier: MIT */
/* FGSM: x' = clip(x + eps sign(grad CE)); l2: a step of length eps along the gradient. No random start. */
#include <string.h>
#include "attacks/attack.h"

static size_t work_len(const void *params, const vt_task *t) {
    (void)params;
    return 2 * t->n;
}

static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    (void)params;
    float *g = t->work, *step = t->work + t->n, value;
    vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    VT_TRY(vt_oracle_gradient(o, t->x, &ce, NULL, &value, g));
    vt_ball_step(t->ball, step, g, t->ball->eps);
    for (size_t i = 0; i < t->n; i++) t->x_adv[i] = t->x[i] + step[i];
    vt_ball_project(t->ball, t->x_adv);
    return vt_oracle_logits(o, t->x_adv, NULL);
}

static vt_passes cost(const void *params, const vt_cost_dims *d) {
    (void)params, (void)d;
    return (vt_passes){.forwards = 1, .gradients = 1, .unread = 1};
}

const vt_attack_def vt_attack_def_fgsm = {
    .name = "fgsm",
    .summary = "one signed gradient step of length eps",
    .reference = "Goodfellow, Shlens, Szegedy 2015, section 4",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .work_len = work_len,
    .run = run,
    .cost = cost,
};
