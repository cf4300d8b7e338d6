/* SPDX-License-Identifier: MIT */
/* What training minimises, as a function of one image's logits. An objective is a file objective_*.c, compiled for
 * float and for double. Its options are recipe keys below its own name ("trades.beta"). */
#ifndef VT_TRAIN_OBJECTIVE_H
#define VT_TRAIN_OBJECTIVE_H

#include <stdbool.h>
#include "core/opt.h"
#include "core/real.h"

#ifndef VT_TRAIN_INNER_GOAL
#define VT_TRAIN_INNER_GOAL
/* What the inner attack maximises: nothing (no attack), the cross entropy against the image's (mixed) label, or the
 * divergence from the prediction at the clean image (TRADES). */
typedef enum vt_inner_goal { VT_INNER_NONE, VT_INNER_LABEL, VT_INNER_PREDICTION } vt_inner_goal;
#endif

typedef struct VT_R(vt_objective_def) {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL; or NULL */
    vt_inner_goal inner;
    bool needs_clean; /* reads the logits at the clean image besides those at x' (with INNER_NONE they are all there is)
                       */
    bool hard_labels; /* defined for one label an image: no mixing, no smoothing */
    double start_sigma; /* of the inner attack: normal start of this standard deviation (TRADES, MART); 0: the attack's
                           own */
    const char *attack; /* default of the recipe's attack.spec; NULL: no attack */
    /* One image. z_clean, z_adv [K] logits (those not needed: NULL); target [K] label distribution. Returns the loss;
     * dz_clean, dz_adv [K] are overwritten with its gradient (NULL where the logits are NULL). The batch's objective is
     * the mean over images. */
    real (*eval)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params);
} VT_R(vt_objective_def);

/* An eval: the cross entropy at the adversarial image alone. */
real VT_R(vt_objective_adversarial)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv,
                                    const float *target, int classes, const void *params);

const VT_R(vt_objective_def) *const *VT_R(vt_objective_defs)(int *n);
const VT_R(vt_objective_def) *VT_R(vt_objective_find)(const char *name); /* NULL: unknown */

#endif
