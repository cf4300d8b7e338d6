/* Adversarial training: the cross entropy at the adversarial image, which was made against the same (mixed) label. */
#include <stddef.h>
#include "nn/loss.h"
#include "train/objective.h"

static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params) {
    (void)dz_clean, (void)z_clean, (void)params;
    return VT_R(vt_loss_eval)(dz_adv, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_adv, classes);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_at) = {
    .name = "at",
    .summary = "PGD adversarial training: cross entropy on adversarial images",
    .reference = "Madry et al. 2018, eq. 2.1; soft labels and step sizes as Mo et al. 2022",
    .inner = VT_INNER_LABEL,
    .attack = "pgd:steps=10,alpha=eps/4",
    .eval = eval,
};
