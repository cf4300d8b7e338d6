/* SPDX-License-Identifier: MIT */
/* One micro-batch: logits, the objective, and its gradient with respect to all parameters. Compiled for float
 * (training) and for double (the tests' judge). */
#ifndef VT_TRAIN_GRADIENT_H
#define VT_TRAIN_GRADIENT_H

#include "models/net/session.h"
#include "train/objective.h"

#ifndef VT_TRAIN_MICRO_SUMS
#define VT_TRAIN_MICRO_SUMS
/* Sums over images; right: the arg-max is that of the target. */
typedef struct vt_micro_sums {
    double loss, ortho; /* objective; ||A^T A - I||^2 over heads and blocks */
    int right_clean, right_adv;
} vt_micro_sums;
#endif

/* Images in the session for `images` of an objective: it sees each once or, clean and adversarial, twice. */
static inline int VT_R(vt_views)(const VT_R(vt_objective_def) *o) {
    return o->needs_clean && o->inner != VT_INNER_NONE ? 2 : 1;
}

/* x [views * images, 3, h, w]: the clean ones, then the adversarial ones (either alone when one view is enough); target
 * [images, K]; dz [views * images, K] scratch. grad [params.total] accumulates scale times the gradient of the sum of
 * the images' losses; *sums is overwritten. s: capacity views * images, mode VT_GRAD_PARAMS. */
void VT_R(vt_micro_gradient)(real *grad, vt_micro_sums *sums, VT_R(vt_session) *s, const VT_R(vt_objective_def) *o,
                             const void *params, const real *x, const float *target, int images, double scale,
                             real *dz);

#endif
