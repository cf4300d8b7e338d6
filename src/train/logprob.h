/* SPDX-License-Identifier: MIT */
/* Log-probabilities of one image's logits, in double for both precisions: K terms cost nothing, and differences of
 * probabilities near 0 and 1 cancel in float. */
#ifndef VT_TRAIN_LOGPROB_H
#define VT_TRAIN_LOGPROB_H

#include <math.h>
#include "core/real.h"

/* log sum_k exp(z_k), so that log p_k = z_k - this. */
static inline double vt_logsumexp(const real *z, int classes) {
    double top = (double)z[0], sum = 0;
    for (int k = 1; k < classes; k++) top = (double)z[k] > top ? (double)z[k] : top;
    for (int k = 0; k < classes; k++) sum += exp((double)z[k] - top);
    return top + log(sum);
}

#endif
