/* SPDX-License-Identifier: MIT */
/* PGD-k: x <- project(x + alpha sign(grad)) (linf), x + alpha grad/|grad| (l2), x + alpha sign(grad)/k on the
 * k largest entries that the box lets move (l1: SLIDE, with a k that adapts). The last iterate of the first restart
 * that breaks the image is the result, else the last iterate of the last restart. */
#include <math.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps, restarts, loss;
    double alpha, kappa;
    bool random_start;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "gradient steps", 20, 1, 100000),
    VT_OPT_R_OR("alpha", params, alpha, "step size in pixel units", "eps/4", 0, 0, 1000),
    VT_OPT_B("random_start", params, random_start, "start at a random point of the ball", 1),
    VT_OPT_I("restarts", params, restarts, "independent runs", 1, 1, 1000),
    VT_OPT_C("loss", params, loss, "what is maximised", "ce|margin|dlr", 0),
    VT_OPT_R_OR("kappa", params, kappa, "with loss=margin: no more gradient once the margin exceeds it", "none", 1e9, 0,
                1e9),
    VT_OPT_END,
};

/* Returns how many entries a step changes at most (l1). SLIDE's hundredth of all; but pixels can move by a half on
 * average, so that a point at eps changes twice eps entries, and steps of far fewer never fill them. */
static size_t max_changed_entries(const vt_task *t) {
    double k = fmax((double)(t->n / 100), ceil(2 * t->ball->eps));
    return k < (double)t->n ? (size_t)k : t->n;
}

/* Makes one run from t->x_adv, in place. last: no other restart will ask whether this one broke the image. */
static vt_status run_once(vt_oracle *o, const params *p, const vt_task *t, bool last) {
    float *g = t->work, *step = g + t->n, *z = step + t->n, value;
    static const vt_loss_kind kinds[] = {VT_LOSS_CE, VT_LOSS_MARGIN, VT_LOSS_DLR};
    vt_loss loss = vt_oracle_loss(o, kinds[p->loss]);
    double alpha = p->alpha > 0 ? p->alpha : t->ball->eps / 4;
    bool sparse = t->ball->norm == VT_L1;
    size_t most = max_changed_entries(t), count = most;
    vt_cycle cycle = {.room = z + t->classes};
    for (int k = 0; k < p->steps; k++) {
        if (!sparse && (k = vt_cycle_skip(&cycle, o, t, k, p->steps)) == p->steps) break;
        if (t->before_step) t->before_step(t->ctx, k, t->x_adv);
        VT_TRY(vt_oracle_gradient(o, t->x_adv, &loss, z, &value, g));
        if (loss.kind == VT_LOSS_MARGIN && (double)value > p->kappa) continue; /* min(margin, kappa) is flat here */
        if (sparse) {
            vt_l1_drop_blocked(g, t->x_adv, t->n);
            vt_l1_sparse_step(step, g, t->n, count, alpha);
        } else {
            vt_ball_step(t->ball, step, g, alpha);
        }
        vt_ball_move(t->ball, t->x_adv, step);
        if (!sparse) continue;
        count = vt_l1_two_thirds(vt_l1_moved(t->x_adv, t->x, t->n)); /* where fewer do, the steps get sparser */
        if (count > most) count = most;
    }
    return vt_oracle_logits(o, t->x_adv, last ? NULL : z);
}

/* Runs restarts until one breaks the image; t->x_adv: its last iterate, else the last restart's. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    const float *z = t->work + 2 * t->n;
    for (int r = 0; r < p->restarts; r++) {
        vt_ascent_start(t, r, p->random_start);
        bool last = r == p->restarts - 1;
        VT_TRY(run_once(o, p, t, last));
        if (last || vt_oracle_reached(o, z)) break;
    }
    return VT_OK;
}

VT_COST(params, .forwards = p->restarts, .gradients = (double)p->restarts * p->steps, .unread = 1)

const vt_attack_def vt_attack_def_pgd = {
    .name = "pgd",
    .summary = "projected gradient ascent on a loss",
    .reference = "Madry et al. 2018, section 2.1; l1: Tramer and Boneh 2019, SLIDE",
    .norms = VT_CAN_ALL | VT_CAN_PATCH,
    .white_box = true,
    .follows_steps = true,
    VT_ATTACK_CODE(params, .images = 4, .logits = 1),
};
