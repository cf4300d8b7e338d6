/* SPDX-License-Identifier: MIT */
/* FAB (Croce and Hein 2020, "Minimally distorted adversarial examples", algorithm 1; order of operations as
 * AutoAttack's fab_base.py, a392200): shared by fab (nearest of all class boundaries) and fab-t (one target class at a
 * time). */
#pragma once

#include "attacks/attack.h"

typedef struct vt_fab_params {
    int steps, restarts, targets; /* targets: fab-t only */
    double alpha_max, eta, beta;
} vt_fab_params;

#define VT_FAB_OPTS(restarts_)                                                                                         \
    VT_OPT_I("steps", vt_fab_params, steps, "iterations", 100, 1, 100000),                                             \
        VT_OPT_I("restarts", vt_fab_params, restarts, "runs; all but the first start at a random point at eps/2",      \
                 restarts_, 1, 1000),                                                                                  \
        VT_OPT_R("alpha_max", vt_fab_params, alpha_max, "largest weight of the projection of the clean image", 0.1, 0, \
                 1),                                                                                                   \
        VT_OPT_R("eta", vt_fab_params, eta, "overshoot beyond the boundary", 1.05, 1, 2),                              \
        VT_OPT_R("beta", vt_fab_params, beta, "backward step towards the clean image", 0.9, 0, 1)

/* Makes one run towards class `target` (-1: whichever boundary is nearest), its random start drawn by rng. best [n]:
 * the adversarial point of the smallest norm, in the ball or not; *distance: that norm; INFINITY: none. */
vt_status vt_fab_run(vt_oracle *o, const vt_fab_params *p, const vt_task *t, int target, bool random_start,
                     const vt_rng *rng, float *best, double *distance);
/* Makes the restarts towards each of the first `targets` classes of `merit` (vt_target_at); NULL: the nearest boundary,
 * targets 1. x_adv: x, or the last run's point in the ball; ends when it may. Takes work {6, 2}. */
vt_status vt_fab_runs(vt_oracle *o, const vt_fab_params *p, const vt_task *t, const float *merit, int targets);

/* Computes the displacement d [n] of the smallest norm (linf, l2, l1) that takes u, in [0,1]^n, onto the hyperplane w.v
 * = b within the box; towards it as far as the box allows when it cannot be reached. */
void vt_fab_project(vt_norm norm, float *d, const float *u, const float *w, double b, size_t n);
