/* SPDX-License-Identifier: MIT */
/* DDN: gradient steps on cross-entropy, each put back onto a sphere whose radius shrinks while the point is adversarial
 * and grows while it is not. The last step's point is never looked at, as in the authors' code. */
#include <math.h>
#include "attacks/min_norm.h"

typedef struct params {
    int steps, levels, target;
    double gamma, radius;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 100, 1, 100000),
    VT_OPT_R("gamma", params, gamma, "share by which the radius changes at each step", 0.05, 0, 0.99),
    VT_OPT_R("radius", params, radius, "radius at the start", 1, 1e-9, 1e6),
    VT_OPT_I("levels", params, levels, "grid that pixels are rounded to (256: 8 bits; 0: none)", 0, 0, 65536),
    VT_TARGET_OPT(params),
    VT_OPT_END,
};

/* Sets x1 to x1 + alpha g/|g|, rescaled (up or down) to radius eps around x, clipped, rounded to the grid; g is used
 * up. For a zero gradient stands a direction drawn by the key and step k (foolbox). */
static void step(const vt_task *t, const params *p, int k, double alpha, double eps, float *x1, float *g) {
    double length = vt_length(VT_L2, g, t->n), sum = 0;
    if (!(length > 0)) {
        vt_rng rng = t->rng;
        rng.step = (uint32_t)k;
        vt_rng_normals(&rng, g, t->n);
        length = vt_length(VT_L2, g, t->n);
    }
    double f = alpha / length;
    for (size_t i = 0; i < t->n; i++) {
        double d = (double)x1[i] - (double)t->x[i] + f * (double)g[i];
        g[i] = (float)d;
        sum += d * d;
    }
    double scale = sum > 0 ? eps / sqrt(sum) : 0, levels = p->levels - 1;
    for (size_t i = 0; i < t->n; i++) {
        double v = (double)t->x[i] + scale * (double)g[i];
        v = v > 0 ? (v < 1 ? v : 1) : 0;
        x1[i] = (float)(p->levels > 1 ? rint(v * levels) / levels : v);
    }
}

/* Runs all steps on one image; t->x_adv: the nearest adversarial point met in the ball, else x (vt_min_norm_note). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *x1 = t->work + t->classes, *g = x1 + t->n, *z = g + t->n, value;
    vt_min_norm_point near;
    if (!vt_min_norm_open(&near, o, t, p->target)) return VT_OK;
    double eps = p->radius, widest = vt_box_radius(VT_L2, t->x, t->n);
    for (size_t i = 0; i < t->n; i++) x1[i] = t->x[i];
    for (int k = 0; k < p->steps; k++) {
        VT_TRY(vt_min_norm_gradient(&near, o, VT_LOSS_CE, x1, z, &value, g));
        eps *= vt_min_norm_note(&near, x1, z) ? 1 - p->gamma : 1 + p->gamma;
        eps = fmin(eps, widest);
        double alpha = 0.01 + 0.99 * vt_cosine(k, p->steps);
        step(t, p, k, alpha, eps, x1, g);
    }
    return VT_OK;
}

VT_COST(params, .gradients = p->steps)

const vt_attack_def vt_attack_def_ddn = {
    .name = "ddn",
    .summary = "minimum-norm attack: decoupled direction and norm",
    .reference = "Rony et al. 2019 (CVPR), 'Decoupling direction and norm', algorithm 1",
    .norms = VT_CAN_L2,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 2, .logits = 2),
};
