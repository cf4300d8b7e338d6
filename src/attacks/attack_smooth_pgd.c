/* SPDX-License-Identifier: MIT */
/* PGD along the gradient of the loss averaged over noise of the ball's size, E_u grad L(x + u), for networks whose
 * gradient at a point says nothing of the loss a little further away (shattered gradients: Balduzzi et al. 2017; the
 * averaging: Smilkov et al. 2017, SmoothGrad; as an attack: Athalye et al. 2018, expectation over transformation).
 * Steps as in pgd; the result is the last iterate. */
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps, restarts, draws, loss;
    double alpha, reach;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "steps", 20, 1, 100000),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_I("draws", params, draws, "noises that a step averages over", 8, 1, 100000),
    VT_OPT_R("reach", params, reach, "size of the noise as a share of eps", 1, 0, 100),
    VT_OPT_C("loss", params, loss, "what is maximised", "margin|ce|dlr", 0),
    VT_OPT_R_OR("alpha", params, alpha, "step size in pixel units", "eps/4", 0, 0, 1000),
    VT_OPT_END,
};
static const vt_loss_kind kinds[] = {VT_LOSS_MARGIN, VT_LOSS_CE, VT_LOSS_DLR};

/* Sets sum [n] to the sum of the loss's gradients at p->draws noisy copies of t->x_adv; r->step counts the draws.
 * Behind sum: scratch, 3 n floats. */
static vt_status sum_noisy_gradients(vt_oracle *o, const params *p, const vt_task *t, vt_rng *r, float *sum) {
    float *u = sum + t->n, *y = u + t->n, *g = y + t->n, value;
    vt_loss loss = vt_oracle_loss(o, kinds[p->loss]);
    memset(sum, 0, t->n * sizeof *sum);
    for (int i = 0; i < p->draws; i++, r->step++) {
        vt_noise_draw(t, r, p->reach * t->ball->eps, u);
        VT_TRY(vt_oracle_gradient(o, vt_noise_beside(t, u, 1, y), &loss, NULL, &value, g));
        for (size_t k = 0; k < t->n; k++) sum[k] += g[k];
    }
    return VT_OK;
}

/* Runs restarts, the first from the image, until the last iterate of one is misclassified; t->x_adv: that iterate. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    double alpha = p->alpha > 0 ? p->alpha : t->ball->eps / 4;
    float *g = t->work, *step = g + t->n, *z = g + 4 * t->n;
    for (int k = 0; k < p->restarts; k++) {
        vt_rng r = vt_ascent_start(t, k, k > 0);
        r.step = 1;
        for (int i = 0; i < p->steps; i++) {
            VT_TRY(sum_noisy_gradients(o, p, t, &r, g));
            vt_ascent_step(t, g, alpha, step);
            VT_TRY(vt_oracle_logits(o, t->x_adv, z));
        }
        if (vt_oracle_may_end(o, vt_oracle_reached(o, z))) break;
    }
    return VT_OK;
}

VT_COST(params, .forwards = (double)p->restarts * p->steps, .gradients = (double)p->restarts * p->steps * p->draws)

const vt_attack_def vt_attack_def_smooth_pgd = {
    .name = "smooth-pgd",
    .summary = "PGD along gradients averaged over noise of the ball's size",
    .reference = "Athalye, Carlini and Wagner 2018 (EOT); Smilkov et al. 2017 (SmoothGrad)",
    .norms = VT_CAN_ALL,
    .white_box = true,
    VT_ATTACK_CODE(params, .images = 4, .logits = 1),
};
