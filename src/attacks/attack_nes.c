/* SPDX-License-Identifier: MIT */
/* NES: PGD along differences of the margin over noise, sum_u (L(x + u) - L(x - u)) u, which asks for logits alone and
 * sees steps whose gradient is zero (Ilyas et al. 2018, "Black-box Adversarial Attacks with Limited Queries and
 * Information", section 2.1: antithetic pairs; there the noise is normal, here of the ball's shape). The result is the
 * last iterate. */
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int steps, draws;
    double alpha, reach;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("steps", params, steps, "steps", 20, 1, 100000),
    VT_OPT_I("draws", params, draws, "pairs of queries that a step averages over", 50, 1, 100000),
    VT_OPT_R("reach", params, reach, "size of the noise as a share of eps", 1, 0, 100),
    VT_OPT_R_OR("alpha", params, alpha, "step size in pixel units", "eps/4", 0, 0, 1000),
    VT_OPT_END,
};

/* Queries the logits z [classes] at x [n]; *out: the oracle's margin there, above 0 if x is adversarial. */
static vt_status query_margin(vt_oracle *o, const float *x, float *z, float *out) {
    VT_TRY(vt_oracle_logits(o, x, z));
    *out = vt_oracle_margin(o, z);
    return VT_OK;
}

/* Runs all steps on one image, each pair of queries with a step of the key of its own; t->x_adv: the last iterate. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    double alpha = p->alpha > 0 ? p->alpha : t->ball->eps / 4;
    float *sum = t->work, *u = sum + t->n, *y = u + t->n, *z = y + t->n, up, down;
    vt_rng r = t->rng;
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    for (int i = 0; i < p->steps; i++) {
        memset(sum, 0, t->n * sizeof *sum);
        for (int k = 0; k < p->draws; k++) {
            r.step = (uint32_t)(i * p->draws + k);
            vt_noise_draw(t, &r, p->reach * t->ball->eps, u);
            VT_TRY(query_margin(o, vt_noise_beside(t, u, 1, y), z, &up));
            VT_TRY(query_margin(o, vt_noise_beside(t, u, -1, y), z, &down));
            for (size_t j = 0; j < t->n; j++) sum[j] += (up - down) * u[j];
        }
        vt_ascent_step(t, sum, alpha, u);
        VT_TRY(vt_oracle_logits(o, t->x_adv, z));
    }
    return VT_OK;
}

VT_COST(params, .forwards = p->steps * (1 + 2.0 * p->draws))

const vt_attack_def vt_attack_def_nes = {
    .name = "nes",
    .summary = "black-box: PGD along differences of the margin over noise of the ball's size",
    .reference = "Ilyas, Engstrom, Athalye and Lin 2018, section 2.1",
    .norms = VT_CAN_ALL,
    VT_ATTACK_CODE(params, .images = 3, .logits = 1),
};
