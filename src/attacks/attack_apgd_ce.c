/* SPDX-License-Identifier: MIT */
/* APGD on cross-entropy. */
#include "attacks/apgd.h"

static const vt_opt opts[] = {VT_APGD_OPTS(1), VT_OPT_END};

/* Runs the restarts of APGD on one image until one breaks it; t->x_adv: the last run's point (vt_apgd_run). */
static vt_status run(vt_oracle *o, const void *params, const vt_task *t) {
    return vt_apgd_restarts(o, params, t, VT_LOSS_CE);
}

const vt_attack_def vt_attack_def_apgd_ce = {
    .name = "apgd-ce",
    .summary = "Auto-PGD on cross-entropy",
    .reference = "Croce and Hein 2020 (ICML), algorithm 1; l1: Croce and Hein 2021, section 3",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .white_box = true,
    .tested = true,
    .work_len = vt_apgd_work_len,
    .params_size = sizeof(vt_apgd_params),
    .opts = opts,
    .run = run,
    .cost = vt_apgd_cost,
};
