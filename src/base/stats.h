/* SPDX-License-Identifier: MIT */
/* Statistics: medians, and of counts what a comparison of two evaluations may claim. No field knowledge. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void vt_sort(double *v, size_t n); /* ascending; none may be NaN */
/* Returns the middle one of n numbers, or the mean of the two in the middle; NaN of none. Sorts them. */
double vt_median(double *v, size_t n);

/* Computes the Wilson score interval of count / total at normal quantile z, as shares in [0,1] (Wilson 1927, eq. 5 of
 * Brown et al. 2001); total 0: [0,1]. A one-sided bound is one end at VT_Z_ONE_SIDED; not at count 0, where it is too
 * tight. */
#define VT_Z_TWO_SIDED 1.959963984540054 /* 95 % */
#define VT_Z_ONE_SIDED 1.644853626951473
void vt_wilson_at(int64_t count, int64_t total, double z, double *low, double *high);
/* Computes the two-sided 95 % Wilson interval of count / total in percent, as tables print it. */
void vt_wilson(int64_t count, int64_t total, double *low, double *high);

/* Returns Clopper and Pearson's lower bound of a share after `count` hits in `total` trials: below it with probability
 * at most alpha < 1/2, whatever the share. Rounded down, by less than 1e-9. */
double vt_share_lower(int64_t count, int64_t total, double alpha);
/* Returns z with P(Z <= z) = p for a standard normal Z, 1/2 <= p < 1; rounded down. */
double vt_normal_quantile(double p);

/* McNemar's exact test of two models (or attacks) on the same images: b images are right under A alone, c under B
 * alone. The effect to print beside p is (b - c) / images. */
typedef struct vt_mcnemar {
    double two_sided, mid_p; /* mid-p: two-sided, less conservative (Fagerland et al. 2013); 1 when b = c */
    double a_better;         /* one-sided: P(at least b of b + c | both equally good); small speaks for A */
    double b_better;
} vt_mcnemar;
/* Computes the test for counts b and c. */
vt_mcnemar vt_mcnemar_exact(int64_t b, int64_t c);

/* Computes the interval, at normal quantile z, of the difference of two shares on the same n images, B - A: a are right
 * under A alone, b under B alone. The score interval of Tango (1998, "Equivalence test and confidence interval for the
 * difference in proportions for the paired-sample design"), which keeps its level where counts are small and never
 * leaves [-1, 1]. */
void vt_paired_interval(int64_t a, int64_t b, int64_t n, double z, double *low, double *high);

/* Computes Holm's adjusted p [n] of a family of n tests (Holm 1979): rejecting where adjusted <= alpha keeps the chance
 * of any false rejection below alpha under any dependence. A p that is NaN (a test that could not be made) counts as 1.
 */
void vt_holm(double *adjusted, const double *p, int n);

/* A claim "A is better than B": held when the one-sided p for it is at most alpha, not when the one against it is,
 * undecided otherwise (also for NaN). p may be adjusted (vt_holm); alpha below 1/2, so that both cannot be. */
typedef enum vt_claim_verdict { VT_CLAIM_UNDECIDED, VT_CLAIM_HELD, VT_CLAIM_NOT } vt_claim_verdict;
/* Returns the verdict on a claim by its two one-sided p. */
vt_claim_verdict vt_claim(double p_for, double p_against, double alpha);
const char *vt_claim_name(vt_claim_verdict v); /* "held", "not", "undecided" */

/* Returns the largest number of black balls in an urn of `all` of which `drawn` were drawn without replacement and
 * `black` of them were black, that is not refuted at level alpha: max { K : P(X <= black | K) >= alpha }, X
 * hypergeometric. The exact one-sided upper bound at confidence 1 - alpha. */
int64_t vt_hypergeometric_upper(int64_t all, int64_t drawn, int64_t black, double alpha);
/* Returns the largest size of a sample, of those at which a bound may be read (ceil(all 0.8^k), k = 0, 1, ...), that is
 * at most `drawn`; 0: none. *sizes: how many there are. Drawing may stop whenever it likes, also by what was drawn: by
 * the union bound, a bound at level alpha / *sizes on the first balls, as many as the size, has level alpha. */
int64_t vt_sample_size(int64_t all, int64_t drawn, int *sizes);
