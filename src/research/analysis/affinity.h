/* SPDX-License-Identifier: MIT */
/* How far rows of attention A_i = softmax(scale q_i K^T) move when queries, or queries and keys, do (Zhang et al. 2021,
 * Theorem 2.1, and tighter bounds). */
#pragma once

#include <stddef.h>
#include "base/status.h"

/* A head before and after: q, k and q1, k1 [t, d], row strides. */
typedef struct vt_affinity_pair {
    int t, d;
    double scale;
    const double *q, *k, *q1, *k1;
    int ldq, ldk, ldq1, ldk1;
} vt_affinity_pair;

/* Sums and maxima over rows. A ratio is measured / bound, the largest; e = |q1_i - q_i|, H = I - 11^T/t. */
typedef struct vt_affinity {
    size_t rows;
    double fixed, moving; /* sums of |A1_i - A_i|_2: keys as they were; keys moved too */
    double most_fixed, most_moving;
    double paper;                                /* ratio to 2 scale |K| e, Theorem 2.1 */
    double half;                                 /* to scale/2 |K| e: the softmax is 1/2-Lipschitz */
    double centred;                              /* to scale/2 |H K| e: and does not see what all keys share */
    double l1;                                   /* |A1_i - A_i|_1 to half the range of the change of the scores */
    double extended;                             /* keys moved: to scale/2 (|H K| e + |H (K1 - K)| |q1_i|) */
    double sum_paper, sum_centred, sum_extended; /* sums of those bounds */
} vt_affinity;

/* Adds the t rows of one head to s, which starts as zeros: counts, sums and larger ratios. VT_E_MEMORY, VT_E_NUMERIC if
 * a norm fails. */
vt_status vt_affinity_add(vt_affinity *s, const vt_affinity_pair *p, vt_err *e);
/* Adds another's sums to s and takes the larger of each ratio, as if s had seen its rows too. */
void vt_affinity_merge(vt_affinity *s, const vt_affinity *other);
