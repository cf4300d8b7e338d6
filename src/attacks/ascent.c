/* SPDX-License-Identifier: MIT */
#include "attacks/ascent.h"

#include <math.h>
#include <string.h>

int vt_cycle_skip(vt_cycle *c, vt_oracle *o, const vt_task *t, int k, int end) {
    const vt_oracle_counts now = vt_oracle_counted(o);
    for (int i = 0; i < 2 && now.by && !t->before_step; i++) {
        vt_kept *kept = &c->kept[i];
        float *x = c->room + (size_t)i * t->n;
        bool alike = kept->until && end == kept->end && now.by == kept->counts.by;
        if (alike && !memcmp(x, t->x_adv, t->n * sizeof *x)) {
            int period = k - kept->at;
            return k + period * vt_oracle_repeat(o, &kept->counts, (end - k) / period);
        }
        if (alike && k < kept->until) continue;
        memcpy(x, t->x_adv, t->n * sizeof *x);
        *kept = (vt_kept){.at = k, .until = k + (i ? 4 + k / 4 : 2), .end = end, .counts = now};
    }
    return k;
}

vt_rng vt_ascent_start(const vt_task *t, int run, bool random) {
    vt_rng rng = t->rng;
    rng.run = (uint32_t)run;
    if (random)
        vt_ball_start_inside(t->ball, &rng, t->x_adv);
    else
        memcpy(t->x_adv, t->x, t->n * sizeof(float));
    return rng;
}

void vt_ascent_step(const vt_task *t, float *g, double alpha, float *step) {
    if (t->ball->norm == VT_L1) vt_l1_drop_blocked(g, t->x_adv, t->n);
    vt_ball_step(t->ball, step, g, alpha);
    vt_ball_move(t->ball, t->x_adv, step);
}

void vt_noise_draw(const vt_task *t, const vt_rng *r, double eps, float *u) {
    double f = eps;
    if (t->ball->norm == VT_LINF) {
        vt_rng_uniforms(r, u, t->n);
        for (size_t i = 0; i < t->n; i++) u[i] = 2 * u[i] - 1;
    } else {
        vt_rng_normals(r, u, t->n);
        double length = vt_length(t->ball->norm, u, t->n);
        f = length > 0 ? eps * (double)vt_rng_uniform(r, (uint64_t)t->n * 2) / length : 0;
    }
    for (size_t i = 0; i < t->n; i++) u[i] = (float)(f * (double)u[i]);
}

const float *vt_noise_beside(const vt_task *t, const float *u, float sign, float *y) {
    for (size_t i = 0; i < t->n; i++) y[i] = fminf(fmaxf(t->x_adv[i] + sign * u[i], 0), 1);
    return y;
}
