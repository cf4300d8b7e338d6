/* SPDX-License-Identifier: MIT */
#include "attacks/min_norm.h"

#include <math.h>
#include <string.h>

bool vt_min_norm_open(vt_min_norm_point *p, const vt_oracle *o, const vt_task *t, int target) {
    if (o->goal >= 0) target = o->goal;
    *p = (vt_min_norm_point){.task = t, .target = target, .onehot = t->work, .distance = INFINITY};
    memcpy(t->x_adv, t->x, t->n * sizeof(float));
    if (target == t->label || target >= t->classes) return false;
    memset(p->onehot, 0, (size_t)t->classes * sizeof(float));
    p->onehot[target < 0 ? t->label : target] = 1;
    return true;
}

bool vt_min_norm_hit(const vt_min_norm_point *p, const float *z) {
    int top = vt_argmax_f32(z, p->task->classes);
    return p->target < 0 ? top != p->task->label : top == p->target;
}

bool vt_min_norm_note(vt_min_norm_point *p, const float *x, const float *z) {
    const vt_task *t = p->task;
    if (!vt_min_norm_hit(p, z)) return false;
    double d = vt_distance(t->ball->norm, x, t->x, t->n);
    if (!(d < p->distance)) return true;
    p->distance = d;
    if (vt_ball_contains(t->ball, x)) memcpy(t->x_adv, x, t->n * sizeof(float));
    return true;
}

vt_status vt_min_norm_gradient(vt_min_norm_point *p, vt_oracle *o, vt_loss_kind kind, const float *x, float *z,
                               float *value, float *dx) {
    vt_loss loss = {.kind = kind, .target = p->onehot, .towards = p->target >= 0};
    return vt_oracle_gradient(o, x, &loss, z, value, dx);
}

double vt_box_radius(vt_norm norm, const float *x, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fmax((double)x[i], 1 - (double)x[i]);
        s = norm == VT_LINF ? fmax(s, d) : s + (norm == VT_L2 ? d * d : d);
    }
    return norm == VT_L2 ? sqrt(s) : s;
}
