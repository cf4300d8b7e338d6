/* SPDX-License-Identifier: MIT */
/* Standard training: the cross entropy against a (soft) label. */
#include <stddef.h>
#include "nn/loss.h"
#include "train/objective.h"

/* Returns the cross entropy of z_clean [K] with target [K]; dz_clean [K]: its gradient. */
static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params) {
    (void)dz_adv, (void)z_adv, (void)params;
    return VT_R(vt_loss_eval)(dz_clean, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_clean, classes);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_ce) = {
    .name = "ce",
    .summary = "standard training: cross entropy on clean images",
    .reference = "-",
    .inner = VT_INNER_NONE,
    .needs_clean = true,
    .eval = eval,
};
