/* SPDX-License-Identifier: MIT */
/* FAB (Croce and Hein 2020, "Minimally distorted adversarial examples", algorithm 1; order of operations as
 * AutoAttack's fab_base.py, a392200): shared by fab (nearest of all class boundaries) and fab-t (one target class at a
 * time). */
#ifndef VT_ATTACKS_FAB_H
#define VT_ATTACKS_FAB_H

#include "attacks/attack.h"

typedef struct vt_fab_params {
    int steps, restarts, targets; /* targets: fab-t only */
    double alpha_max, eta, beta;
} vt_fab_params;

#define VT_FAB_OPTS(restarts_)                                                                                         \
    {"steps", "iterations", VT_OPT_INT, offsetof(vt_fab_params, steps), 100, 1, 100000, NULL, NULL},                   \
        {"restarts", "runs; all but the first start at a random point at eps/2",                                       \
         VT_OPT_INT, offsetof(vt_fab_params, restarts),                                                                \
         restarts_,  1,                                                                                                \
         1000,       NULL,                                                                                             \
         NULL},                                                                                                        \
        {"alpha_max", "largest weight of the projection of the clean image",                                           \
         VT_OPT_REAL, offsetof(vt_fab_params, alpha_max),                                                              \
         0.1,         0,                                                                                               \
         1,           NULL,                                                                                            \
         NULL},                                                                                                        \
        {"eta", "overshoot beyond the boundary", VT_OPT_REAL, offsetof(vt_fab_params, eta), 1.05, 1, 2, NULL, NULL}, { \
        "beta", "backward step towards the clean image", VT_OPT_REAL, offsetof(vt_fab_params, beta), 0.9, 0, 1, NULL,  \
            NULL                                                                                                       \
    }

size_t vt_fab_work_len(const void *params, const vt_task *t);
/* One run towards class `target` (-1: whichever boundary is nearest). best [n]: the adversarial point of the smallest
 * norm, inside the ball or not; *distance: that norm, INFINITY when none was found. */
vt_status vt_fab_run(vt_oracle *o, const vt_fab_params *p, const vt_task *t, int target, bool random_start,
                     const vt_rng *rng, float *best, double *distance);

/* Displacement d [n] of the smallest norm that takes u [n] (in [0,1]^n) onto the hyperplane w.v = b within the box;
 * towards it as far as the box allows when it cannot be reached. */
void vt_fab_project(vt_norm norm, float *d, const float *u, const float *w, double b, size_t n);

#endif
