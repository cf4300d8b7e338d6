/* SPDX-License-Identifier: MIT */
/* The registry of src/train/objective_*.c, in both precisions, and what two of them share. */
#include "train/objective.h"

#include <string.h>
#include "nn/loss.h"

#define VT_PLUGIN(x) extern const VT_R(vt_objective_def) VT_R(vt_objective_def_##x);
#include "objectives.inc"
#undef VT_PLUGIN

static const VT_R(vt_objective_def) *const defs[] = {
#define VT_PLUGIN(x) &VT_R(vt_objective_def_##x),
#include "objectives.inc"
#undef VT_PLUGIN
};

const VT_R(vt_objective_def) *const *VT_R(vt_objective_defs)(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const VT_R(vt_objective_def) *VT_R(vt_objective_find)(const char *name) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (!strcmp(defs[i]->name, name)) return defs[i];
    return NULL;
}

real VT_R(vt_objective_adversarial)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv,
                                    const float *target, int classes, const void *params) {
    (void)dz_clean, (void)z_clean, (void)params;
    return VT_R(vt_loss_eval)(dz_adv, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_adv, classes);
}
