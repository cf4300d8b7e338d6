/* SPDX-License-Identifier: MIT */
/* Patch-Fool (Fu et al. 2022): Adam on the pixels of the patch that attention chooses, along the gradient of the cross
 * entropy and, projected so that they do not fight it, those of attention's own loss: all queries of the early blocks
 * shall look at that patch. Steps are in the units of the model's normalised input. */
#include <math.h>
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps, restarts, every, beta, batch;
    double lr, decay, attention;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "Adam steps", 250, 1, 100000),
    VT_OPT_R("lr", params, lr, "Adam's rate, in units of the normalised input", 0.22, 0, 1000),
    VT_OPT_R("decay", params, decay, "factor of the rate", 0.95, 0, 1),
    VT_OPT_I("every", params, every, "... every so many steps", 10, 1, 100000),
    VT_OPT_R("attention", params, attention, "factor of attention's gradients; 0: cross entropy alone", 0.002, 0, 1000),
    VT_OPT_C("beta", params, beta, "projection off the cross entropy's gradient", "paper|reference", 0),
    VT_OPT_I("batch", params, batch, "with beta=reference: the batch that its projection depends on", 64, 1, 100000),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_END,
};

/* Turns a gradient g [n] by pixels into one by the normalised input; outside the squares, where nothing can move, 0. */
static void scale_to_normalised_input(float *g, const vt_task *t, const double *std) {
    const vt_ball *b = t->ball;
    for (size_t i = 0; i < t->n; i++) g[i] = b->lo[i] < b->hi[i] ? g[i] * (float)std[i / vt_shape_plane(t->shape)] : 0;
}

/* Returns a . b, both [n], summed in double. */
static double dot(const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

/* Adds to sum [n] p->attention * (g - beta ce), beta not 0 where g works against ce (PCGrad). paper: beta =
 * <g,ce>/|ce|^2, which removes the part along ce; reference: <g,ce>/|ce| of gradients that are means over a batch. */
static void add_projected(float *sum, float *g, const float *ce, size_t n, const params *p) {
    double inner = dot(g, ce, n), square = dot(ce, ce, n), beta = 0;
    if (inner < 0) beta = p->beta ? inner / (sqrt(square) * p->batch) : inner / square;
    for (size_t i = 0; i < n; i++) sum[i] += (float)(p->attention * ((double)g[i] - beta * (double)ce[i]));
}

/* Returns how many blocks' attention counts, from *first on: as the authors' code does, the first half without the
 * first block; where that leaves none, the last. */
static int attended_blocks(int layers, int *first) {
    int most = layers / 2 - 1;
    *first = most > 0 ? 1 : layers - 1;
    return most > 1 ? most : 1;
}

/* Sets sum [n] = the direction at t->x_adv: one forward, and a backward for each loss. ce, g [n]: scratch. */
static vt_status compute_direction(vt_oracle *o, const params *p, const vt_task *t, float *sum, float *ce, float *g) {
    const vt_tokens *tokens = &o->model->tokens;
    vt_loss loss = vt_oracle_loss(o, VT_LOSS_CE);
    float value;
    VT_TRY(vt_oracle_gradient(o, t->x_adv, &loss, NULL, &value, ce));
    scale_to_normalised_input(ce, t, o->model->std);
    memcpy(sum, ce, t->n * sizeof *sum);
    if (p->attention == 0) return VT_OK;
    const vt_squares *s = t->ball->squares;
    vt_attn_loss a = {.kind = VT_ATTN_LOSS_LOG, .weight = 1, .alone = true};
    a.patch = vt_patch_token(tokens, s->at[0], s->size, t->shape); /* the first of several */
    loss.attention = &a;
    int first, count = attended_blocks(tokens->layers, &first);
    for (int l = first; l < first + count; l++) {
        a.first = a.last = l;
        VT_TRY(vt_oracle_gradient(o, t->x_adv, &loss, NULL, &value, g));
        scale_to_normalised_input(g, t, o->model->std);
        add_projected(sum, g, ce, t->n, p);
    }
    return VT_OK;
}

/* Divides g [n] by the largest entry of the run's first gradient that is not zero (*unit, set here; 0 before): Adam's
 * 1e-8 and the squares that it averages are then as small as they look, whatever the size of the logits. */
static void in_units(float *g, size_t n, double *unit) {
    if (!(*unit > 0)) *unit = vt_length(VT_LINF, g, n);
    for (size_t i = 0; i<n && * unit> 0; i++) g[i] = (float)((double)g[i] / *unit);
}

/* Moves t->x_adv, then projected, by a step of Adam upwards, betas 0.9 and 0.999, 1e-8; in pixels the step is times
 * std. step: from 0. */
static void apply_adam_step(const vt_task *t, float *m, float *v, const float *g, int step, double lr,
                            const double *std) {
    double c1 = 1 - pow(0.9, step + 1), c2 = 1 - pow(0.999, step + 1);
    for (size_t i = 0; i < t->n; i++) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        t->x_adv[i] +=
            (float)(lr * std[i / vt_shape_plane(t->shape)] * ((double)m[i] / c1) / (sqrt((double)v[i] / c2) + 1e-8));
    }
    vt_ball_project(t->ball, t->x_adv);
}

/* Runs Adam for p->steps from t->x_adv, in place, and asks the model about the last iterate. */
static vt_status run_once(vt_oracle *o, const params *p, const vt_task *t) {
    float *m = t->work, *v = m + t->n, *sum = v + t->n, *ce = sum + t->n, *g = ce + t->n;
    double unit = 0;
    memset(m, 0, 2 * t->n * sizeof *m);
    for (int i = 0; i < p->steps; i++) {
        VT_TRY(compute_direction(o, p, t, sum, ce, g));
        in_units(sum, t->n, &unit);
        double lr = p->lr * pow(p->decay, (double)(i / p->every));
        apply_adam_step(t, m, v, sum, i, lr, o->model->std);
    }
    return vt_oracle_logits(o, t->x_adv, NULL);
}

/* Runs the restarts until one breaks the image; t->x_adv: the last one's last iterate. VT_E_FORBIDDEN without gradients
 * or attention. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    if (!o->gradients_allowed || !o->model->tokens.layers) return VT_E_FORBIDDEN;
    for (int r = 0; r < p->restarts; r++) {
        vt_ascent_start(t, r, true);
        VT_TRY(run_once(o, p, t));
        if (vt_oracle_may_end(o, false)) break;
    }
    return VT_OK;
}

VT_COST(params, .forwards = p->restarts, .unread = p->restarts,
        .gradients = (double)p->restarts * p->steps *
                     (1 + (p->attention == 0 ? 0 : attended_blocks(d->layers, &(int){0}))))

const vt_attack_def vt_attack_def_patch_fool = {
    .name = "patch-fool",
    .summary = "Adam on the patch that attention chooses, with attention's own loss in the early blocks",
    .reference = "Fu et al. 2022 (ICLR), Patch-Fool, eq. 3 to 8",
    .norms = VT_CAN_PATCH,
    .white_box = true,
    .looks = true,
    .where = VT_WHERE_ATTENTION,
    VT_ATTACK_CODE(params, .images = 5),
};
