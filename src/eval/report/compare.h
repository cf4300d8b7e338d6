/* SPDX-License-Identifier: MIT */
/* Two evaluations of the same images, paired: clean predictions and every attack that both ran; or two curves: clean
 * predictions, every eps at which one of them was confirmed, and the minimum norms. */
#pragma once

#include <stdio.h>
#include "eval/ledger.h"
#include "base/stats.h"

typedef struct vt_pair {
    char name[64];  /* "clean", the attack's name; of curves the eps, "norms" */
    int64_t images; /* judged in both */
    int64_t right_a, right_b;
    int64_t only_a, only_b; /* right under one alone; of norms: larger under one */
    int32_t *changed;       /* [only_a + only_b] images right under A alone, then those under B alone; ascending */
    double low, high;       /* 95 % interval of B - A, shares of 1 */
    vt_mcnemar test;
    double adjusted; /* two-sided p by Holm over the rows that vt_compare_adjust is given */
    vt_claim_verdict b_better;
    bool norms;                /* minimum norms: the test is the exact sign test; right_a and right_b are not used */
    double median_a, median_b; /* of norms; INFINITY: not found for half of the images */
    const char *remark;        /* what makes the two sides unequal, a static sentence; NULL: nothing */
} vt_pair;

/* Rows for clean and each attack (by its canonical id) of both runs, at most `most`; returns their number in *n.
 * Of two curves: clean, each confirmed eps of either in ascending order, then norms if the minimum-norm attacks are the
 * same: per image the smallest norm that they found, 0 where the prediction is wrong, INFINITY where they found none.
 * VT_E_USAGE when one is a curve and the other is not; when the runs are over other data, another eps or norm: the
 * header keys that differ are named; or over other images, unless those that both have will do (common). Free the rows
 * also after a failure. */
vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e);
/* Writes the attacks of a that b did not run with the same options, as "fgsm, pgd (with other options)"; returns how
 * many there are. */
int vt_compare_alone(char *text, size_t size, const vt_ledger *a, const vt_ledger *b);
/* Writes one table (booktabs) of finished evaluations of the same images: a row each, columns for clean and every
 * attack, "--" where a run lacks it. VT_E_USAGE: one is a curve. */
vt_status vt_compare_tex(FILE *f, vt_ledger *const *runs, int n, vt_err *e);
/* Frees what n rows hold; accepts zeroed ones. */
void vt_pairs_free(vt_pair *rows, int n);

/* Is it the same attack, with the same options, judged by the same? */
bool vt_compare_same(const vt_header_attack *a, const vt_header_attack *b);

/* Sets `adjusted` by Holm's correction over all n rows of a comparison, and the verdicts on "B is better" at level
 * alpha. */
void vt_compare_adjust(vt_pair *rows, int n, double alpha);
