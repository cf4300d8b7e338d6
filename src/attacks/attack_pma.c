/* SPDX-License-Identifier: MIT */
/* PMA, ascent on the probability margin p_other - p_label in two passes: the first begins by lowering p_label, the
 * second by raising the largest wrong probability; both end on the margin itself (Xie et al. 2024, arXiv 2411.15210;
 * the schedule as released; its first step, which raises p_label, is kept). Ours: the start is clipped to the box, and
 * l2, with steps along the gradient. */
#include "attacks/ascent.h"

typedef struct params {
    int steps, restarts;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps of each of the two passes", 100, 1, 100000),
    VT_OPT_I("restarts", params, restarts, "pairs of passes", 1, 1, 1000),
    VT_OPT_END,
};

/* Returns what step i of a pass ascends (run_pass has the first one descend). 1 - p_label rises as cross-entropy
 * does. */
static vt_loss loss_of_step(const vt_oracle *o, int i, int half, int pass) {
    if (i >= half) return vt_oracle_loss(o, VT_LOSS_PM);
    return vt_oracle_loss(o, pass && i ? VT_LOSS_PO : VT_LOSS_CE);
}

/* Returns the length of step i, from 0: each half begins with steps of 2 eps and ends near 0. */
static double step_length(double eps, int i, int half, int steps) {
    return 2 * eps * vt_cosine(i > half ? i - half - 1 : i - 1, steps - half);
}

/* Runs one pass of p->steps (0: lowers p_label, 1: raises the rival) from t->x_adv, or until it breaks the image; z
 * [classes]: its last logits. */
static vt_status run_pass(vt_oracle *o, const params *p, const vt_task *t, int pass, float *z) {
    float *g = t->work, *step = g + t->n, value;
    int half = p->steps / 2;
    for (int i = 0; i < p->steps; i++) {
        vt_loss loss = loss_of_step(o, i, half, pass);
        bool down = i == 0 && half > 0;
        VT_TRY(vt_oracle_gradient(o, t->x_adv, &loss, z, &value, g));
        if (vt_oracle_reached(o, z) && vt_oracle_may_end(o, true)) return VT_OK;
        for (size_t k = 0; k < t->n && down; k++) g[k] = -g[k];
        vt_ascent_step(t, g, step_length(t->ball->eps, i, half, p->steps), step);
    }
    return vt_oracle_logits(o, t->x_adv, z);
}

/* Runs both passes of every restart until one breaks the image; t->x_adv: the last pass's point. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float *z = t->work + 2 * t->n;
    for (int r = 0; r < 2 * p->restarts; r++) {
        vt_ascent_start(t, r, true);
        VT_TRY(run_pass(o, p, t, r % 2, z));
        if (vt_oracle_reached(o, z) && vt_oracle_may_end(o, true)) return VT_OK;
    }
    return VT_OK;
}

VT_COST(params, .forwards = 2.0 * p->restarts, .gradients = 2.0 * p->restarts * p->steps)

const vt_attack_def vt_attack_def_pma = {
    .name = "pma",
    .summary = "PGD on the margin of probabilities, in two passes",
    .reference = "Xie et al. 2024, arXiv 2411.15210; schedule: their released code",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .white_box = true,
    VT_ATTACK_CODE(params, .images = 2, .logits = 1),
};
