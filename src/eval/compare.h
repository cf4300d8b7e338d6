/* Two evaluations of the same images, paired: clean predictions and every attack that both ran. */
#ifndef VT_EVAL_COMPARE_H
#define VT_EVAL_COMPARE_H

#include "eval/ledger.h"
#include "eval/metrics.h"

typedef struct vt_pair {
    char name[64];  /* "clean", or the attack's name */
    int64_t images; /* judged in both */
    int64_t right_a, right_b;
    int64_t only_a, only_b; /* right under one alone */
    int32_t *changed;       /* [only_a + only_b] images right under A alone, then those under B alone; ascending */
    double low, high;       /* 95 % interval of B - A, shares of 1 */
    vt_mcnemar test;
    double adjusted; /* two-sided p by Holm over the rows that vt_compare_adjust is given */
    vt_claim_verdict b_better;
} vt_pair;

/* Rows for clean and each attack (by its canonical id) of both runs, at most `most`; returns their number in *n.
 * VT_E_USAGE when the runs are over other data, another eps or norm: the header keys that differ are named; or over
 * other images, unless those that both have will do (common). Free the rows also after a failure. */
vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e);
void vt_pairs_free(vt_pair *rows, int n);
/* Holm's correction over all rows of a comparison, and the verdicts on "B is better" at level alpha. */
void vt_compare_adjust(vt_pair *rows, int n, double alpha);

#endif
