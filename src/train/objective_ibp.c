/* SPDX-License-Identifier: MIT */
/* Training for certified linf radii by interval bounds: the cross entropy of the worst logits that they leave the box
 * (Gowal et al. 2018, eq. 12), beside that of the clean ones. At eps 0 the two are one, so that attack.ramp_end is the
 * ramp of both. */
#include "nn/loss.h"
#include "train/objective.h"

typedef struct params {
    double weight;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("weight", params, weight, "of the worst logits' cross entropy, and 1 minus it of the clean logits'", 0.5,
             0, 1),
    VT_OPT_END,
};

/* Returns (1 - weight) CE(z_clean) + weight CE(z_adv), z_adv being bounds of z_k - z_y. */
static real weigh_losses(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target,
                         int classes, const void *params_) {
    const real of_adv = (real)((const params *)params_)->weight, of_clean = 1 - of_adv;
    const vt_loss ce = {.kind = VT_LOSS_CE, .target = target};
    const real clean = VT_R(vt_loss_eval)(dz_clean, &ce, z_clean, classes);
    const real worst = VT_R(vt_loss_eval)(dz_adv, &ce, z_adv, classes);
    for (int k = 0; k < classes; k++) {
        if (dz_clean) dz_clean[k] *= of_clean;
        if (dz_adv) dz_adv[k] *= of_adv;
    }
    return of_clean * clean + of_adv * worst;
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_ibp) = {
    .name = "ibp",
    .summary = "certified training: cross entropy of the worst logits that interval bounds allow in the linf ball",
    .reference = "Gowal et al. 2018 (arXiv 1810.12715)",
    .params_size = sizeof(params),
    .opts = opts,
    .inner = VT_INNER_NONE,
    .needs_clean = true,
    .bounds = true,
    .hard_labels = true,
    .eval = weigh_losses,
};
