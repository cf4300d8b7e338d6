/* SPDX-License-Identifier: MIT */
/* FMN: gradient steps on the margin, projected onto a ball whose radius eps shrinks while the point is adversarial and
 * grows while it is not; until a first one is found eps is where the linearised margin would be zero. Step and share
 * decay by a cosine. The last step's point is never looked at, as in the authors' code. */
#include <float.h>
#include <math.h>
#include "attacks/min_norm.h"

enum { ONTO_BALL, ONTO_SPHERE };

typedef struct params {
    int steps, projection, target;
    double alpha, gamma, gamma_final;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 100, 1, 100000),
    VT_OPT_R_OR("alpha", params, alpha, "first step size, in l2 for every norm; falls to a hundredth", "1 (linf: 10)",
                0, 0, 1e6),
    VT_OPT_R("gamma", params, gamma, "first share by which eps changes", 0.05, 0, 0.99),
    VT_OPT_R("gamma_final", params, gamma_final, "last share", 0.001, 0, 0.99),
    VT_OPT_C("projection", params, projection,
             "l2: onto the ball (the paper), or always onto its sphere (adversarial-library)", "ball|sphere",
             ONTO_BALL),
    VT_TARGET_OPT(params),
    VT_OPT_END,
};

/* Returns the radius before any adversarial point is known, at distance d: where the linearised margin is zero, and no
 * less than eps and the share by which it grows later. (The authors take the former alone. On a linear classifier it is
 * reached in one step and never crossed; and what the box cuts off the steps keeps d below eps for ever.) */
static double first_radius(vt_norm norm, double d, double margin, const float *g, size_t n, double eps, double gamma) {
    double length = vt_length(vt_norm_dual(norm), g, n), linear = length > 0 ? d + fabs(margin) / length : DBL_MAX;
    return isinf(eps) ? linear : fmax(linear, eps * (1 + gamma));
}

/* Sets d [n] <- its projection onto the ball of radius eps around 0 (linf, l2); sphere: in l2 onto its surface, also
 * from inside. */
static void project_onto_ball(vt_norm norm, bool sphere, float *d, size_t n, double eps) {
    float e = (float)eps;
    double f = norm == VT_L2 ? eps / fmax(vt_length(VT_L2, d, n), 1e-12) : 1;
    if (f > 1 && !sphere) f = 1;
    for (size_t i = 0; i < n; i++)
        d[i] = norm == VT_L2 ? (float)(f * (double)d[i]) : d[i] > e ? e : d[i] < -e ? -e : d[i];
}

/* Sets x1 <- x + clip(project(x1 - x + alpha g/|g|_2)); the box only shrinks any norm, so it comes last. l1: onto ball
 * and box at once, exactly. g is used up. */
static void step(const vt_task *t, const params *p, double alpha, double eps, float *x1, float *g) {
    vt_norm norm = t->ball->norm;
    double length = vt_length(VT_L2, g, t->n), f = length > 0 ? alpha / length : 0;
    for (size_t i = 0; i < t->n; i++) g[i] = (float)((double)x1[i] - (double)t->x[i] + f * (double)g[i]);
    if (norm != VT_L1) project_onto_ball(norm, p->projection == ONTO_SPHERE, g, t->n, eps);
    for (size_t i = 0; i < t->n; i++) {
        float v = t->x[i] + g[i];
        x1[i] = norm == VT_L1 || (v > 0 && v < 1) ? v : v > 0 ? 1 : 0;
    }
    if (norm == VT_L1) vt_l1_project(x1, t->x, t->n, eps);
}

/* Runs all steps on one image; t->x_adv: the nearest adversarial point met in the ball, else x (vt_min_norm_note). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *x1 = t->work + t->classes, *g = x1 + t->n, *z = g + t->n, value;
    vt_norm norm = t->ball->norm;
    vt_min_norm_point near;
    if (!vt_min_norm_open(&near, o, t, p->target)) return VT_OK;
    double eps = INFINITY, widest = vt_box_radius(norm, t->x, t->n);
    double alpha = p->alpha > 0 ? p->alpha : norm == VT_LINF ? 10 : 1;
    for (size_t i = 0; i < t->n; i++) x1[i] = t->x[i];
    for (int k = 0; k < p->steps; k++) {
        double c = vt_cosine(k, p->steps), gamma = p->gamma_final + (p->gamma - p->gamma_final) * c;
        VT_TRY(vt_min_norm_gradient(&near, o, VT_LOSS_MARGIN, x1, z, &value, g));
        if (vt_min_norm_note(&near, x1, z))
            eps = fmin(eps * (1 - gamma), near.distance);
        else if (isfinite(near.distance))
            eps *= 1 + gamma;
        else
            eps = first_radius(norm, vt_distance(norm, x1, t->x, t->n), (double)value, g, t->n, eps, gamma);
        eps = fmin(eps, widest);
        step(t, p, alpha * (0.01 + 0.99 * c), eps, x1, g);
    }
    return VT_OK;
}

VT_COST(params, .gradients = p->steps)

const vt_attack_def vt_attack_def_fmn = {
    .name = "fmn",
    .summary = "minimum-norm attack: projected gradient steps on a ball that adapts",
    .reference = "Pintor et al. 2021 (NeurIPS), 'Fast minimum-norm adversarial attacks', algorithm 1",
    .norms = VT_CAN_ALL,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 2, .logits = 2),
};
