/* SPDX-License-Identifier: MIT */
/* Auto-PGD (Croce and Hein 2020, algorithm 1; in l1 Croce and Hein 2021; what the papers leave open is
 * AutoAttack's autopgd_base.py, a392200): shared by apgd-ce, apgd-dlr and apgd-t. */
#pragma once

#include "attacks/attack.h"

typedef struct vt_apgd_params {
    int steps, restarts, eot, targets, choose; /* targets and choose (rank.h): apgd-t only */
    double rho;
    bool random_start, large_eps; /* large_eps: l1 only */
} vt_apgd_params;

#define VT_APGD_OPTS(restarts_)                                                                                        \
    VT_OPT_I("steps", vt_apgd_params, steps, "gradient steps after the start", 100, 1, 100000),                        \
        VT_OPT_I("restarts", vt_apgd_params, restarts, "independent runs", restarts_, 1, 1000),                        \
        VT_OPT_R("rho", vt_apgd_params, rho, "share of increasing steps below which the step is halved", 0.75, 0, 1),  \
        VT_OPT_B("random_start", vt_apgd_params, random_start, "start at a random point of the ball's surface", 1),    \
        VT_OPT_I("eot", vt_apgd_params, eot,                                                                           \
                 "gradients averaged at each point, each with a forward of its own: for randomised models", 1, 1,      \
                 10000),                                                                                               \
        VT_OPT_B("large_eps", vt_apgd_params, large_eps, "in l1: 3 eps and 2 eps first, for 0.3 of the steps each", 1)

/* Returns the floats of scratch of a run besides the definition's, which lie behind them: iterates, the history of
 * losses, the draws of eot. */
size_t vt_apgd_work_len(const void *params, const vt_task *t);
/* Returns the passes that vt_apgd_restarts takes for an image at most: no restart breaks it. */
vt_passes vt_apgd_cost(const void *params, const vt_cost_dims *d);
/* Makes one run (in l1: L1-APGD) that maximises `loss`, its start drawn by rng: t->x_adv = the latest misclassified
 * iterate, or the best one. *broken: an iterate was misclassified, all being in the ball by construction. */
vt_status vt_apgd_run(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, const vt_loss *loss, const vt_rng *rng,
                      bool *broken);
/* Makes the restarts of an untargeted loss, run number r keyed by t->rng with run r, until one breaks the image and may
 * end it. */
vt_status vt_apgd_restarts(vt_oracle *o, const vt_apgd_params *p, const vt_task *t, vt_loss_kind kind);
