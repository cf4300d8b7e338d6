/* SPDX-License-Identifier: MIT */
#include "attacks/min_norm.h"

#include <math.h>
#include <string.h>

size_t vt_min_norm_len(const vt_task *dims) { return dims->n + (size_t)dims->classes; }

bool vt_min_norm_open(vt_min_norm_point *p, const vt_oracle *o, const vt_task *t, int target, float *work) {
    if (o->goal >= 0) target = o->goal;
    *p = (vt_min_norm_point){.task = t, .target = target, .best = work, .onehot = work + t->n, .distance = INFINITY};
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
    memcpy(p->best, x, t->n * sizeof(float));
    return true;
}

vt_status vt_min_norm_gradient(vt_min_norm_point *p, vt_oracle *o, vt_loss_kind kind, const float *x, float *z,
                               float *value, float *dx) {
    vt_loss loss = {.kind = kind, .target = p->onehot, .towards = p->target >= 0};
    return vt_oracle_gradient(o, x, &loss, z, value, dx);
}

void vt_min_norm_finish(const vt_min_norm_point *p) {
    const vt_task *t = p->task;
    if (isfinite(p->distance) && vt_ball_contains(t->ball, p->best)) memcpy(t->x_adv, p->best, t->n * sizeof(float));
}

double vt_box_radius(vt_norm norm, const float *x, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fmax((double)x[i], 1 - (double)x[i]);
        s = norm == VT_LINF ? fmax(s, d) : s + (norm == VT_L2 ? d * d : d);
    }
    return norm == VT_L2 ? sqrt(s) : s;
}

vt_status vt_target_check(int target, const vt_task *dims, vt_err *e) {
    if (target < dims->classes) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "target=%d, but the model has the classes 0 to %d", target, dims->classes - 1);
}
