/* SPDX-License-Identifier: MIT */
/* The oracle's draft: a cheaper classifier searches, the model confirms. */
#include "attacks/oracle.h"

/* Who answers the next call. */
static const vt_classifier *next_classifier(const vt_oracle *o) {
    const vt_draft *d = &o->draft;
    return d->classifier && o->forwards + o->gradients - d->asked_again < d->calls ? d->classifier : o->model;
}

/* May the draft's answer at x lead to anything? */
static bool is_possibly_adversarial(const vt_oracle *o, const float *x) {
    return vt_oracle_reached(o, o->own.z) && (o->eight_bit || vt_ball_contains(o->ball, x));
}

static vt_status run_classifier(vt_oracle *o, const vt_classifier *m, const float *x, bool keep) {
    o->own.by = m;
    return vt_classifier_logits(m, x, o->own.z, keep, &o->own.why);
}

vt_status vt_draft_answer(vt_oracle *o, const float *x, bool keep) {
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
