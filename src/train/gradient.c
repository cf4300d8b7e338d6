/* SPDX-License-Identifier: MIT */
#include "train/gradient.h"

#include <string.h>
#include "nn/loss.h"

static int label_of(const float *target, int classes) {
    int y = 0;
    for (int k = 1; k < classes; k++)
        if (target[k] > target[y]) y = k;
    return y;
}

void VT_R(vt_micro_gradient)(real *grad, vt_micro_sums *sums, VT_R(vt_session) *s, const VT_R(vt_objective_def) *o,
                             const void *params, const real *x, const float *target, int images, double scale,
                             real *dz) {
    int k = s->model->config.classes, n = images * VT_R(vt_views)(o);
    bool clean = o->needs_clean, adv = o->inner != VT_INNER_NONE;
    const real *z = VT_R(vt_session_forward)(s, x, n, true);
    memset(sums, 0, sizeof *sums);
    for (int i = 0; i < images; i++) {
        int at = i * k, at_adv = (clean ? images + i : i) * k, y = label_of(target + at, k);
        const real *zc = clean ? z + at : NULL, *za = adv ? z + at_adv : NULL;
        sums->loss += (double)o->eval(clean ? dz + at : NULL, adv ? dz + at_adv : NULL, zc, za, target + at, k, params);
        sums->right_clean += zc && VT_R(vt_argmax)(zc, k) == y;
        sums->right_adv += za && VT_R(vt_argmax)(za, k) == y;
    }
    for (int i = 0; i < n * k; i++) dz[i] *= (real)scale;
    VT_R(vt_session_backward)(s, dz, NULL, grad);
    sums->ortho = s->ortho_value;
}
