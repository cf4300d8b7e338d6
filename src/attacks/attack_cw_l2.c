/* SPDX-License-Identifier: MIT */
/* Carlini and Wagner's L2 attack: Adam in tanh space on |x' - x|^2 + c max(0, kappa - margin), c found by binary
 * search. Constants and order of operations are their code's; the early abort looks at this image alone, theirs at the
 * batch, and where their first c is of no use for logits of this size the search begins elsewhere. */
#include <math.h>
#include <string.h>
#include "attacks/min_norm.h"

typedef struct params {
    int steps, search, target;
    double lr, c, kappa;
    bool abort_early;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "Adam steps for each c, at most (1000: a tenth of the cost)", 10000, 1, 1000000),
    VT_OPT_I("search", params, search, "values of c that the binary search tries", 9, 1, 100),
    VT_OPT_R("lr", params, lr, "Adam's learning rate", 0.01, 1e-9, 10),
    VT_OPT_R_OR("c", params, c, "first weight of the margin; auto: 0.001, or what the size of the logits asks for",
                "auto", 0, 0, 1e10),
    VT_OPT_R("kappa", params, kappa, "margin that counts as success", 0, 0, 1e6),
    VT_OPT_B("abort_early", params, abort_early, "end a c when a tenth of the steps brought less than 0.01 %", 1),
    VT_TARGET_OPT(params),
    VT_OPT_END,
};

/* Saturated pixels keep a slope in tanh space. */
static const double inner = 0.999999;

typedef struct space {
    float *w, *m, *v;  /* [n] the variable (0: the image) and Adam's moments */
    float *x1, *g, *z; /* [n], [n], [K] */
} space;

/* Sets x1 [n] = (tanh(atanh(inner (2x - 1)) + w) + 1) / 2; returns |x1 - x~|^2 with x~ = x1 at w = 0, which is not
 * quite x. */
static double to_pixels(const vt_task *t, const space *s) {
    double sum = 0;
    for (size_t i = 0; i < t->n; i++) {
        double a = inner * (2 * (double)t->x[i] - 1), b = tanh((double)s->w[i]);
        double v = (a + b) / (1 + a * b), d = (v - a) / 2; /* tanh(atanh(a) + w) */
        s->x1[i] = (float)((v + 1) / 2);
        sum += d * d;
    }
    return sum;
}

/* Moves w and its moments by Adam's step k (from 1). dL/dw = (2 (x' - x~) - c dmargin/dx) (1 - tanh^2)/2; g holds
 * dmargin/dx. */
static void apply_adam_step(const vt_task *t, const params *p, const space *s, double c, int k) {
    double fix1 = 1 - pow(0.9, k), fix2 = 1 - pow(0.999, k);
    for (size_t i = 0; i < t->n; i++) {
        double a = inner * (2 * (double)t->x[i] - 1), b = tanh((double)s->w[i]), v = (a + b) / (1 + a * b);
        double g = (v - a - c * (double)s->g[i]) * (1 - v * v) / 2;
        s->m[i] = (float)(0.9 * (double)s->m[i] + 0.1 * g);
        s->v[i] = (float)(0.999 * (double)s->v[i] + 0.001 * g * g);
        s->w[i] -= (float)(p->lr * ((double)s->m[i] / fix1) / (sqrt((double)s->v[i] / fix2) + 1e-8));
    }
}

/* Minimises the objective for one weight c from w = 0, noting adversarial points. *reached: was any adversarial by the
 * margin kappa? Ends early as abort_early says. */
static vt_status minimise_for_weight(vt_oracle *o, const params *p, const vt_task *t, vt_min_norm_point *near,
                                     const space *s, double c, bool *reached) {
    int every = (p->steps + 9) / 10;
    double before = INFINITY;
    *reached = false;
    memset(s->w, 0, 3 * t->n * sizeof(float)); /* w, m, v */
    for (int k = 0; k < p->steps; k++) {
        float margin;
        double loss = to_pixels(t, s);
        VT_TRY(vt_min_norm_gradient(near, o, VT_LOSS_MARGIN, s->x1, s->z, &margin, s->g));
        double gap = p->kappa - (double)margin;
        if (gap > 0)
            loss += c * gap;
        else
            memset(s->g, 0, t->n * sizeof(float));
        if (p->kappa > 0 ? gap < 0 : vt_min_norm_hit(near, s->z)) *reached = true, vt_min_norm_note(near, s->x1, s->z);
        apply_adam_step(t, p, s, c, k + 1);
        if (!p->abort_early || k % every) continue;
        if (!(loss <= 0.9999 * before)) break;
        before = loss;
    }
    return VT_OK;
}

/* Sets *c to the authors' 1e-3, where the search reaches from there what a linear model of this margin m and gradient g
 * needs (2 |x' - x| = c |g| at |x' - x| = |m| / |g|) with values left to bisect; else a tenth of that. One gradient. */
static vt_status first_weight(vt_oracle *o, const vt_task *t, vt_min_norm_point *near, const space *s, double *c) {
    float margin;
    VT_TRY(vt_min_norm_gradient(near, o, VT_LOSS_MARGIN, t->x, s->z, &margin, s->g));
    double length = vt_length(VT_L2, s->g, t->n), need = length > 0 ? 2 * fabs((double)margin) / length / length : 0;
    *c = !(need > 0) || (need >= 1e-3 && need <= 1) ? 1e-3 : need / 10;
    return VT_OK;
}

/* Searches c on one image; t->x_adv: the nearest adversarial point met in the ball, else x (vt_min_norm_note). */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *work = t->work + t->classes;
    size_t n = t->n;
    space s = {work, work + n, work + 2 * n, work + 3 * n, work + 4 * n, work + 5 * n};
    vt_min_norm_point near;
    if (!vt_min_norm_open(&near, o, t, p->target)) return VT_OK;
    double c = p->c, lower = 0, upper = INFINITY;
    if (p->c == 0) VT_TRY(first_weight(o, t, &near, &s, &c));
    double most = 1e13 * c; /* 1e10 from 1e-3, as in their code */
    for (int k = 0; k < p->search; k++) {
        bool reached;
        if (p->search >= 10 && k == p->search - 1) c = fmin(upper, most);
        VT_TRY(minimise_for_weight(o, p, t, &near, &s, c, &reached));
        if (reached)
            upper = c;
        else
            lower = c;
        c = isinf(upper) ? 10 * c : (lower + upper) / 2;
    }
    return VT_OK;
}

/* abort_early ends a c sooner; c=auto looks at the logits once. */
VT_COST(params, .gradients = (double)p->search * p->steps + !(p->c > 0))

const vt_attack_def vt_attack_def_cw_l2 = {
    .name = "cw-l2",
    .summary = "minimum-norm attack: Adam in tanh space, weight of the margin by binary search",
    .reference = "Carlini and Wagner 2017 (S&P), section V.A; constants of their code",
    .norms = VT_CAN_L2,
    .traits = VT_DRAWS_NOTHING | VT_ENDS_ITSELF,
    .white_box = true,
    .minimum_norm = true,
    VT_ATTACK_CODE(params, .images = 5, .logits = 2),
};
