/* An evaluation that tests itself: are the gradients that its attacks follow to be believed? Three parts: what the
 * gradients are at single points, what attacks of different kinds find on the same images, and the active test
 * (Zimmermann et al. 2022), in which an adversarial image is known to exist. Every check is an exact test of a stated
 * null hypothesis; Holm's correction over all of them bounds the chance of accusing a sound model. */
#ifndef VT_SELFTEST_SELFTEST_H
#define VT_SELFTEST_SELFTEST_H

#include <jansson.h>
#include <stdio.h>
#include "eval/evaluate.h"

typedef enum vt_check_id {
    VT_CHECK_RANDOM,
    VT_CHECK_FLAT,
    VT_CHECK_ZERO,
    VT_CHECK_CONSTANT,
    VT_CHECK_SATURATED,
    VT_CHECK_ATTENTION,
    VT_CHECK_WRONG,
    VT_CHECK_STEPS,
    VT_CHECK_RADIUS,
    VT_CHECK_WHOLE,
    VT_CHECK_NOISE,
    VT_CHECK_SQUARE,
    VT_CHECK_TWIN,
    VT_CHECK_ACTIVE,
    VT_CHECK_COUNT
} vt_check_id;

/* One check: `hits` of `trials` images speak against the null hypothesis, under which a hit has at most the chance
 * `rate`; p = P(at least that many hits). Trials 0: the check was not made. */
typedef struct vt_check {
    int64_t hits, trials;
    double rate, p, adjusted;
    int32_t images[6]; /* the first that speak against it */
    int n_images;
} vt_check;

typedef enum vt_grade { VT_GRADE_SOUND, VT_GRADE_DOUBTFUL, VT_GRADE_MASKED } vt_grade;
const char *vt_grade_name(vt_grade g); /* "sound", "doubtful", "gradients are masked" */

/* Chance of a false "doubtful" or worse, and of a false "masked", over all checks together. */
#define VT_ALPHA_DOUBTFUL 0.05
#define VT_ALPHA_MASKED 0.01

/* What the self-test may cost, as a share of the attack under test; an escalation comes on top. */
#define VT_SELFTEST_SHARE 0.10

/* The active test's account. */
typedef struct vt_active {
    int64_t images, setup_failed, found;   /* found: of images - setup_failed */
    int64_t random_surface, random_corner; /* images on which random search found an adversarial point too */
    double low, high;                      /* Wilson's 95 % interval of the success rate */
    bool passed;                           /* low >= 0.95, random <= 0.5, setup failures <= 5 % */
} vt_active;

typedef struct vt_selftest {
    const vt_eval *v;        /* model, wrap, data, images, threat, seed, threads */
    const vt_attack *attack; /* under test: its stages that follow gradients */
    const vt_ledger *ledger; /* a finished run of it, entry `entry`, or NULL */
    int entry;
    const char *command; /* "vitrine eval W --data D --eps E", for advice */
    /* what was found */
    vt_check checks[VT_CHECK_COUNT];
    vt_active active;
    vt_grade grade;
    bool escalated;
    int64_t correct;                     /* images that the model has right: the population of the samples */
    int64_t direct, attacked, survivors; /* images of the first part, of the second, left by its white-box attacks */
    int64_t escalated_images, further;   /* survivors tried again when doubtful, broken then */
    double ratio;                        /* forwards that a gradient costs */
    double cost, escalation_cost, reference; /* forward-equivalents; reference: of the attack on all images */
    double reference_tenth; /* estimated: of the attack if it left a tenth of the right images; 0: measured */
    bool reference_measured;
} vt_selftest;

vt_status vt_selftest_run(vt_selftest *t, vt_err *e);
/* What is in selftest.json; NULL: no memory. */
json_t *vt_selftest_json(const vt_selftest *t);
/* Why it cost more than its share, in words; NULL: it did not. */
const char *vt_selftest_excess(const vt_selftest *t);
void vt_selftest_print(FILE *f, const vt_selftest *t);

/* P(X >= k), X ~ Binomial(n, rate): exact, by summation. */
double vt_binomial_tail(int64_t k, int64_t n, double rate);
/* Fills p of each check, Holm's adjusted p over those that were made, and the grade. */
void vt_selftest_judge(vt_selftest *t);

#endif
