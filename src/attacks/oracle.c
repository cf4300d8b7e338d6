/* SPDX-License-Identifier: MIT */
#include "attacks/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/stats.h"
#include "models/net/session64.h"

/* Takes the oracle's buffers from the arena, which may only be measuring. */
static void take_buffers(vt_oracle *o, vt_arena *a) {
    size_t n = o->model->pixels, k = (size_t)o->model->classes;
    float **const images[] = {&o->found, &o->own.x};
    float **const logits[] = {&o->own.z, &o->own.label, &o->own.goal, &o->own.z_surrogate, &o->own.dz};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) *images[i] = vt_arena_take(a, n, sizeof(float));
    for (size_t i = 0; i < sizeof logits / sizeof *logits; i++) *logits[i] = vt_arena_take(a, k, sizeof(float));
    o->own.z64 = vt_arena_take(a, (size_t)vt_classifier_votes(o->model) * k, sizeof(double));
}

vt_status vt_oracle_open(vt_oracle *o, const vt_classifier *m, vt_err *e) {
    vt_arena a = {0};
    *o = (vt_oracle){.model = m};
    take_buffers(o, &a);
    if (!(a.base = vt_alloc(a.used))) return vt_fail(e, VT_E_MEMORY, "no memory for an oracle");
    a.size = a.used, a.used = 0;
    take_buffers(o, &a);
    return VT_OK;
}

void vt_oracle_close(vt_oracle *o) {
    free(o->found); /* the first of the one block */
    *o = (vt_oracle){0};
}

void vt_oracle_reset(vt_oracle *o, const vt_ball *ball, int label, bool gradients_allowed) {
    o->ball = ball, o->label = label, o->goal = -1, o->gradients_allowed = gradients_allowed;
    o->forwards = o->gradients = o->repeated = o->vanished = o->draft.asked_again = o->draft.calls = 0;
    o->has_found = o->own.has_x = o->not_finite = false;
    memset(o->own.label, 0, (size_t)o->model->classes * sizeof(float));
    o->own.label[label] = 1;
}

void vt_oracle_aim(vt_oracle *o, int goal) {
    o->goal = goal;
    memset(o->own.goal, 0, (size_t)o->model->classes * sizeof(float));
    o->own.goal[goal] = 1;
}

bool vt_oracle_reached(const vt_oracle *o, const float *z) {
    int top = vt_argmax_f32(z, o->model->classes);
    return o->goal < 0 ? top != o->label : top == o->goal;
}

float vt_oracle_margin(const vt_oracle *o, const float *z) {
    return o->goal < 0 ? vt_margin_f32(z, o->label, o->model->classes) : -vt_margin_f32(z, o->goal, o->model->classes);
}

/* Returns whether double logits z [classes] are of the goal's class, or without a goal of any class but the label. */
static bool is_adversarial_f64(const vt_oracle *o, const double *z) {
    int top = vt_argmax_f64(z, o->model->classes);
    return o->goal < 0 ? top != o->label : top == o->goal;
}

/* Returns the margin of double logits z [classes]: above 0 if the label is beaten, or the goal wins. */
static double margin_f64(const vt_oracle *o, const double *z) {
    return o->goal < 0 ? vt_margin_f64(z, o->label, o->model->classes) : -vt_margin_f64(z, o->goal, o->model->classes);
}

void vt_oracle_target(vt_oracle *o, const float *target) {
    memcpy(o->own.label, target, (size_t)o->model->classes * sizeof(float));
}

void vt_oracle_forget(vt_oracle *o) { o->own.has_x = false; }

vt_loss vt_oracle_loss(const vt_oracle *o, vt_loss_kind kind) {
    if (o->goal >= 0 && kind == VT_LOSS_DLR) kind = VT_LOSS_DLR_T;
    bool towards = o->goal >= 0 && kind != VT_LOSS_DLR_T;
    return (vt_loss){.kind = kind,
                     .target = towards ? o->own.goal : o->own.label,
                     .other = o->goal,
                     .towards = towards,
                     .open = o->open};
}

bool vt_oracle_may_end(const vt_oracle *o, bool broken) {
    return o->mode == VT_ORACLE_NO_VERDICT ? broken : o->mode == VT_ORACLE_EXHAUSTIVE && o->has_found;
}

/* Does the double copy agree, by more than the noise of the float logits? Without a copy: does every repeated query, by
 * more than any two of them differ? For a model that draws: do more of them than chance explains? */
static vt_status confirm_adversarial(bool *yes, vt_oracle *o, const float *x) {
    int k = o->model->classes, rows = vt_classifier_votes(o->model), wrong = 0;
    double noise = 0, least = INFINITY;
    VT_TRY(vt_classifier_logits64(o->model, x, o->own.z64, &o->own.why));
    for (int r = 0; r < rows; r++) {
        const double *z = o->own.z64 + (size_t)r * (size_t)k;
        for (int i = 0; i < k; i++) noise = fmax(noise, fabs((double)o->own.z[i] - z[i]));
        for (int q = 0; q < r; q++)
            for (int i = 0; i < k; i++) noise = fmax(noise, fabs(o->own.z64[(size_t)q * (size_t)k + (size_t)i] - z[i]));
        wrong += is_adversarial_f64(o, z);
        least = fmin(least, margin_f64(o, z));
    }
    bool sure = 2 * wrong > rows && vt_mcnemar_exact(wrong, rows - wrong).two_sided < 0.05;
    *yes = o->model->random ? sure : wrong == rows && least > VT_CONFIRM_FACTOR * noise;
    return VT_OK;
}

/* Keeps x, which is misclassified in float32 and lies in the ball, if it is confirmed and nearer than the point kept.
 */
static vt_status keep_nearest_point(vt_oracle *o, const float *x) {
    double d = vt_distance(o->ball->norm, x, o->ball->x, o->model->pixels);
    bool yes;
    if (o->has_found && d > VT_CLOSER * o->found_value) return VT_OK;
    VT_TRY(confirm_adversarial(&yes, o, x));
    if (!yes) return VT_OK;
    memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->has_found = true, o->found_value = d;
    return VT_OK;
}

vt_status vt_oracle_keep(vt_oracle *o, const float *x, float margin) {
    bool yes;
    if (o->has_found && !((double)margin > o->found_value)) return VT_OK;
    memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->has_found = true, o->found_value = (double)margin;
    if (o->mode != VT_ORACLE_SEARCH) return VT_OK;
    VT_TRY(confirm_adversarial(&yes, o, x));
    return yes ? VT_STOP : VT_OK;
}

bool vt_all_finite(const float *v, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i])) return false;
    return true;
}

vt_status vt_oracle_fail_not_finite(vt_oracle *o, const float *x) {
    if (!o->has_found) memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->not_finite = true;
    return VT_E_NUMERIC;
}

/* Judges x, whose logits are in o->own.z: VT_STOP if it ends the image. */
static vt_status judge_point(vt_oracle *o, const float *x) {
    if (o->mode == VT_ORACLE_NO_VERDICT) return VT_OK;
    if (!vt_all_finite(o->own.z, o->model->classes)) return vt_oracle_fail_not_finite(o, x);
    if (!vt_oracle_reached(o, o->own.z) || !vt_ball_contains(o->ball, x)) return VT_OK;
    if (o->mode == VT_ORACLE_MIN_DISTANCE) return keep_nearest_point(o, x);
    float margin = vt_oracle_margin(o, o->own.z);
    return o->eight_bit && o->mode == VT_ORACLE_SEARCH ? vt_oracle_try_rounded(o, x, margin)
                                                       : vt_oracle_keep(o, x, margin);
}

/* Returns the classifier that answers the next call: the draft while it has calls left, then the model. */
static const vt_classifier *next_classifier(const vt_oracle *o) {
    const vt_draft *d = &o->draft;
    return d->classifier && o->forwards + o->gradients - d->asked_again < d->calls ? d->classifier : o->model;
}

/* Tells whether the logits in o->own.z at x can lead to a verdict. */
static bool is_possibly_adversarial(const vt_oracle *o, const float *x) {
    return vt_oracle_reached(o, o->own.z) && (o->eight_bit || vt_ball_contains(o->ball, x));
}

/* Runs classifier m on x [pixels]; the logits are then in o->own.z, and m in o->own.by. */
static vt_status run_classifier(vt_oracle *o, const vt_classifier *m, const float *x, bool keep) {
    o->own.by = m;
    return vt_classifier_logits(m, x, o->own.z, keep, &o->own.why);
}

/* Sets o->own.z and .by to the answer at x. A point that the draft takes for adversarial is asked again of the model,
 * whose answer counts, here and for the attack. */
static vt_status compute_answer(vt_oracle *o, const float *x, bool keep) {
    VT_TRY(run_classifier(o, next_classifier(o), x, keep));
    if (o->own.by != o->model && !vt_all_finite(o->own.z, o->model->classes)) {
        o->draft.calls = 0; /* from here on the model itself */
        VT_TRY(run_classifier(o, o->model, x, keep));
    }
    if (o->own.by == o->model || !is_possibly_adversarial(o, x)) return VT_OK;
    VT_TRY(vt_classifier_logits(o->model, x, o->own.z, false, &o->own.why));
    o->forwards++, o->draft.asked_again++;
    return VT_OK;
}

vt_status vt_oracle_forward(vt_oracle *o, const float *x, float *z, bool keep) {
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    o->own.has_x = false;
    VT_TRY(compute_answer(o, x, keep));
    o->own.has_x = keep;
    if (keep) memcpy(o->own.x, x, o->model->pixels * sizeof(float));
    if (z) memcpy(z, o->own.z, (size_t)o->model->classes * sizeof(float));
    return VT_OK;
}

/* Runs one counted forward at x [pixels], z [classes] or NULL, and judges the point: VT_STOP if it ends the image. */
static vt_status forward_and_judge(vt_oracle *o, const float *x, float *z, bool keep) {
    VT_TRY(vt_oracle_forward(o, x, z, keep));
    o->forwards++;
    return judge_point(o, x);
}

vt_status vt_oracle_logits(vt_oracle *o, const float *x, float *z) {
    return o->mode == VT_ORACLE_NO_VERDICT && !z ? VT_OK : forward_and_judge(o, x, z, false);
}

vt_status vt_oracle_logits_first(vt_oracle *o, const float *x, float *z) { return forward_and_judge(o, x, z, true); }

vt_status vt_oracle_attention(vt_oracle *o, const float *x, int layer, float *mean) {
    if (!o->gradients_allowed || layer >= o->model->tokens.layers) return VT_E_FORBIDDEN;
    if (!o->own.has_x || memcmp(o->own.x, x, o->model->pixels * sizeof(float)))
        VT_TRY(vt_oracle_logits_first(o, x, NULL));
    if (!o->own.has_x) { /* its rounding was tried in between */
        VT_TRY(vt_oracle_forward(o, x, NULL, true));
        o->forwards++;
    }
    const vt_tokens *t = &o->own.by->tokens;
    t->mean(t->self, layer, mean);
    return VT_OK;
}

/* Returns the loss whose gradient stands for that of `asked` at logits z: the margin, if a softmax loss has vanished.
 */
static vt_loss effective_loss(vt_oracle *o, const vt_loss *asked, const float *z) {
    bool softmax = asked->kind == VT_LOSS_CE || asked->kind == VT_LOSS_PM || asked->kind == VT_LOSS_PO;
    if (o->mode == VT_ORACLE_NO_VERDICT || !softmax || (asked->attention && asked->attention->alone)) return *asked;
    vt_loss_eval_f32(o->own.dz, asked, z, o->model->classes);
    for (int k = 0; k < o->model->classes; k++)
        if (!(fabsf(o->own.dz[k]) < VT_VANISHED)) return *asked; /* NaN is not small */
    o->vanished++;
    vt_loss margin = *asked;
    margin.kind = VT_LOSS_MARGIN;
    return margin;
}

/* Computes dx of a loss at finite logits z; beyond float's range of the loss / 2^100: no attack uses its length. */
static vt_status compute_finite_gradient(vt_oracle *o, const vt_classifier *m, const vt_loss *loss, const float *z,
                                         float *value, float *dx) {
    float least;
    VT_TRY(vt_classifier_backward(m, loss, value, dx, &o->own.why));
    o->gradients++;
    if (o->mode == VT_ORACLE_NO_VERDICT || loss->attention || vt_all_finite(dx, (int)m->pixels) ||
        !vt_all_finite(z, m->classes))
        return VT_OK;
    vt_loss_eval_f32(o->own.dz, loss, z, m->classes);
    for (int k = 0; k < m->classes; k++) o->own.dz[k] *= 0x1p-100f;
    const vt_loss smaller = {.kind = VT_LOSS_LINEAR, .target = o->own.dz, .open = loss->open};
    VT_TRY(vt_classifier_backward(m, &smaller, &least, dx, &o->own.why));
    o->gradients++;
    if (m->finite && !vt_all_finite(dx, (int)m->pixels)) /* an attack would stand still, and call the image robust */
        return vt_fail(&o->own.why, VT_E_MODEL, "the model gave a gradient that is not finite");
    return VT_OK;
}

vt_status vt_oracle_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *z, float *value, float *dx) {
    if (!o->gradients_allowed) return VT_E_FORBIDDEN;
    bool same = o->own.has_x && !memcmp(o->own.x, x, o->model->pixels * sizeof(float));
    if (!same)
        VT_TRY(vt_oracle_forward(o, x, z, true));
    else if (z)
        memcpy(z, o->own.z, (size_t)o->model->classes * sizeof(float));
    vt_loss given = effective_loss(o, loss, o->own.z);
    VT_TRY(compute_finite_gradient(o, o->own.by, &given, o->own.z, value, dx));
    return same ? VT_OK : judge_point(o, x); /* the same point was judged when it was kept */
}

vt_oracle_counts vt_oracle_counted(const vt_oracle *o) {
    const vt_classifier *by = next_classifier(o);
    bool exact = by->exact && (by == o->model || !o->eight_bit);
    return (vt_oracle_counts){exact ? by : NULL, o->gradients, o->vanished, o->draft.asked_again};
}

int vt_oracle_repeat(vt_oracle *o, const vt_oracle_counts *then, int times) {
    vt_draft *d = &o->draft;
    const int64_t gradients = o->gradients - then->gradients, asked = d->asked_again - then->asked_again;
    if (then->by != o->model) { /* a call of the draft is counted twice if the model was asked again */
        int64_t left = (d->calls - (o->forwards + o->gradients - d->asked_again)) / gradients;
        if (times > left) times = (int)left;
    }
    o->gradients += times * gradients, o->repeated += times * gradients;
    o->vanished += times * (o->vanished - then->vanished);
    o->forwards += times * asked, d->asked_again += times * asked;
    return times;
}

vt_status vt_oracle_inside_gradient(vt_oracle *o, const float *x, int k, float *dx) {
    if (!(k < vt_oracle_inside_count(o))) return VT_E_FORBIDDEN;
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    o->gradients++;
    return o->inside->gradient(o->inside->self, x, k, dx, &o->own.why);
}

vt_status vt_oracle_surrogate_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *value, float *dx) {
    const vt_classifier *s = o->surrogate;
    if (!s) return VT_E_FORBIDDEN;
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    VT_TRY(vt_classifier_logits(s, x, o->own.z_surrogate, true, &o->own.why));
    if (!vt_all_finite(o->own.z_surrogate, s->classes)) return VT_E_NUMERIC;
    vt_loss given = effective_loss(o, loss, o->own.z_surrogate);
    return compute_finite_gradient(o, s, &given, o->own.z_surrogate, value, dx);
}
