/* SPDX-License-Identifier: MIT */
/* What MSVP knows of the singular values besides its penalty: for the training log. */
#ifndef VT_TRAIN_MSVP_H
#define VT_TRAIN_MSVP_H

#include "core/real.h"
#include "models/model.h"

/* u^T W v of every penalised part with the vectors that the last step left, in the order block, branch (q, k, v; those
 * of lambda 0 left out), part. Returns their number, of which at most `max` are written. params: the penalty's; state:
 * its state; w [params.total]. */
int VT_R(vt_msvp_sigmas)(double *sigma, int max, const real *state, const real *w, const vt_model *m,
                         const void *params);

#endif
