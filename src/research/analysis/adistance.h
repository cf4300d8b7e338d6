/* SPDX-License-Identifier: MIT */
/* The A-distance of two clouds of features (Ben-David et al. 2007, 2010): 2 (1 - 2 err), err the error of a linear
 * classifier that separates them, on points that it was not trained on. 0: it cannot (less, by chance or worse:
 * below 0, to -2); 2: it always can. */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

enum { VT_ADISTANCE_FOLDS = 100 };

typedef struct vt_adistance {
    int folds; /* 2 to VT_ADISTANCE_FOLDS, and no more than pairs */
    double lambda;
    uint64_t seed; /* decides which pair is in which fold */
    int threads;
    const volatile sig_atomic_t *interrupt; /* or NULL */
} vt_adistance;

typedef struct vt_adistance_result {
    double value;                       /* of all points, each tested once */
    double spread;                      /* standard deviation over folds */
    double of_fold[VT_ADISTANCE_FOLDS]; /* of its own test points */
    double gradient;                    /* the largest that a fit left */
    size_t wrong;                       /* of 2 n */
} vt_adistance_result;

/* Returns the bytes that vt_adistance_run allocates for 2 n rows of d features if `threads` folds are trained at a
 * time. */
size_t vt_adistance_bytes(size_t n, size_t d, int threads);
/* x [2 n, d]: n points of one cloud, then n of the other; x_i and x_{n+i} are always in the same fold. Logistic
 * regression (analysis/logistic) on features standardised by the training folds; a feature that is constant there has
 * no effect. VT_E_RANGE if folds are not 2 to min(n, VT_ADISTANCE_FOLDS); VT_E_MEMORY. */
vt_status vt_adistance_run(vt_adistance_result *r, const double *x, size_t n, size_t d, const vt_adistance *o,
                           vt_err *e);
