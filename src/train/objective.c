/* SPDX-License-Identifier: MIT */
/* The registry of src/train/objective_*.c, in both precisions, what two of them share, and their gradient. */
#include "train/objective.h"

#include <string.h>
#include "models/net/bounds.h"
#include "nn/loss.h"

#define VT_KIND VT_R(vt_objective_def)
#define VT_KIND_NAME(x) VT_R(vt_objective_def_##x)
#define VT_KIND_LIST "objectives.inc"
#define VT_KIND_DEFS VT_R(vt_objective_defs)
#define VT_KIND_FIND VT_R(vt_objective_find)
#include "base/registry.inc"

real VT_R(vt_objective_adversarial)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv,
                                    const float *target, int classes, const void *params) {
    (void)dz_clean, (void)z_clean, (void)params;
    return VT_R(vt_loss_eval)(dz_adv, &(vt_loss){.kind = VT_LOSS_CE, .target = target}, z_adv, classes);
}

void VT_R(vt_micro_gradient)(real *grad, vt_step_sums *sums, VT_R(vt_session) *s, const VT_R(vt_objective_def) *o,
                             const void *params, const real *x, const float *target, int images, double scale,
                             real *dz) {
    int k = s->model->config.classes, n = images * VT_R(vt_views)(o);
    bool clean = o->needs_clean, adv = VT_R(vt_reads_worst)(o);
    const real *z = VT_R(vt_session_forward)(s, x, n, true);
    const real *worst = o->bounds ? VT_R(vt_bounds_forward)(s->bounds, x, target, images) : NULL;
    *sums = (vt_step_sums){.images = images, .clean_images = clean ? images : 0};
    for (int i = 0; i < images; i++) {
        int at = i * k, at_adv = (clean ? images + i : i) * k, y = vt_target_label(target + at, k);
        const real *zc = clean ? z + at : NULL, *za = worst ? worst + at : adv ? z + at_adv : NULL;
        sums->loss += (double)o->eval(clean ? dz + at : NULL, adv ? dz + at_adv : NULL, zc, za, target + at, k, params);
        sums->right_clean += zc && VT_R(vt_argmax)(zc, k) == y;
        sums->right_adv += za && VT_R(vt_argmax)(za, k) == y;
    }
    for (int i = 0; i < (worst ? 2 : 1) * n * k; i++) dz[i] *= (real)scale;
    VT_R(vt_session_backward)(s, dz, NULL, grad);
    if (worst) VT_R(vt_bounds_backward)(s->bounds, dz + images * k, grad);
    sums->ortho = s->ortho_value;
}
