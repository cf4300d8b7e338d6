/* SPDX-License-Identifier: MIT */
/* The registry of src/train/objective_*.c, in both precisions, and what two of them share. */
#include "train/objective.h"

#include <string.h>
#include "nn/loss.h"

#define VT_KIND VT_R(vt_objective_def)
#define VT_KIND_NAME(x) VT_R(vt_objective_def_##x)
#define VT_KIND_LIST "objectives.inc"
#include "core/registry.inc"

const VT_R(vt_objective_def) *const *VT_R(vt_objective_defs)(int *n) {
    *n = COUNT;
    return defs;
}

const VT_R(vt_objective_def) *VT_R(vt_objective_find)(const char *name) { return named(name); }

real VT_R(vt_objective_adversarial)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv,
                                    const float *target, int classes, const void *params) {
    (void)dz_clean, (void)z_clean, (void)params;
    return VT_R(vt_loss_eval)(dz_adv, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_adv, classes);
}
