/* SPDX-License-Identifier: MIT */
/* Multi-targeted PGD: for one target class after another, gradient ascent on z_target - z_label, first from the clean
 * image, then from random points of the ball; every query may break the image, towards whichever class. */
#include <string.h>
#include "attacks/ascent.h"
#include "attacks/target_order.h"

typedef struct params {
    int steps, restarts, targets, choose;
    double alpha;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 100, 1, 100000),
    VT_OPT_R_OR("alpha", params, alpha,
                "first step size in pixel units; a tenth of it from half of the steps on, a hundredth in the last "
                "quarter",
                "eps/5", 0, 0, 1000),
    VT_OPT_I("restarts", params, restarts, "runs towards each target; all but the first start at a random point", 2, 1,
             1000),
    VT_OPT_I("targets", params, targets, "target classes, at most classes - 1", 9, 1, 100000),
    VT_CHOOSE_OPT(params, VT_BY_LOGIT),
    VT_OPT_END,
};

/* Makes one run from t->x_adv, in place. z [K]: the logits of its last iterate. */
static vt_status run_once(vt_oracle *o, const params *p, const vt_task *t, const vt_loss *loss, float *z) {
    float *g = t->work, *step = g + t->n, value;
    double alpha = p->alpha > 0 ? p->alpha : t->ball->eps / 5;
    const int tenth = p->steps - p->steps / 2, hundredth = p->steps - p->steps / 4; /* from these steps on */
    vt_cycle cycle = {.room = z + 3 * t->classes};
    for (int k = 0; k < p->steps; k++) {
        k = vt_cycle_skip(&cycle, o, t, k, k < tenth ? tenth : k < hundredth ? hundredth : p->steps);
        if (k == p->steps) break;
        double decay = k >= hundredth ? 0.01 : k >= tenth ? 0.1 : 1;
        VT_TRY(vt_oracle_gradient(o, t->x_adv, loss, NULL, &value, g));
        vt_ascent_step(t, g, alpha * decay, step);
    }
    return vt_oracle_logits(o, t->x_adv, z);
}

/* Runs every target's restarts until one breaks the image; t->x_adv: its last iterate, else the last run's. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *z = t->work + 2 * t->n, *cotangent = z + t->classes, *merit = cotangent + t->classes;
    int targets = vt_target_count(p->targets, t->classes, o->goal >= 0);
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    VT_TRY(vt_target_merits(o, t, p->choose, merit));
    for (int k = 0; k < targets * p->restarts; k++) {
        vt_loss loss = vt_target_difference(t, vt_target_at(o, t, merit, k / p->restarts + 1), cotangent);
        vt_ascent_start(t, k, k % p->restarts > 0);
        VT_TRY(run_once(o, p, t, &loss, z));
        if (vt_oracle_reached(o, z) && vt_oracle_may_end(o, true)) return VT_OK;
    }
    return VT_OK;
}

/* Returns the passes that an image takes at most: ordering the targets, then all runs. */
static vt_passes cost(const void *params_, const vt_cost_dims *d) {
    const params *p = params_;
    double runs = (double)vt_target_count(p->targets, d->classes, d->aimed) * p->restarts;
    vt_passes c = vt_target_cost(p->choose, d);
    return (vt_passes){.forwards = c.forwards + runs, .gradients = c.gradients + runs * p->steps};
}

const vt_attack_def vt_attack_def_mt_pgd = {
    .name = "mt-pgd",
    .summary = "multi-targeted PGD: ascent on z_target - z_label, class by class",
    .reference = "Gowal et al. 2019, 'An Alternative Surrogate Loss for PGD-based Adversarial Testing'",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .white_box = true,
    VT_ATTACK_CODE(params, .images = 4, .logits = 5),
};
