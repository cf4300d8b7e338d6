/* SPDX-License-Identifier: MIT */
/* AdamW, as torch.optim.AdamW: w *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 * w -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps). */
#include <math.h>
#include <stddef.h>
#include "train/optim.h"

typedef struct params {
    double beta1, beta2, eps;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("beta1", params, beta1, "decay of the mean", 0.9, 0, 0.99999),
    VT_OPT_R("beta2", params, beta2, "decay of the mean square", 0.999, 0, 0.999999),
    VT_OPT_R("eps", params, eps, "floor of the denominator", 1e-8, 1e-15, 1),
    VT_OPT_END,
};

/* Moves w [n] by step t (from 1) along gradient g; state: m and v (vt_optim_def.step). */
static void step(real *w, void *const *state, const real *g, size_t n, const void *params_, double lr,
                 double weight_decay, int64_t t) {
    const params *p = params_;
    real *m = state[0], *v = state[1];
    real b1 = (real)p->beta1, b2 = (real)p->beta2, c1 = (real)(1 - p->beta1), c2 = (real)(1 - p->beta2);
    real keep = (real)(1 - lr * weight_decay), eps = (real)p->eps;
    real size = (real)(lr / (1 - pow(p->beta1, (double)t)));
    real root = (real)(1 / sqrt(1 - pow(p->beta2, (double)t)));
    for (size_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + c1 * g[i];
        v[i] = b2 * v[i] + c2 * g[i] * g[i];
#ifdef VT_DOUBLE
        real s = sqrt(v[i]);
#else
        real s = sqrtf(v[i]);
#endif
        w[i] = keep * w[i] - size * m[i] / (s * root + eps);
    }
}

const VT_R(vt_optim_def) VT_R(vt_optim_def_adamw) = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .reference = "Loshchilov and Hutter 2019; torch.optim.AdamW",
    .params_size = sizeof(params),
    .opts = opts,
    .slots = 2,
    .slot_name = {"exp_avg", "exp_avg_sq"},
    .step = step,
};
