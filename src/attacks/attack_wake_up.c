/* SPDX-License-Identifier: MIT */
/* Wake-up: what moves most inside the network, in units of how much it differs between images (inference/sensors.h),
 * is climbed one by one, up and down, and the model is asked at every step. A hidden path that only a secret pattern
 * opens sleeps on all pictures: the logits have no gradient that leads there, but the sensor that waits for the pattern
 * has. Steps of eps, eps/2, eps/4, ...; the result is the point, of those that the model was asked about, of its
 * largest margin. */
#include <math.h>
#include <string.h>
#include "attacks/ascent.h"

typedef struct params {
    int sensors, steps;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("sensors", params, sensors, "how many are climbed: the first of every kind, then the second, ...", 100, 1,
             100000),
    VT_OPT_I("steps", params, steps, "gradient steps of a climb", 3, 1, 1000),
    VT_OPT_END,
};

/* Climbs sensor k (down: descends it) from the clean image; moves a point of larger margin than *margin into best (in
 * t->work) and *margin. */
static vt_status climb_sensor(vt_oracle *o, const params *p, const vt_task *t, int k, bool down, float *margin) {
    float *g = t->work, *step = g + t->n, *best = step + t->n, *z = best + t->n;
    double length = t->ball->eps;
    vt_ascent_start(t, 0, false);
    for (int i = 0; i < p->steps; i++, length /= 2) {
        VT_TRY(vt_oracle_inside_gradient(o, t->x_adv, k, g));
        for (size_t j = 0; down && j < t->n; j++) g[j] = -g[j];
        vt_ascent_step(t, g, length, step);
        VT_TRY(vt_oracle_logits(o, t->x_adv, z));
        float m = vt_oracle_margin(o, z);
        if (!(m > *margin)) continue;
        *margin = m;
        memcpy(best, t->x_adv, t->n * sizeof(float));
    }
    return VT_OK;
}

/* Climbs every sensor up and down until the image breaks; t->x_adv: the best point asked about, else the image. */
static vt_status run(vt_oracle *o, const void *params_, const vt_task *t) {
    const params *p = params_;
    float margin = -INFINITY, *best = t->work + 2 * t->n;
    int count = vt_oracle_inside_count(o);
    memcpy(best, t->x, t->n * sizeof(float));
    for (int k = 0; k < count && k < p->sensors && !vt_oracle_may_end(o, false); k++)
        for (int down = 0; down < 2; down++) VT_TRY(climb_sensor(o, p, t, k, down, &margin));
    memcpy(t->x_adv, best, t->n * sizeof(float));
    return VT_OK;
}

VT_COST(params, .forwards = 2.0 * p->sensors * p->steps, .gradients = 2.0 * p->sensors * p->steps)

const vt_attack_def vt_attack_def_wake_up = {
    .name = "wake-up",
    .summary = "climbs what moves most inside the network, a unit, a score or a direction at a time",
    .reference = "ours",
    .norms = VT_CAN_LINF | VT_CAN_L2,
    .inside = true,
    .traits = VT_DRAWS_NOTHING | VT_ENDS_ITSELF,
    VT_ATTACK_CODE(params, .images = 3, .logits = 1),
};
