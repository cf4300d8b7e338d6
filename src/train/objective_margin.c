/* SPDX-License-Identifier: MIT */
/* Training for certified radii of networks whose Lipschitz constant is known: the cross entropy asks for more than the
 * label's logit being the largest. L = T CE((z - offset y) / T), y [K] the label's distribution: with offset sqrt(2) L
 * r an image counts as right only if it is certified at radius r (Tsuzuku et al. 2018; with the temperature: Prach and
 * Lampert 2022). */
#include "train/objective.h"

typedef struct params {
    double offset, temperature;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("offset", params, offset,
             "what the label's logit is lowered by: sqrt(2) times Lipschitz constant times radius", 0.1, 0, 1e6),
    VT_OPT_R("temperature", params, temperature, "logits are divided by it", 0.25, 1e-6, 1e6),
    VT_OPT_END,
};

/* Returns the logit of class k that the loss sees. */
static double lowered_logit(const real *z, const float *target, int k, const params *p) {
    return ((double)z[k] - p->offset * (double)target[k]) / p->temperature;
}

/* Returns the loss of z_clean [K] with target [K]; dz_clean [K] (or NULL): its gradient, softmax - target. */
static real eval(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params_) {
    (void)dz_adv, (void)z_adv;
    const params *p = params_;
    double top = -INFINITY, sum = 0, loss = 0, all = 0; /* all: of the target, 1 but for float's rounding */
    for (int k = 0; k < classes; k++) top = fmax(top, lowered_logit(z_clean, target, k, p)), all += (double)target[k];
    for (int k = 0; k < classes; k++) sum += exp(lowered_logit(z_clean, target, k, p) - top);
    for (int k = 0; k < classes; k++) {
        const double log_p = lowered_logit(z_clean, target, k, p) - top - log(sum);
        if (target[k] > 0) loss -= (double)target[k] * log_p; /* 0 times the log of no probability is 0 */
        if (dz_clean) dz_clean[k] = (real)(all * exp(log_p) - (double)target[k]);
    }
    return (real)(loss * p->temperature);
}

const VT_R(vt_objective_def) VT_R(vt_objective_def_margin) = {
    .name = "margin",
    .summary = "certified training: cross entropy of logits, the label's lowered by a margin",
    .reference = "Prach and Lampert 2022 (arXiv 2208.03160); Tsuzuku et al. 2018",
    .params_size = sizeof(params),
    .opts = opts,
    .inner = VT_INNER_NONE,
    .needs_clean = true,
    .eval = eval,
};
