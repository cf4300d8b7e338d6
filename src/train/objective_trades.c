/* SPDX-License-Identifier: MIT */
/* TRADES: the cross entropy at the clean image, and the divergence between the predictions at the two images. */
#include <stddef.h>
#include "train/objective.h"

typedef struct params {
    double beta;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("beta", params, beta, "weight of the divergence", 6, 0, 1000),
    VT_OPT_END,
};

/* Returns the loss of one image and overwrites dz_adv and dz_clean (NULL: not wanted) with its gradient.
 * With p = softmax(z_clean), q = softmax(z_adv), l_k = log p_k - log q_k, D = KL(p || q) = sum_k p_k l_k:
 * loss = - sum_k t_k log p_k + beta D
 * d/dz_clean_j = p_j - t_j + beta p_j (l_j - D)
 * d/dz_adv_j = beta (q_j - p_j) */
static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params_) {
    double beta = ((const params *)params_)->beta, ce = 0, kl = 0;
    double at_clean = VT_R(vt_logsumexp)(z_clean, classes), at_adv = VT_R(vt_logsumexp)(z_adv, classes);
    for (int k = 0; k < classes; k++) {
        double lp = (double)z_clean[k] - at_clean, lq = (double)z_adv[k] - at_adv;
        if (target[k] != 0) ce -= (double)target[k] * lp;
        kl += exp(lp) * (lp - lq);
    }
    for (int k = 0; k < classes; k++) {
        double lp = (double)z_clean[k] - at_clean, lq = (double)z_adv[k] - at_adv, p = exp(lp);
        if (dz_clean) dz_clean[k] = (real)(p - (double)target[k] + beta * p * (lp - lq - kl));
        if (dz_adv) dz_adv[k] = (real)(beta * (exp(lq) - p));
    }
    return (real)(ce + beta * kl);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_trades) = {
    .name = "trades",
    .summary = "cross entropy on clean images + beta KL(clean || adversarial prediction)",
    .reference =
        "Zhang et al. 2019, algorithm 1; start, steps and gradient through both arguments as the authors' and Mo et "
        "al.'s code",
    .params_size = sizeof(params),
    .opts = opts,
    .inner = VT_INNER_PREDICTION,
    .needs_clean = true,
    .hard_labels = true,
    .start_sigma = 0.001,
    .attack = "pgd:steps=10,alpha=2/255,random_start=0",
    .eval = eval,
};
