/* SPDX-License-Identifier: MIT */
#include "attacks/attacker.h"

#include <stdlib.h>
#include "base/mem.h"

vt_status vt_attacker_open(vt_attacker *a, vt_shape shape, size_t work, vt_err *e) {
    size_t pixels = vt_shape_values(shape), bytes = pixels * sizeof(float);
    *a = (vt_attacker){.pixels = pixels, .work_len = work, .shape = shape};
    a->x_adv = vt_alloc(bytes), a->lo = vt_alloc(bytes), a->hi = vt_alloc(bytes);
    a->work = vt_alloc((work ? work : 1) * sizeof(float));
    if (a->x_adv && a->lo && a->hi && a->work) return VT_OK;
    vt_attacker_close(a);
    return vt_fail(e, VT_E_MEMORY, "no memory for one more thread");
}

void vt_attacker_close(vt_attacker *a) {
    free(a->x_adv), free(a->lo), free(a->hi), free(a->work);
    *a = (vt_attacker){0};
}

vt_task vt_attacker_dims(vt_shape shape, int classes, const vt_patch *patch) {
    return (vt_task){.n = vt_shape_values(shape),
                     .shape = shape,
                     .classes = classes,
                     .patch = patch && patch->size ? patch : NULL};
}

size_t vt_attacker_work(const vt_attack *a, const vt_task *dims) {
    size_t most = 1;
    for (int k = 0; k < a->n_stages; k++) {
        size_t need = vt_attack_work_len(&a->stages[k], dims);
        if (need > most) most = need;
    }
    return most;
}

/* Returns how many calls of an image that no attack breaks the draft answers; none without verdicts, where its points
 * would not be confirmed. */
static int64_t draft_calls(const vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    vt_cost_dims dims = {.classes = t->classes,
                         .layers = o->model->tokens.layers,
                         .norm = t->norm,
                         .aimed = t->goal != NULL};
    if (!o->draft.classifier || t->mode == VT_ORACLE_NO_VERDICT) return 0;
    if (s->place) dims.points = vt_patch_places(t->patch, t->shape), dims.count = t->patch->count;
    vt_passes p = vt_attack_stage_cost(s, dims);
    return (int64_t)((1 - VT_FINISH) * (p.forwards + p.gradients));
}

vt_status vt_attacker_run(vt_attacker *a, vt_oracle *o, const vt_attack_stage *s, const vt_task *t) {
    vt_task task = *t, dims = vt_attacker_dims(a->shape, t->classes, t->patch);
    o->mode = t->mode, o->eight_bit = t->eight_bit, o->open = t->open;
    if (t->lo)
        vt_ball_box(&a->ball, t->clean, a->pixels, t->lo, t->hi);
    else
        vt_ball_init(&a->ball, t->norm, t->eps, t->clean, a->pixels, a->lo, a->hi);
    vt_oracle_reset(o, &a->ball, t->label, s->def->white_box && !t->blind);
    task.n = dims.n, task.shape = dims.shape, task.patch = dims.patch;
    o->draft.calls = draft_calls(o, s, &task);
    if (t->goal) vt_oracle_aim(o, *t->goal);
    if (t->target) vt_oracle_target(o, t->target);
    if (!task.x) task.x = t->clean;
    task.ball = &a->ball, task.x_adv = a->x_adv, task.work = a->work;
    vt_classifier_begin(o->model, &t->rng);
    if (o->draft.classifier) vt_classifier_begin(o->draft.classifier, &t->rng);
    vt_status st = vt_attack_stage_run(o, s, &task);
    bool kept = o->not_finite || (o->has_found && t->mode != VT_ORACLE_EXHAUSTIVE);
    a->at = kept ? o->found : a->x_adv;
    return st == VT_STOP ? VT_OK : st;
}

const char *vt_attacker_why(const vt_oracle *o, vt_status s) {
    return s == VT_E_MODEL && o->own.why.code ? o->own.why.text : vt_status_name(s);
}
