/* SPDX-License-Identifier: MIT */
/* sigma-zero: a smooth count of the values that differ, sum d^2 / (d^2 + sigma), goes down beside the margin by steps
 * of the gradient that is normalised in linf; values below a threshold, which falls while the point is adversarial not
 * and rises while it is, are taken back (Cina et al. 2025, "sigma-zero: Gradient-based Optimization of l0-norm
 * Adversarial Examples", algorithm 1; constants of the authors' code). The authors' code hands the normalised gradient
 * to Adam, which the algorithm does not say; so does this one, unless told otherwise. */
#include <math.h>
#include <string.h>
#include "attacks/min_norm.h"

typedef struct params {
    int steps, target, by;
    double sigma, eta, tau, tau_step;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 1000, 1, 100000),
    VT_OPT_C("by", params, by, "how a step follows the gradient: Adam (authors' code) or as it is (the paper)",
             "adam|gradient", 0),
    VT_OPT_R("sigma", params, sigma, "how sharply a value counts as changed", 1e-3, 1e-12, 1),
    VT_OPT_R("eta", params, eta, "first step, of the largest value; falls to a tenth by a cosine", 1, 1e-6, 10),
    VT_OPT_R("tau", params, tau, "first threshold below which a value is taken back", 0.3, 0, 1),
    VT_OPT_R("tau_step", params, tau_step, "how much it moves, as a share of the step", 0.01, 0, 1),
    VT_TARGET_OPT(params),
    VT_OPT_END,
};

/* Sets g [n] to the gradient of max(-margin, 0) + (sum d^2 / (d^2 + sigma)) / n at d; the margin's own is in g
 * before. */
static void set_objective_gradient(float *g, const float *d, const vt_task *t, double sigma, bool adversarial) {
    double n = (double)t->n;
    for (size_t i = 0; i < t->n; i++) {
        double v = (double)d[i], below = v * v + sigma, count = 2 * v * sigma / (below * below) / n;
        g[i] = (float)((adversarial ? 0 : -(double)g[i]) + count);
    }
}

/* Sets g <- g / |g|, or Adam's step number k for it (betas 0.9 and 0.999, 1e-8), whose means are m, v [n]. */
static void gradient_to_step(float *g, float *m, float *v, size_t n, int k, bool adam) {
    double most = vt_length(VT_LINF, g, n), f = most > 0 ? 1 / most : 0;
    double c1 = 1 - pow(0.9, k + 1), c2 = 1 - pow(0.999, k + 1);
    for (size_t i = 0; i < n; i++) {
        double u = f * (double)g[i];
        m[i] = (float)(0.9 * (double)m[i] + 0.1 * u), v[i] = (float)(0.999 * (double)v[i] + 0.001 * u * u);
        g[i] = (float)(adam ? (double)m[i] / c1 / (sqrt((double)v[i] / c2) + 1e-8) : u);
    }
}

/* Sets d [n] <- the box's nearest to d - eta g, values below tau taken back; y [n] = x + d. */
static void step(float *d, float *y, const float *g, const vt_task *t, double eta, double tau) {
    for (size_t i = 0; i < t->n; i++) {
        double x = (double)t->x[i], to = fmin(fmax(x + (double)d[i] - eta * (double)g[i], 0), 1);
        d[i] = fabs(to - x) < tau ? 0 : (float)(to - x);
        y[i] = d[i] == 0 ? t->x[i] : (float)to;
    }
}

/* Runs all steps on one image; t->x_adv: the adversarial point of the fewest changed values met in the ball, else x
 * (vt_min_norm_note). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *d = t->work + t->classes, *y = d + t->n, *g = y + t->n, *m = g + t->n, *v = m + t->n, *z = v + t->n, margin;
    vt_min_norm_point near;
    if (!vt_min_norm_open(&near, o, t, p->target)) return VT_OK;
    double tau = p->tau;
    memset(d, 0, t->n * sizeof *d);
    memset(m, 0, 2 * t->n * sizeof *m);
    memcpy(y, t->x, t->n * sizeof *y);
    for (int k = 0; k < p->steps; k++) {
        double eta = p->eta * (0.1 + 0.9 * vt_cosine(k, p->steps));
        VT_TRY(vt_min_norm_gradient(&near, o, VT_LOSS_MARGIN, y, z, &margin, g));
        bool adversarial = vt_min_norm_note(&near, y, z);
        set_objective_gradient(g, d, t, p->sigma, adversarial);
        if (k) tau = fmin(fmax(tau + (adversarial ? 1 : -1) * p->tau_step * eta, 0), 1);
        gradient_to_step(g, m, v, t->n, k, p->by == 0);
        step(d, y, g, t, eta, tau);
    }
    return VT_OK;
}

VT_COST(params, .gradients = p->steps)

const vt_attack_def vt_attack_def_sigma_zero = {
    .name = "sigma-zero",
    .summary = "minimum-norm attack in l0: as few values as possible, whatever their change",
    .reference = "Cina et al. 2025 (ICLR), algorithm 1",
    .norms = VT_CAN_L0,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 5, .logits = 2),
};
