/* Fast adversarial training: one large step from a random start. The loss is that of PGD training. */
#include <stddef.h>
#include "nn/loss.h"
#include "train/objective.h"

static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params) {
    (void)dz_clean, (void)z_clean, (void)params;
    return VT_R(vt_loss_eval)(dz_adv, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_adv, classes);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_fast) = {
    .name = "fast",
    .summary = "single-step adversarial training: FGSM from a random start",
    .reference = "Wong et al. 2020, algorithm 3; step 10/255 is theirs for CIFAR-10 at eps 8/255",
    .inner = VT_INNER_LABEL,
    .attack = "pgd:steps=1,alpha=10/255",
    .eval = eval,
};
