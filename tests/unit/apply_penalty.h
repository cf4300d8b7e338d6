/* SPDX-License-Identifier: MIT */
/* A penalty's parts, one after another, and the rest of it, in the precision of the test. */
#ifndef APPLY_PENALTY_H
#define APPLY_PENALTY_H

#include "train/penalty.h"

static inline double apply_penalty(const VT_R(vt_penalty_def) *d, real *grad, real *state, real *work, const real *w,
                                   const vt_model *m, const void *params) {
    for (int k = 0; d->parts && k < d->parts(m); k++) d->advance(state, work, w, m, params, k);
    return d->apply(grad, state, work, w, m, params);
}

#endif
