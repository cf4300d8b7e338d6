/* SPDX-License-Identifier: MIT */
/* PGD-20 as TRADES' released evaluator runs it: eps 0.031 (8/255 = 0.03137 rounded down) with steps of 0.003; a start
 * uniform in the ball that may leave the box, where the first gradient is taken; the last iterate alone is scored. The
 * start is pgd's draw, so that beside pgd the evaluator is all that differs. */
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps;
    double alpha, eps;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 20, 1, 100000),
    VT_OPT_R("alpha", params, alpha, "step size in pixel units", 0.003, 0, 1),
    VT_OPT_R("eps", params, eps, "radius; 0: the run's", 0.031, 0, 1),
    VT_OPT_END,
};

/* Runs all steps on one image; t->x_adv: the last iterate, whose logits are asked for. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *g = t->work, *step = g + t->n, *lo = step + t->n, *hi = lo + t->n, value;
    vt_loss ce = vt_oracle_loss(o, VT_LOSS_CE);
    vt_ball ball;
    vt_ball_init(&ball, VT_LINF, p->eps > 0 ? p->eps : t->ball->eps, t->x, t->n, lo, hi);
    vt_rng rng = t->rng;
    rng.purpose = vt_rng_purpose("pgd"), rng.run = 0;
    vt_rng_uniforms(&rng, t->x_adv, t->n);
    for (size_t i = 0; i < t->n; i++) t->x_adv[i] = t->x[i] + (float)ball.eps * (2 * t->x_adv[i] - 1); /* no box */
    vt_cycle cycle = {.room = hi + t->n};
    for (int k = 0; (k = vt_cycle_skip(&cycle, o, t, k, p->steps)) < p->steps; k++) {
        if (t->before_step) t->before_step(t->ctx, k, t->x_adv);
        VT_TRY(vt_oracle_gradient(o, t->x_adv, &ce, NULL, &value, g));
        vt_ball_step(&ball, step, g, p->alpha);
        vt_ball_move(&ball, t->x_adv, step);
    }
    return vt_oracle_logits(o, t->x_adv, NULL);
}

VT_COST(params, .forwards = 1, .gradients = p->steps, .unread = 1)

const vt_attack_def vt_attack_def_pgd_trades = {
    .name = "pgd-trades",
    .summary = "TRADES' released PGD-20: eps 0.031, the last iterate scored",
    .reference = "Zhang et al. 2019 (ICML), TRADES, released evaluator",
    .norms = VT_CAN_LINF,
    .white_box = true,
    .published = true,
    .traits = VT_CANNOT_AIM,
    VT_ATTACK_CODE(params, .images = 6),
};
