/* SPDX-License-Identifier: MIT */
#include "attacks/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "core/stats.h"
#include "models/net/session64.h"

vt_status vt_oracle_open(vt_oracle *o, const vt_classifier *m, vt_err *e) {
    memset(o, 0, sizeof *o);
    o->model = m;
    size_t k = (size_t)m->classes;
    o->found = vt_alloc(m->pixels * sizeof(float));
    o->kept = vt_alloc(m->pixels * sizeof(float));
    o->target = vt_alloc(k * sizeof(float));
    o->z = vt_alloc(k * sizeof(float));
    o->aim = vt_alloc(k * sizeof(float));
    o->z_surrogate = vt_alloc(k * sizeof(float)), o->dz = vt_alloc(k * sizeof(float));
    o->z64 = vt_alloc((size_t)vt_classifier_votes(m) * k * sizeof(double));
    if (o->found && o->kept && o->target && o->aim && o->z && o->z_surrogate && o->dz && o->z64) return VT_OK;
    vt_oracle_close(o);
    return vt_fail(e, VT_E_MEMORY, "no memory for an oracle");
}

void vt_oracle_close(vt_oracle *o) {
    free(o->found);
    free(o->kept);
    free(o->target);
    free(o->aim);
    free(o->z);
    free(o->z_surrogate);
    free(o->dz);
    free(o->z64);
    memset(o, 0, sizeof *o);
}

void vt_oracle_reset(vt_oracle *o, const vt_ball *ball, int label, bool gradients_allowed) {
    o->ball = ball, o->label = label, o->goal = -1, o->gradients_allowed = gradients_allowed;
    o->forwards = o->gradients = o->vanished = o->confirmations = o->asked_again = 0, o->coarse_calls = 0;
    o->has_found = o->has_kept = o->not_finite = false;
    memset(o->target, 0, (size_t)o->model->classes * sizeof(float));
    o->target[label] = 1;
}

void vt_oracle_aim(vt_oracle *o, int goal) {
    o->goal = goal;
    memset(o->aim, 0, (size_t)o->model->classes * sizeof(float));
    o->aim[goal] = 1;
}

bool vt_oracle_reached(const vt_oracle *o, const float *z) {
    int top = vt_argmax_f32(z, o->model->classes);
    return o->goal < 0 ? top != o->label : top == o->goal;
}

float vt_oracle_margin(const vt_oracle *o, const float *z) {
    return o->goal < 0 ? vt_margin_f32(z, o->label, o->model->classes) : -vt_margin_f32(z, o->goal, o->model->classes);
}

/* The same of logits in double. */
static bool is_adversarial_f64(const vt_oracle *o, const double *z) {
    int top = vt_argmax_f64(z, o->model->classes);
    return o->goal < 0 ? top != o->label : top == o->goal;
}

static double margin_f64(const vt_oracle *o, const double *z) {
    return o->goal < 0 ? vt_margin_f64(z, o->label, o->model->classes) : -vt_margin_f64(z, o->goal, o->model->classes);
}

void vt_oracle_target(vt_oracle *o, const float *target) {
    memcpy(o->target, target, (size_t)o->model->classes * sizeof(float));
}

void vt_oracle_forget(vt_oracle *o) { o->has_kept = false; }

vt_loss vt_oracle_loss(const vt_oracle *o, vt_loss_kind kind) {
    if (o->goal >= 0 && kind == VT_LOSS_DLR) kind = VT_LOSS_DLR_T;
    bool towards = o->goal >= 0 && kind != VT_LOSS_DLR_T;
    return (vt_loss){.kind = kind,
                     .target = towards ? o->aim : o->target,
                     .other = o->goal,
                     .towards = towards,
                     .open = o->open};
}

bool vt_oracle_may_end(const vt_oracle *o, bool broken) {
    return o->mode == VT_ORACLE_UNJUDGED ? broken : o->mode == VT_ORACLE_EXHAUSTIVE && o->has_found;
}

/* Does the double copy agree, by more than the noise of the float logits? Where there is none, does every repeated
 * query, by more than any two of them differ? Of a model that draws, so many that chance would not. */
static vt_status confirm_adversarial(bool *yes, vt_oracle *o, const float *x) {
    int k = o->model->classes, rows = vt_classifier_votes(o->model), wrong = 0;
    double noise = 0, least = INFINITY;
    VT_TRY(vt_classifier_logits64(o->model, x, o->z64, &o->why));
    o->confirmations++;
    for (int r = 0; r < rows; r++) {
        const double *z = o->z64 + (size_t)r * (size_t)k;
        for (int i = 0; i < k; i++) noise = fmax(noise, fabs((double)o->z[i] - z[i]));
        for (int q = 0; q < r; q++)
            for (int i = 0; i < k; i++) noise = fmax(noise, fabs(o->z64[(size_t)q * (size_t)k + (size_t)i] - z[i]));
        wrong += is_adversarial_f64(o, z);
        least = fmin(least, margin_f64(o, z));
    }
    bool sure = 2 * wrong > rows && vt_mcnemar_exact(wrong, rows - wrong).two_sided < 0.05;
    *yes = o->model->random ? sure : wrong == rows && least > VT_CONFIRM_FACTOR * noise;
    return VT_OK;
}

/* x is misclassified in float32 and lies in the ball. */
static vt_status keep_closest(vt_oracle *o, const float *x) {
    double d = vt_distance(o->ball->norm, x, o->ball->x, o->model->pixels);
    bool yes;
    if (o->has_found && d > VT_CLOSER * o->found_distance) return VT_OK;
    VT_TRY(confirm_adversarial(&yes, o, x));
    if (!yes) return VT_OK;
    memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->has_found = true, o->found_distance = d;
    return VT_OK;
}

/* x is misclassified and lies in the threat. */
static vt_status keep_found(vt_oracle *o, const float *x, float margin) {
    bool yes;
    if (o->has_found && !(margin > o->found_margin)) return VT_OK;
    memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->has_found = true, o->found_margin = margin;
    if (o->mode != VT_ORACLE_SEARCH) return VT_OK;
    VT_TRY(confirm_adversarial(&yes, o, x));
    return yes ? VT_STOP : VT_OK;
}

static bool all_finite(const float *z, int classes) {
    for (int i = 0; i < classes; i++)
        if (!isfinite(z[i])) return false;
    return true;
}

/* Ends the image: no attack knows its way from here. */
static vt_status fail_not_finite(vt_oracle *o, const float *x) {
    if (!o->has_found) memcpy(o->found, x, o->model->pixels * sizeof(float));
    o->not_finite = true;
    return VT_E_NUMERIC;
}

/* x is misclassified in the float ball: worth a try in 8 bits if it is the best so far. o->z is another point's
 * afterwards, and nothing is kept. */
static vt_status try_rounded(vt_oracle *o, const float *x, float margin) {
    vt_grid8 *l = o->eight_bit;
    if (l->searching || (l->has_best && !(margin > l->best_margin))) return VT_OK;
    memcpy(l->best, x, l->n * sizeof(float));
    l->has_best = true, l->best_margin = margin;
    vt_grid8_round(l, l->q, x, VT_ROUND_NEAREST, NULL);
    return vt_oracle_levels(o, l->q, false, &margin);
}

/* o->z holds the logits of x. */
static vt_status judge_point(vt_oracle *o, const float *x) {
    if (o->mode == VT_ORACLE_UNJUDGED) return VT_OK;
    if (!all_finite(o->z, o->model->classes)) return fail_not_finite(o, x);
    if (!vt_oracle_reached(o, o->z) || !vt_ball_contains(o->ball, x)) return VT_OK;
    if (o->mode == VT_ORACLE_CLOSEST) return keep_closest(o, x);
    float margin = vt_oracle_margin(o, o->z);
    return o->eight_bit && o->mode == VT_ORACLE_SEARCH ? try_rounded(o, x, margin) : keep_found(o, x, margin);
}

/* Who answers the next call. */
static const vt_classifier *next_classifier(const vt_oracle *o) {
    return o->coarse && o->forwards + o->gradients - o->asked_again < o->coarse_calls ? o->coarse : o->model;
}

/* May the coarse answer o->z at x lead to anything? */
static bool is_possibly_adversarial(const vt_oracle *o, const float *x) {
    return vt_oracle_reached(o, o->z) && (o->eight_bit || vt_ball_contains(o->ball, x));
}

/* o->z becomes the model's answer at x where the coarse one is telling. */
static vt_status ask_again(vt_oracle *o, const float *x) {
    if (o->kept_by == o->model || !is_possibly_adversarial(o, x)) return VT_OK;
    VT_TRY(vt_classifier_logits(o->model, x, o->z, false, &o->why));
    o->forwards++, o->asked_again++;
    return VT_OK;
}

static vt_status run_classifier(vt_oracle *o, const vt_classifier *m, const float *x, bool keep) {
    o->kept_by = m;
    return vt_classifier_logits(m, x, o->z, keep, &o->why);
}

static vt_status forward(vt_oracle *o, const float *x, float *z, bool keep) {
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    o->has_kept = false;
    VT_TRY(run_classifier(o, next_classifier(o), x, keep));
    if (o->kept_by != o->model && !all_finite(o->z, o->model->classes)) {
        o->coarse_calls = 0; /* from here on the model itself */
        VT_TRY(run_classifier(o, o->model, x, keep));
    }
    VT_TRY(ask_again(o, x));
    o->has_kept = keep;
    if (keep) memcpy(o->kept, x, o->model->pixels * sizeof(float));
    if (z) memcpy(z, o->z, (size_t)o->model->classes * sizeof(float));
    return VT_OK;
}

vt_status vt_oracle_logits(vt_oracle *o, const float *x, float *z) {
    if (o->mode == VT_ORACLE_UNJUDGED && !z) return VT_OK;
    VT_TRY(forward(o, x, z, false));
    o->forwards++;
    return judge_point(o, x);
}

vt_status vt_oracle_logits_first(vt_oracle *o, const float *x, float *z) {
    VT_TRY(forward(o, x, z, true));
    o->forwards++;
    return judge_point(o, x);
}

vt_status vt_oracle_levels(vt_oracle *o, const uint8_t *q, bool keep, float *margin) {
    vt_grid8 *l = o->eight_bit;
    vt_grid8_floats(l, l->x, q);
    VT_TRY(forward(o, l->x, NULL, keep));
    o->forwards++;
    if (!all_finite(o->z, o->model->classes)) return fail_not_finite(o, l->x);
    *margin = vt_oracle_margin(o, o->z);
    if (!l->has_point || *margin > l->point_margin) {
        memmove(l->point, q, l->n);
        l->has_point = true, l->point_margin = *margin;
    }
    return vt_oracle_reached(o, o->z) && vt_grid8_contains(l, q) ? keep_found(o, l->x, *margin) : VT_OK;
}

vt_status vt_oracle_attention(vt_oracle *o, const float *x, int layer, float *mean) {
    if (!o->gradients_allowed || layer >= o->model->tokens.layers) return VT_E_FORBIDDEN;
    if (!o->has_kept || memcmp(o->kept, x, o->model->pixels * sizeof(float)))
        VT_TRY(vt_oracle_logits_first(o, x, NULL));
    if (!o->has_kept) { /* its rounding was tried in between */
        VT_TRY(forward(o, x, NULL, true));
        o->forwards++;
    }
    const vt_tokens *t = &o->kept_by->tokens;
    t->mean(t->self, layer, mean);
    return VT_OK;
}

/* The loss whose gradient is given at logits z where `asked` is asked for. */
static vt_loss effective_loss(vt_oracle *o, const vt_loss *asked, const float *z) {
    bool softmax = asked->kind == VT_LOSS_CE || asked->kind == VT_LOSS_PM || asked->kind == VT_LOSS_PO;
    if (o->mode == VT_ORACLE_UNJUDGED || !softmax || (asked->attention && asked->attention->alone)) return *asked;
    vt_loss_eval_f32(o->dz, asked, z, o->model->classes);
    for (int k = 0; k < o->model->classes; k++)
        if (!(fabsf(o->dz[k]) < VT_VANISHED)) return *asked; /* NaN is not small */
    o->vanished++;
    vt_loss margin = *asked;
    margin.kind = VT_LOSS_MARGIN;
    return margin;
}

/* dx of a loss at finite logits z; where it leaves float's range, of a loss 2^100 times smaller: no attack asks for its
 * length. */
static vt_status compute_finite_gradient(vt_oracle *o, const vt_classifier *m, const vt_loss *loss, const float *z,
                                         float *value, float *dx) {
    float least;
    VT_TRY(vt_classifier_backward(m, loss, value, dx, &o->why));
    o->gradients++;
    if (o->mode == VT_ORACLE_UNJUDGED || loss->attention || all_finite(dx, (int)m->pixels) ||
        !all_finite(z, m->classes))
        return VT_OK;
    vt_loss_eval_f32(o->dz, loss, z, m->classes);
    for (int k = 0; k < m->classes; k++) o->dz[k] *= 0x1p-100f;
    const vt_loss smaller = {.kind = VT_LOSS_LINEAR, .target = o->dz, .open = loss->open};
    VT_TRY(vt_classifier_backward(m, &smaller, &least, dx, &o->why));
    o->gradients++;
    if (m->finite && !all_finite(dx, (int)m->pixels)) /* an attack would stand still, and call the image robust */
        return vt_fail(&o->why, VT_E_MODEL, "the model gave a gradient that is not finite");
    return VT_OK;
}

vt_status vt_oracle_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *z, float *value, float *dx) {
    if (!o->gradients_allowed) return VT_E_FORBIDDEN;
    bool same = o->has_kept && !memcmp(o->kept, x, o->model->pixels * sizeof(float));
    if (!same)
        VT_TRY(forward(o, x, z, true));
    else if (z)
        memcpy(z, o->z, (size_t)o->model->classes * sizeof(float));
    vt_loss given = effective_loss(o, loss, o->z);
    VT_TRY(compute_finite_gradient(o, o->kept_by, &given, o->z, value, dx));
    return same ? VT_OK : judge_point(o, x); /* the same point was judged when it was kept */
}

vt_status vt_oracle_inside_gradient(vt_oracle *o, const float *x, int k, float *dx) {
    if (!(k < vt_oracle_inside_count(o))) return VT_E_FORBIDDEN;
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    o->gradients++;
    return o->inside->gradient(o->inside->self, x, k, dx, &o->why);
}

vt_status vt_oracle_surrogate_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *value, float *dx) {
    const vt_classifier *s = o->surrogate;
    if (!s) return VT_E_FORBIDDEN;
    if (o->interrupt && *o->interrupt) return VT_INTERRUPTED;
    VT_TRY(vt_classifier_logits(s, x, o->z_surrogate, true, &o->why));
    if (!all_finite(o->z_surrogate, s->classes)) return VT_E_NUMERIC;
    vt_loss given = effective_loss(o, loss, o->z_surrogate);
    return compute_finite_gradient(o, s, &given, o->z_surrogate, value, dx);
}
