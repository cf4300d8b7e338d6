/* SPDX-License-Identifier: MIT */
/* MART: cross entropy and margin at the adversarial image, and the divergence between the predictions weighted by how
 * wrong the clean one is. Constants and the absence of any detach as the authors' code has them. */
#include <stddef.h>
#include "nn/loss.h"
#include "train/objective.h"

typedef struct params {
    double beta;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("beta", params, beta, "weight of the divergence", 6, 0, 1000),
    VT_OPT_END,
};

static const double ROOM = 1.0001, FLOOR = 1e-12, FULL = 1.0000001;

/* Returns the loss of one image and overwrites dz_adv and dz_clean (NULL: not wanted) with its gradient.
 * With p = softmax(z_adv), n = softmax(z_clean), r the rival of y under p:
 * loss = - log p_y - log m + beta w D;  m = 1.0001 - p_r + 1e-12, w = 1.0000001 - n_y,
 *        D = sum_k n_k l_k, l_k = log n_k - log(p_k + 1e-12)
 * d/dz_adv_j = p_j - [j=y] + p_r / m ([j=r] - p_j) - beta w (h_j - p_j sum_k h_k), h_k = n_k p_k / (p_k + 1e-12)
 * d/dz_clean_j = beta (w n_j (l_j - D) - D n_y ([j=y] - n_j)) */
static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params_) {
    double beta = ((const params *)params_)->beta, kl = 0, h = 0;
    double at_clean = VT_R(vt_logsumexp)(z_clean, classes), at_adv = VT_R(vt_logsumexp)(z_adv, classes);
    int y = vt_target_label(target, classes), r = VT_R(vt_best_other)(z_adv, y, classes);
    for (int k = 0; k < classes; k++) {
        double ln = (double)z_clean[k] - at_clean, n = exp(ln), p = exp((double)z_adv[k] - at_adv);
        kl += n * (ln - log(p + FLOOR));
        h += n * p / (p + FLOOR);
    }
    double lp_y = (double)z_adv[y] - at_adv, p_r = exp((double)z_adv[r] - at_adv), m = ROOM - p_r + FLOOR;
    double n_y = exp((double)z_clean[y] - at_clean), w = FULL - n_y;
    for (int k = 0; k < classes; k++) {
        double ln = (double)z_clean[k] - at_clean, n = exp(ln), p = exp((double)z_adv[k] - at_adv);
        double label = k == y, other = k == r, l = ln - log(p + FLOOR);
        if (dz_adv) dz_adv[k] = (real)(p - label + p_r / m * (other - p) - beta * w * (n * p / (p + FLOOR) - p * h));
        if (dz_clean) dz_clean[k] = (real)(beta * (w * n * (l - kl) - kl * n_y * (label - n)));
    }
    return (real)(-lp_y - log(m) + beta * w * kl);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_mart) = {
    .name = "mart",
    .summary = "boosted cross entropy on adversarial images + beta KL weighted by 1 - clean confidence",
    .reference = "Wang et al. 2020; constants and gradients as the authors' code",
    .params_size = sizeof(params),
    .opts = opts,
    .inner = VT_INNER_LABEL,
    .needs_clean = true,
    .hard_labels = true,
    .start_sigma = 0.001,
    .attack = "pgd:steps=10,alpha=2/255,random_start=0",
    .eval = eval,
};
