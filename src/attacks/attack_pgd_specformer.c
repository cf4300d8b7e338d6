/* SPDX-License-Identifier: MIT */
/* PGD and "CW" as the released evaluators of Mo et al. and SpecFormer run them
 * (github.com/mo666666/When-Adversarial-Training-Meets-Vision-Transformers, b826030; microsoft/robustlearn,
 * specformer/, 31580cd):
 *  - uniform start, clamped to the box;
 *  - an image is left alone from the first iterate on that is misclassified;
 *  - loss=cw is max(max_{j!=y} z_j - z_y, -10): an image that is right by more than 10 has no gradient and never moves;
 *  - of the restarts the point of the largest last loss is returned, and that bookkeeping starts at the clean image
 *    with 0. A cross entropy is never below it; the cw loss of an image that is still right is, so that it is scored on
 *    the clean image.
 * Written in pixels. The released code works on (x - mean) / std with eps / std, alpha / std and the box's images under
 * the same map: each line is this file's divided by std > 0, so that the two differ by float rounding alone.
 * The start is pgd's own, so that beside pgd the evaluator is all that differs. */
#include <string.h>
#include "attacks/ascent.h"

#define CLAMP (-10.0f) /* "threshold" of the released loss */

typedef struct params {
    int steps, restarts, loss;
    double alpha, eps;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 20, 1, 100000),
    VT_OPT_R_OR("alpha", params, alpha, "step size in pixel units", "2/255", 2.0 / 255, 0, 1),
    VT_OPT_C("loss", params, loss, "what is maximised", "ce|cw", 0),
    VT_OPT_I("restarts", params, restarts, "independent runs, of which the largest loss counts", 1, 1, 1000),
    VT_OPT_R("eps", params, eps, "radius; 0: the run's", 0, 0, 1),
    VT_OPT_END,
};

/* Ascends from t->x_adv until the image is misclassified; *loss: where it ends (not clamped: below 0 is below 0). */
static vt_status ascend_until_misclassified(vt_oracle *o, const params *p, const vt_task *t, const vt_ball *ball,
                                            float *loss) {
    float *g = t->work, *step = g + t->n, *z = t->work + 5 * t->n;
    bool cw = p->loss == 1, frozen = false;
    vt_loss kind = vt_oracle_loss(o, cw ? VT_LOSS_MARGIN : VT_LOSS_CE);
    vt_cycle cycle = {.room = z + t->classes};
    for (int k = 0; (k = vt_cycle_skip(&cycle, o, t, k, p->steps)) < p->steps; k++) {
        if (t->before_step) t->before_step(t->ctx, k, t->x_adv);
        VT_TRY(vt_oracle_gradient(o, t->x_adv, &kind, z, loss, g));
        frozen = vt_oracle_reached(o, z);
        /* below the clamp the gradient is zero, and the next one, at the same point, too. At equality torch.maximum
         * hands on half of it: the same sign. */
        if (frozen || (cw && *loss < CLAMP)) break;
        vt_ball_step(ball, step, g, p->alpha);
        vt_ball_move(ball, t->x_adv, step);
    }
    if (!frozen) {
        VT_TRY(vt_oracle_logits(o, t->x_adv, z));
        *loss = vt_loss_eval_f32(NULL, &kind, z, t->classes);
    }
    return VT_OK;
}

/* Runs all restarts on one image; t->x_adv: the point of the largest last loss, else the image. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *best = t->work + 2 * t->n, best_loss = 0;
    vt_ball ball;
    vt_ball_init(&ball, VT_LINF, p->eps > 0 ? p->eps : t->ball->eps, t->x, t->n, best + t->n, best + 2 * t->n);
    memcpy(best, t->x, t->n * sizeof *best);
    for (int r = 0; r < p->restarts; r++) {
        vt_rng rng = t->rng;
        float loss;
        rng.purpose = vt_rng_purpose("pgd"), rng.run = (uint32_t)r;
        vt_ball_start_inside(&ball, &rng, t->x_adv);
        VT_TRY(ascend_until_misclassified(o, p, t, &ball, &loss));
        if (!(loss >= best_loss)) continue;
        memcpy(best, t->x_adv, t->n * sizeof *best);
        best_loss = loss;
    }
    memcpy(t->x_adv, best, t->n * sizeof *best);
    return VT_OK;
}

/* With loss=cw an image that is right by more than the clamp is left after one gradient. */
VT_COST(params, .forwards = p->restarts, .gradients = (double)p->restarts * p->steps)

const vt_attack_def vt_attack_def_pgd_specformer = {
    .name = "pgd-specformer",
    .summary = "the released PGD and CW evaluators of Mo et al. and SpecFormer",
    .reference = "Mo et al. 2022 (NeurIPS) and Hu et al. 2024 (ECCV), SpecFormer, released evaluators",
    .norms = VT_CAN_LINF,
    .white_box = true,
    .published = true,
    .traits = VT_CANNOT_AIM,
    VT_ATTACK_CODE(params, .images = 7, .logits = 1),
};
