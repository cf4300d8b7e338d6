/* SPDX-License-Identifier: MIT */
/* What the minimum-norm attacks share: the goal (any class but the label, or one target), losses that rise towards it,
 * and the nearest point so far that reaches it. Such an attack does not know the ball: in an evaluation the oracle ends
 * an image when a query lies in the ball, and what the attack returns counts if it lies in the ball. */
#pragma once

#include "attacks/attack.h"

/* The row of their option tables. */
#define VT_TARGET_OPT(params_)                                                                                         \
    {                                                                                                                  \
        "target", "class to reach; none: any other", VT_OPT_INT, offsetof(params_, target), -1, -1, 1000000, NULL,     \
            "none"                                                                                                     \
    }

typedef struct vt_min_norm_point {
    const vt_task *task;
    int target;      /* -1: any class but the label */
    float *onehot;   /* [K] of the class that the losses aim at */
    double distance; /* of the nearest point, in the ball's norm; INFINITY: none yet */
} vt_min_norm_point;

/* Begins the search: x_adv becomes x; takes the first K floats of the task's work. target: of the options, else -1; the
 * oracle's goal goes before. false: nothing to do, the image is of that class or the model lacks it. */
bool vt_min_norm_open(vt_min_norm_point *p, const vt_oracle *o, const vt_task *t, int target);

/* Returns whether a point of logits z [K] is adversarial: of the target's class, or of any but the label. */
bool vt_min_norm_hit(const vt_min_norm_point *p, const float *z);
/* Returns whether x [n], of logits z [K], is adversarial; if it is also nearer to the image than any such point before,
 * p->distance is its distance, and x_adv becomes x if x lies in the ball. */
bool vt_min_norm_note(vt_min_norm_point *p, const float *x, const float *z);
/* Computes the loss of the kind (CE or MARGIN) that rises towards the goal: the label's own, or minus the target's. A
 * margin is above 0 where the point is adversarial. z [K], value and dx [n] as the oracle's. */
vt_status vt_min_norm_gradient(vt_min_norm_point *p, vt_oracle *o, vt_loss_kind kind, const float *x, float *z,
                               float *value, float *dx);

/* Returns the norm of the farthest point of [0,1]^n from x: no perturbation is larger. */
double vt_box_radius(vt_norm norm, const float *x, size_t n);
