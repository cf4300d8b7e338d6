/* SPDX-License-Identifier: MIT */
/* PDPGD: two players of the Lagrangian |d| + lambda softplus(-margin). One takes Adam's steps on d, each followed by
 * the proximal operator of the norm (proximal Adam, arXiv 1910.10094: a few inner steps in Adam's metric); the other
 * raises lambda while the point is not adversarial and lowers it while it is. Constants without an option are those of
 * adversarial-library, from the authors' code. l0: the operator of |d|_{2/3}, the authors' best there, with its exact
 * threshold and for single values. */
#include <math.h>
#include <string.h>
#include "attacks/min_norm.h"

typedef struct params {
    int steps, inner, target;
    double eta, dual_eta, ratio;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 500, 1, 100000),
    VT_OPT_R("eta", params, eta, "first step size of Adam; falls to a hundredth", 0.1, 1e-6, 10),
    VT_OPT_R("dual_eta", params, dual_eta, "first step of log lambda; falls to a tenth", 0.1, 0, 10),
    VT_OPT_R("ratio", params, ratio, "weight of the norm at the start, as a share of the loss's", 0.01, 1e-6, 1e6),
    VT_OPT_I("inner", params, inner, "proximal steps after each gradient step, at most", 5, 1, 100),
    VT_TARGET_OPT(params),
    VT_OPT_END,
};

/* One image's state: d [n] the perturbation, m and v [n] Adam's means, u and z [n] the proximal iterates; theta = log
 * lambda, share: of the norm and of the loss, means over the steps. */
typedef struct state {
    const vt_task *t;
    float *d, *m, *v, *u, *z;
    double theta, share[2];
} state;

/* Returns the t >= 0 with sum max(|u| - t, 0) = mu, 0 if |u|_1 <= mu: values above it are cut by the proximal operator
 * of mu |u|_inf. Newton's steps from the left never pass the root of a convex function, and end at it exactly. */
static double linf_threshold(const float *u, size_t n, double mu) {
    for (double t = 0;;) {
        double sum = 0, above = 0;
        for (size_t i = 0; i < n; i++)
            if (fabs((double)u[i]) > t) sum += fabs((double)u[i]) - t, above++;
        double next = above > 0 ? t + (sum - mu) / above : t;
        if (!(next > t)) return t;
        t = next;
    }
}

/* Returns argmin_z (z - a)^2 / 2 + mu |z|^{2/3}, a >= 0, mu > 0: 0 up to 2 (2 mu / 3)^{3/4}, else the larger root of
 * z + (2 mu / 3) z^{-1/3} = a by the resolvent of its quartic in z^{1/3}. */
static double shrink_two_thirds(double a, double mu) {
    if (a <= 2 * pow(2 * mu / 3, 0.75)) return 0;
    double root = sqrt(pow(a, 4) / 256 - 8 * pow(mu, 3) / 729),
           b = 2 * (cbrt(a * a / 16 + root) + cbrt(a * a / 16 - root));
    double s = (sqrt(b) + sqrt(fmax(2 * a / sqrt(b) - b, 0))) / 2;
    return s * s * s;
}

/* Sets u [n] <- argmin_z |z - u|^2 / 2 + mu |z| in the norm (l0: |z|_{2/3}^{2/3}). */
static void apply_proximal(vt_norm norm, float *u, size_t n, double mu) {
    double length = norm == VT_L2 ? vt_length(VT_L2, u, n) : 0, scale = length > mu ? 1 - mu / length : 0;
    double cut = norm == VT_LINF ? linf_threshold(u, n, mu) : 0;
    for (size_t i = 0; i < n; i++) {
        double a = fabs((double)u[i]);
        double z = norm == VT_LINF ? fmin(a, cut)
                   : norm == VT_L2 ? a * scale
                   : norm == VT_L1 ? fmax(a - mu, 0)
                                   : shrink_two_thirds(a, mu);
        u[i] = (float)copysign(z, (double)u[i]);
    }
}

/* Returns the change d nearest to v for which x + d lies in [0,1]. */
static double in_box(double v, float x) { return fmin(fmax(v, -(double)x), 1 - (double)x); }

/* Returns the divisor of Adam's step for a mean square v, c = 1 - 0.999^k. */
static double adam_divisor(float v, double c) { return sqrt((double)v / c) + 1e-8; }

/* Takes step k of d: Adam's, by the gradient g [n] of the loss, then the proximal operator's. */
static void step(state *s, const params *p, int k, const float *g) {
    size_t n = s->t->n;
    const float *x = s->t->x;
    double eta = p->eta * pow(0.01, (double)k / p->steps), c1 = 1 - pow(0.9, k + 1), c2 = 1 - pow(0.999, k + 1),
           most = 0;
    for (size_t i = 0; i < n; i++) {
        double a = (double)g[i];
        s->m[i] = (float)(0.9 * (double)s->m[i] + 0.1 * a), s->v[i] = (float)(0.999 * (double)s->v[i] + 0.001 * a * a);
        double by = adam_divisor(s->v[i], c2);
        most = fmax(most, by);
        s->d[i] = (float)in_box((double)s->d[i] - eta / c1 * (double)s->m[i] / by, x[i]);
    }
    double mu = s->share[0] / s->share[1] * eta / most;
    memcpy(s->u, s->d, n * sizeof *s->u);
    for (int j = 0; j < p->inner; j++) {
        double moved = 0, length = 0;
        for (size_t i = 0; i < n; i++) {
            double u = (double)s->u[i];
            s->z[i] = (float)(u - adam_divisor(s->v[i], c2) / most * (u - (double)s->d[i]));
        }
        apply_proximal(s->t->ball->norm, s->z, n, mu);
        for (size_t i = 0; i < n; i++) {
            double to = in_box((double)s->z[i], x[i]), by = to - (double)s->u[i];
            moved += by * by, length += to * to;
            s->u[i] = (float)to;
        }
        if (!(moved > 1e-4 * length)) break; /* |by| < 0.01 |to| */
    }
    memcpy(s->d, s->u, n * sizeof *s->d);
}

/* Moves log lambda up (the point was not adversarial) or down, and the means of both weights towards it. */
static void step_dual(state *s, const params *p, int k, double up) {
    double rest = p->steps > 1 ? (double)(p->steps - 1 - k) / (p->steps - 1) : 1, most = -log(1e-6);
    s->theta = fmin(fmax(s->theta + up * p->dual_eta * (0.1 + 0.9 * rest), -most), most);
    double share = 1 / (1 + exp(s->theta));
    s->share[0] = 0.9 * s->share[0] + 0.1 * share, s->share[1] = 0.9 * s->share[1] + 0.1 * (1 - share);
}

/* Returns the unit of margins, by the margin's first gradient g [n]: 1 if its length lies between 0.001 and 1000, else
 * what brings it there, so that a factor on the logits changes nothing; 0: the gradient is 0. */
static double margin_unit(const float *g, size_t n) {
    const double length = vt_length(VT_L2, g, n);
    return length > 0 ? length / fmin(fmax(length, 1e-3), 1e3) : 0;
}

/* Runs all steps on one image; t->x_adv: the nearest adversarial point met (vt_min_norm_open). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *d = t->work + t->classes, *u = d + t->n, *m = u + t->n, *y = m + 3 * t->n, *g = y + t->n, *z = g + t->n,
          margin;
    state s = {.t = t, .d = d, .m = m, .v = m + t->n, .u = u, .z = m + 2 * t->n, .theta = -log(p->ratio)};
    vt_min_norm_point near;
    if (!vt_min_norm_open(&near, o, t, p->target)) return VT_OK;
    memset(d, 0, 4 * t->n * sizeof *d);
    s.share[0] = 1 / (1 + exp(s.theta)), s.share[1] = 1 - s.share[0];
    double unit = 0;
    for (int k = 0; k < p->steps; k++) {
        for (size_t i = 0; i < t->n; i++) y[i] = d[i] == 0 ? t->x[i] : fminf(fmaxf(t->x[i] + d[i], 0), 1);
        VT_TRY(vt_min_norm_gradient(&near, o, VT_LOSS_MARGIN, y, z, &margin, g));
        vt_min_norm_note(&near, y, z);
        if (!(unit > 0)) unit = margin_unit(g, t->n);
        const double by = unit > 0 ? unit : 1, slope = -1 / (1 + exp((double)margin / by)); /* of softplus(-margin) */
        for (size_t i = 0; i < t->n; i++) g[i] = (float)(slope * ((double)g[i] / by));
        step(&s, p, k, g);
        step_dual(&s, p, k, margin > 0 ? -1 : margin < 0 ? 1 : 0);
    }
    return VT_OK;
}

VT_COST(params, .gradients = p->steps)

const vt_attack_def vt_attack_def_pdpgd = {
    .name = "pdpgd",
    .summary = "minimum-norm attack: primal-dual proximal gradient descent",
    .reference =
        "Matyasko and Chau 2021 (arXiv 2106.01538), 'PDPGD: Primal-Dual Proximal Gradient Descent Adversarial Attack'",
    .norms = VT_CAN_ALL | VT_CAN_L0,
    .traits = VT_DRAWS_NOTHING,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 7, .logits = 2),
};
