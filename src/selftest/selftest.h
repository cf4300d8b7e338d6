/* SPDX-License-Identifier: MIT */
/* An evaluation that tests itself: can the gradients that its attacks followed be trusted? What gradients are at single
 * points and at the scale of the ball, what attacks of different kinds find on the same images, and the active test
 * (Zimmermann et al. 2022), in which an adversarial image is known to exist. Every check is an exact test of a stated
 * null hypothesis; Holm's correction over all of them bounds the chance of accusing a model whose gradients lead. */
#pragma once

#include <jansson.h>
#include <stdio.h>
#include "eval/evaluate.h"

typedef enum vt_check_id {
    VT_CHECK_RANDOM,
    VT_CHECK_FLAT,
    VT_CHECK_ZERO,
    VT_CHECK_CONSTANT,
    VT_CHECK_ATTENTION,
    VT_CHECK_WRONG,
    VT_CHECK_DERIVATIVE, /* two of a model in another process */
    VT_CHECK_BATCH,
    VT_CHECK_SEGMENT,
    VT_CHECK_PATH,
    VT_CHECK_SCALE,
    VT_CHECK_ROUGH,
    VT_CHECK_BACKWARD,
    VT_CHECK_STEPS,
    VT_CHECK_RADIUS,
    VT_CHECK_WHOLE,
    VT_CHECK_NOISE,
    VT_CHECK_TWIN,
    VT_CHECK_PROBE,
    VT_CHECK_WAKEUP,
    VT_CHECK_HEAD,
    VT_CHECK_SMOOTH,
    VT_CHECK_SQUARE,
    VT_CHECK_ACTIVE,
    VT_CHECK_COUNT
} vt_check_id;

/* One check: `hits` of `trials` images speak against the null hypothesis, under which a hit has at most the chance
 * `rate`; p = P(at least that many hits). Trials 0: the check was not made. */
typedef struct vt_check {
    int64_t hits, trials;
    double rate, p, adjusted;
    double median, bound; /* of the value that a hit exceeds; bound 0: hits are yes or no */
    int32_t images[6];    /* the first that speak against it */
    int n_images;
} vt_check;

/* NONE: nothing could be tested, vt_selftest.nothing says why. */
typedef enum vt_grade { VT_GRADE_NO_SIGN, VT_GRADE_DOUBTFUL, VT_GRADE_MASKED, VT_GRADE_NONE, VT_GRADE_COUNT } vt_grade;
/* "no sign of masking", "doubtful", "gradients are masked", "not tested" */
const char *vt_grade_name(vt_grade g);

/* Chance of a false "doubtful" or worse, and of a false "masked", over all checks together. */
#define VT_ALPHA_DOUBTFUL 0.05
#define VT_ALPHA_MASKED 0.01
/* Chance that a model which guesses is tested as if it did not (vt_selftest_guesses). */
#define VT_ALPHA_GUESS 0.05

/* What the self-test may cost, as a share of the attack under test; an escalation comes on top. */
#define VT_SELFTEST_SHARE 0.10
/* ... or this many forwards for each image of the run, if that is more. */
#define VT_SELFTEST_LEAST 200

/* The active test's account. */
typedef struct vt_active {
    int64_t images, setup_failed;          /* set-ups */
    int64_t attacked, found;               /* of those that did not fail */
    int64_t random_surface, random_corner; /* images on which random search found an adversarial point too */
    double low, high;                      /* Wilson's 95 % interval of the success rate */
    bool passed;                           /* low >= 0.95, random <= 0.5, setup failures <= 5 % */
} vt_active;

/* What else is true of an image. The first are AutoAttack's own warnings (its checks.py): they say that a number needs
 * another attack, not that a model is masked. */
typedef enum vt_flag {
    VT_FLAG_ZERO,                      /* the gradient of loss 0 is zero in every pixel; the next: of loss 1, ... */
    VT_FLAG_SATURATED = VT_LOSS_COUNT, /* the logits are further apart than cross-entropy can tell in float32 */
    VT_FLAG_SOFTMAX,                   /* the logits are probabilities */
    VT_FLAG_CLIPS,                     /* values outside of [0,1] are answered as the nearest inside (remote models) */
    VT_FLAG_BROKEN,                    /* an attack of the self-test broke it */
    VT_FLAG_SURFACE,                   /* active test: random search found an adversarial point too, on the surface */
    VT_FLAG_CORNER,                    /* the same in a corner */
    VT_FLAG_COUNT
} vt_flag;

typedef struct vt_selftest {
    const vt_eval_options *v; /* model, wrap, data, images, threat, seed, threads; with a ledger its attacks */
    const vt_attack *attack;  /* under test: its stages that follow gradients */
    const vt_ledger *ledger;  /* a finished run of v, or NULL */
    bool points_only;         /* parts 1 and 2 alone: a curve, a patch */
    const char *command;      /* what `vitrine eval ` begins with for advice: model, data and norm without the radius */
    /* what was found */
    vt_check checks[VT_CHECK_COUNT];
    unsigned untested;                 /* 1u << vt_check_id: left out for want of budget, or by points_only */
    int64_t flags[VT_FLAG_COUNT];      /* images with the flag */
    int64_t square_broken, run_images; /* images that the run's random search alone broke; of how many */
    vt_active active;
    vt_grade grade;
    char nothing[120]; /* why nothing could be tested; "": something was */
    bool escalated;
    int64_t correct, left;                   /* images that the model has right; of these left by the run */
    int64_t looked;                          /* images that some check was made on */
    int64_t direct, scaled;                  /* images of parts 1 and 2 */
    int64_t attacked, survivors;             /* of part 3, and left by its white-box attacks */
    int64_t other;                           /* survivors of part 4 */
    int64_t escalated_images, further;       /* survivors tried again when doubtful, broken then */
    double ratio;                            /* forwards that a gradient costs */
    double cost, escalation_cost, reference; /* forward-equivalents; reference: of the attack on all images */
    double allowance;       /* VT_SELFTEST_SHARE of the reference, or VT_SELFTEST_LEAST forwards an image if more */
    double reference_tenth; /* estimated: of the attack if it left a tenth of the right images; 0: measured */
    bool reference_measured;
    double forecast, escalation_forecast; /* forward-equivalents, as said before the test and the escalation began */
} vt_selftest;

/* P(X >= k), X ~ Binomial(n, rate): exact, by summation. */
double vt_binomial_tail(int64_t k, int64_t n, double rate);
/* Is so many right no more than guessing gives? The exact binomial test of "right with chance 1 /
 * classes", one-sided, by its mid-p: the plain p is too strict for few images (2 of 4 right of
 * 10 classes: plain p 0.052, mid-p 0.028). */
bool vt_selftest_guesses(int64_t right, int64_t images, int classes);
/* Fills p of each check, Holm's adjusted p over those that were made, the active test's interval, and the grade. */
void vt_selftest_judge(vt_selftest *t);

/* Sets t->forecast and t->escalation_forecast to the most that the self-test after a run takes, in forward-equivalents,
 * from the most that the run takes: as if every image were right and stood. */
void vt_selftest_plan(vt_selftest *t, vt_passes run);
/* Runs the self-test of t->attack and fills what was found. VT_INTERRUPTED: stopped on request. */
vt_status vt_selftest_run(vt_selftest *t, vt_err *e);
/* Returns what is in selftest.json (docs/formats.md); NULL: no memory. */
json_t *vt_selftest_json(const vt_selftest *t);
/* Returns why the self-test cost more than its share, in words; NULL: it did not. */
const char *vt_selftest_excess(const vt_selftest *t);
/* Prints verdict, checks in doubt, warnings, active test and cost. */
vt_status vt_selftest_print(FILE *f, const vt_selftest *t, vt_err *e);
enum { VT_VERDICT_ROOM = 1000 };
/* Reads the verdict of DIR/selftest.json in the words that vt_selftest_print uses, also of an earlier version's; "":
 * DIR has none. VT_E_FORMAT: the file holds no verdict. */
vt_status vt_selftest_read(const char *dir, char text[VT_VERDICT_ROOM], vt_err *e);
