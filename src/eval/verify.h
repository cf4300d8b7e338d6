/* SPDX-License-Identifier: MIT */
/* The judge. Shares nothing with the attacks: its own norms in double on the stored float32 values, without tolerance,
 * the box, and the label by fresh forwards in float and in double. */
#pragma once

#include <stdbool.h>
#include "attacks/patch.h"
#include "attacks/rotation.h"
#include "attacks/ball.h"
#include "eval/ledger.h"
#include "eval/subject.h"

typedef struct vt_verdict {
    bool inside;             /* norm <= eps and 0 <= x' <= 1, every value finite */
    double linf, l2, l1, l0; /* |x' - x|; l0: values that differ */
    int pred, pred64;        /* argmax in float, in double */
    double margin, margin64; /* max_{j!=label} z_j - z_label, with a target z_target - max_{j!=target} z_j; above 0:
                                misclassified */
    double noise; /* largest |z_float - z_double|, or difference of any two repeated queries (without a double copy) */
    bool again;   /* pred64, margin64 are of the least sure repeated query: there is no double copy */
    int votes, wrong; /* of a model that draws: how often it was asked, and was wrong; else 0 */
    bool unsure;      /* the model said so of its class (vt_classifier.unsure) */
    bool finite;      /* every logit, in both precisions; a margin of those that are not is NaN */
    bool broken;      /* inside, finite and misclassified in float: the field's convention; by most votes */
    bool borderline; /* broken, but the double verdict (the least sure repeated query) disagrees or its margin is within
                        the noise; of votes, the 95 % interval of their share holds a half */
} vt_verdict;

/* What vt_classifier_begin is told before a verdict, so that a model that draws random numbers (wrap_noise) is judged
 * by the same draws whenever a stored point is judged again, however many calls the attack made before. Entry 0: the
 * clean prediction; else the entry's stage. */
vt_rng vt_verdict_key(uint64_t seed, int32_t image, int entry, int stage);

/* The float prediction alone (for clean images, where the field's convention is float): pred, margin; the double fields
 * are -1 and NaN. Where there is no double copy the image is asked again, too: *unsure says whether the answers differ
 * in their class (votes: whether they leave it open). z [K], z64 [votes, K]: scratch. */
vt_status vt_predict(vt_verdict *v, bool *unsure, const vt_classifier *m, const float *x, int label, float *z,
                     double *z64, vt_err *e);
/* Judges x_adv against x: distances, ball of `norm` and eps, box, and the label by fresh forwards. z [K], z64 [votes,
 * K]: scratch. */
vt_status vt_verify(vt_verdict *v, const vt_classifier *m, const float *x, const float *x_adv, int label, vt_norm norm,
                    double eps, float *z, double *z64, vt_err *e);
/* After vt_verify with linf 1, which judges the box: do the pixels that changed fit into the patch's squares? Else the
 * point is not inside, and not broken. x, x_adv [shape] */
void vt_verify_patch(vt_verdict *v, const float *x, const float *x_adv, vt_shape shape, const vt_patch *p);
/* After vt_verify with linf 1: does every value of x_adv [n] lie between lo and hi [n]? Else the point is not inside,
 * and not broken. */
void vt_verify_box(vt_verdict *v, const float *x_adv, const float *lo, const float *hi, size_t n);
/* After vt_verify with linf 1: is x_adv an image of the grid, a rotation and translation of x [shape] to within the
 * rounding of its values (verify_rotation.c)? Else the point is not inside, and not broken. */
void vt_verify_rotation(vt_verdict *v, const float *x, const float *x_adv, vt_shape shape, const vt_rotation *r);
/* After vt_verify with an infinite eps (which judges the box) and, for patches, vt_verify_patch: is every value of x
 * and x_adv [n] exactly float32(k)/255, and are they, counted in whole levels, no further apart than eps
 * (attacks/grid8.h)? Else the point is not inside, and not broken. */
void vt_verify_eight_bit(vt_verdict *v, const float *x, const float *x_adv, size_t n, vt_norm norm, double eps);

/* Rounding to float32 below 1, which may have moved each value of a point of another program; the most that is taken.
 */
#define VT_ALLOWANCE 0x1p-24
#define VT_ALLOWANCE_MOST 1e-5

/* What a run judges the points of an entry by. */
typedef struct vt_terms {
    vt_norm norm;
    double eps;
    vt_patch patch; /* size > 0: the patch threat, with linf and 1 as norm and eps */
    vt_scoring scoring;
    const int32_t *target; /* the class to reach; NULL: any but the label */
    const float *lo, *hi;  /* [shape] bounds of each value, with linf and 1 as norm and eps; NULL: none */
    vt_rotation rotation;  /* angles > 0: the rotation threat, likewise */
} vt_terms;

/* What `each` value's allowance adds to the radius for images of n values: itself in linf, sqrt(n) times that in l2, n
 * times in l1; nothing in l0, for patches and rotations. The box has none. */
double vt_allowance(double each, const vt_terms *t, size_t n);

/* All of that in its order: the verdict on a point, the same when it is found and whenever it is judged again. key:
 * what the model draws by (vt_verdict_key). x, x_adv [shape]; z [K], z64 [votes, K]: scratch. */
vt_status vt_verify_by(vt_verdict *v, const vt_terms *t, const vt_classifier *m, const vt_rng *key, const float *x,
                       const float *x_adv, vt_shape shape, int label, float *z, double *z64, vt_err *e);
/* Does the exact 95 % interval of the share of votes that are wrong hold a half? */
bool vt_verdict_open(const vt_verdict *v);
/* Returns what the ledger calls the verdict of vt_predict: correct, wrong, or not-finite. */
vt_record_status vt_clean_status(const vt_verdict *v, int label);
/* Returns what the ledger calls the verdict on a point: not-finite, invalid (outside), broken or robust. */
vt_record_status vt_verdict_status(const vt_verdict *v);
/* Copies a verdict's classes, margins and distances (but for l0) and its borderline into a ledger line. */
void vt_verdict_record(vt_record *r, const vt_verdict *v);

/* One thread's tools to judge points that are stored already: a classifier, the clean image, a point. */
typedef struct vt_verifier {
    vt_classifier model;
    const vt_subject *subject;
    vt_shape shape;
    float *x, *x_adv, *z; /* [pixels], [pixels], [classes] */
    double *z64;          /* [classes] */
} vt_verifier;

/* s must outlive it: judged is what stood there when the points were found. */
vt_status vt_verifier_open(vt_verifier *j, const vt_subject *s, vt_err *e);
void vt_verifier_close(vt_verifier *j); /* accepts a zeroed one */
