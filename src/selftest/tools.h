/* SPDX-License-Identifier: MIT */
/* The inside of the self-test: which images it looks at, the networks, oracles and buffers of one thread, its parts,
 * and how what they found is counted. */
#pragma once

#include "attacks/attacker.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "models/surgery.h"
#include "selftest/selftest.h"

/* ---- images ---- */

typedef struct vt_standing {
    int32_t pred;
    bool right, white, broken; /* right; broken by an attack that follows gradients; by any */
    bool random, random_broke; /* a random search tried it; and broke it */
    bool looked;               /* some check was made on it */
} vt_standing;

/* Fills s [t->v->n_images], zeroed before, in the order of t->v->images, from the ledger; *cost: forward-equivalents of
 * the whole run. */
void vt_standings(const vt_selftest *t, vt_standing *s, double *cost);
/* Writes the right images into `images` [n_images], in an order drawn by the seed: any first part of it is a uniform
 * sample. Those that no attack broke come first with `survivors_first`. *n: how many. */
vt_status vt_sample(const vt_selftest *t, const vt_standing *s, bool survivors_first, int32_t *images, size_t *n,
                    vt_err *e);
/* Returns the standing of one of the run's images. */
vt_standing *vt_standing_of(const vt_selftest *t, vt_standing *s, int32_t image);
/* Returns another image of the run, of another predicted class than `image` if there is one; drawn by seed and
 * image. */
int32_t vt_partner(const vt_selftest *t, const vt_standing *s, int32_t image);

/* ---- one thread ---- */

/* What a double gradient costs, in float32 forwards: its loops are plain (measured: 6 to 7), and it reads every weight
 * anew. */
#define VT_COST_DOUBLE 12

enum { VT_PROBES = 6 };

/* What a part needs open, beside the model. */
enum { VT_NEED_LOOK = 1, VT_NEED_DOUBLE = 2, VT_NEED_TWIN = 4, VT_NEED_PROBES = 8, VT_NEED_ACTIVE = 16 };

/* Attacks that the self-test runs. */
typedef enum vt_tool {
    VT_TOOL_HALF,
    VT_TOOL_BRIEF,
    VT_TOOL_CE,
    VT_TOOL_T,
    VT_TOOL_WHOLE,
    VT_TOOL_SQUARE,
    VT_TOOL_TRANSFER,
    VT_TOOL_SMOOTH,
    VT_TOOL_LONG,
    VT_TOOL_COUNT
} vt_tool;

/* A network and its oracle. own: made for the self-test; the first thread's serves all. */
typedef struct vt_tested_net {
    vt_model *own;
    vt_classifier c;
    vt_oracle o;
} vt_tested_net;

typedef struct vt_tester {
    const vt_selftest *t;
    int classes;
    vt_tested_net model, twin, features, two, probe[VT_PROBES]; /* two: with a head of two classes */
    vt_session_f32 *look;   /* to see the attention of the network itself; NULL: its architecture does not show it */
    vt_session_f64 *look64; /* its gradients in double; NULL where a wrap stands around it */
    size_t pixels, phi;     /* phi: features */
    vt_attack tools[VT_TOOL_COUNT];
    vt_attacker attacker;
    int32_t partner; /* another image of the data, best of another predicted class */
    bool witness;    /* images of several predicted classes are known */
    int32_t image;   /* under test, with its label, its pixels x, and the draws of its part */
    int label;
    vt_rng key;
    float *x, *y, *z, *dx, *dy, *planted; /* one block: [pixels], z [3, classes + 2] */
    double *wide, *z64;                   /* one block: wide [pixels], z64 [votes, classes + 2] */
    /* active test: features of all points [points, phi] and its scratch */
    float *points;
    double *fit;
    double forwards, gradients;
    vt_err failed; /* the first failure of a model since vt_tester_failure was called */
} vt_tester;

/* Opens the model and what `needs` names, to be closed also after a failure. Twin, probes and features of the first
 * thread serve all (first: NULL for that one), which must be closed last. */
vt_status vt_tester_open(vt_tester *g, const vt_selftest *t, const vt_tester *first, unsigned needs, vt_err *e);
void vt_tester_close(vt_tester *g); /* accepts a zeroed one */
/* Reads an image into g->x, with its label; with a purpose the model begins on it by the key of that purpose, which
 * g->key then is. */
vt_status vt_tester_load(vt_tester *g, int32_t image, const char *purpose, vt_err *e);
/* Computes logits z of x by one of the worker's networks (vt_classifier_logits). After a failure, which g->failed
 * keeps, all answers are zero; a part calls vt_tester_failure at its end. A forward that is not kept for a gradient,
 * which has its own price, is counted. */
void vt_tester_logits(vt_tester *g, const vt_classifier *c, const float *x, float *z, bool keep);
/* Computes loss and gradient dx after a kept forward (vt_classifier_backward); zeros after a failure. */
void vt_tester_backward(vt_tester *g, const vt_classifier *c, const vt_loss *loss, float *value, float *dx);
/* Returns g->failed's status, copies its sentence to e, and forgets it. */
vt_status vt_tester_failure(vt_tester *g, vt_err *e);
/* Returns the radius at which a ball around any picture of n values holds all pictures. */
double vt_box_diameter(vt_norm norm, size_t n);
/* Returns the logit of class a minus that of b (a difference without kinks) at x, whose logits come to g->z; dx: its
 * gradient, or NULL. */
double vt_logit_difference(vt_tester *g, const float *x, int a, int b, float *dx);
/* Returns the change from g->x to y that the gradient dx at g->x predicts. */
double vt_predicted_change(const vt_tester *g, const float *dx, const float *y);
/* Sets g->y to x + h in a direction of random signs drawn from r, in the box. (Along a gradient a part of it would look
 * like all of it.) */
void vt_random_step(vt_tester *g, vt_rng r, double h);
/* Makes the probes of the model (g is open): networks up to some of its blocks with fitted heads, from the last block
 * down; own is NULL where it cannot be cut. */
vt_status vt_probes_make(vt_tester *g, vt_err *e);
/* Returns the random numbers of an image for one purpose, by the run's seed. */
vt_rng vt_selftest_key(const vt_selftest *t, const char *purpose, int32_t image);

/* Against net's oracle, which may be another network's than `judge`, by which the separate code judges the point. */
typedef struct vt_attack_trial {
    vt_tested_net *net;
    const vt_classifier *judge;
    double eps;
    int label;
    const char *purpose;
    bool to_the_end; /* never leave early: what counts is the last point */
} vt_attack_trial;
/* Runs a stage on the image; *broken: its point is judged to be misclassified inside the ball (false where the attack
 * leaves float's range). A point of a run to the end stays in g->attacker.x_adv. */
vt_status vt_try_attack(vt_tester *g, const vt_attack_stage *stage, const vt_attack_trial *t, bool *broken, vt_err *e);
/* Draws a corner of the ball in linf, else a point of its surface. */
void vt_draw_corner(const vt_ball *b, const vt_rng *r, float *out);
/* Sets *broken: is one of q points on the ball's surface, or in its corners, drawn by seed and image, misclassified by
 * c? VT_INTERRUPTED: stopped. */
vt_status vt_try_noise(vt_tester *g, const vt_classifier *c, int label, int q, bool corners, bool *broken);

/* ---- parts ---- */

enum { VT_PART_MOST = 96 }; /* images of a part, at most */

/* What the checks found on one image. */
typedef struct vt_evidence {
    uint32_t tried, against;      /* bits of vt_check_id: tested on it; it speaks against the null hypothesis */
    uint32_t flags;               /* bits of vt_flag */
    double value[VT_CHECK_COUNT]; /* of tested checks with a bound: it speaks against the hypothesis if it exceeds it */
} vt_evidence;

/* Sets that a check was made (f->tried), and adds to f->against whether it speaks against the hypothesis. */
static inline void vt_note_evidence(vt_evidence *f, vt_check_id id, bool against) {
    f->tried |= 1u << id, f->against |= (uint32_t)against << id;
}
/* Sets the value of a check with a bound, and that it was made. */
static inline void vt_note_value(vt_evidence *f, vt_check_id id, double value) {
    f->tried |= 1u << id, f->value[id] = value;
}
/* Sets a flag (vt_flag) of the image. */
static inline void vt_note_flag(vt_evidence *f, int flag, bool set) { f->flags |= (uint32_t)set << flag; }

/* Checks the gradients at single points. This and the next six test one image and add to *f. */
vt_status vt_direct_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Checks the gradients at the scale of the ball, on the way to image g->partner too. */
vt_status vt_scale_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Compares white-box attacks of several strengths, with g->witness over the whole box too. */
vt_status vt_strength_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Tries other ways to what white-box attacks left: random points, a twin, probes, smoothed gradients. */
vt_status vt_ways_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Tries Square on what white-box attacks left. */
vt_status vt_square_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Tries a survivor once more, with more starts and queries; VT_FLAG_BROKEN if it falls. */
vt_status vt_again_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
/* Makes the active test: the attack under test on a head that has a known adversarial point. */
vt_status vt_active_image(vt_tester *g, int32_t image, vt_evidence *f, vt_err *e);
enum { VT_ACTIVE_INNER = 199, VT_ACTIVE_RANDOM = 100 }; /* points of an image of the active test */

/* Wake-up at one point inside the network, on the first `scouts` of n survivors; if one of these falls, on the others.
 * Adds to found [n]; nothing where there is no sensor. */
vt_status vt_wakeup_point(vt_tester *g, int point, const int32_t *images, size_t n, size_t scouts, vt_evidence *found,
                          vt_err *e);
/* Returns the cost of wake-up at all points with that many scouts, in forward-equivalents. */
double vt_wakeup_cost(const vt_selftest *t, size_t scouts);

/* Computes mean and 1/deviation of each of d columns of x [n, d]; 0 for one that varies by no more than float32's noise
 * among such values, which takes no part in a head that is fitted. Returns how many do. */
size_t vt_standardise(double *mean, double *inverse, const float *x, int n, size_t d);
/* Maximal-margin direction that separates point `last` from all others: w [d], b with w.x + b > 0 for it alone.
 * x [n, d] rows; scratch [n * n + 4 n + 2 d]. false: not separated. */
bool vt_separate(double *w, double *b, const float *x, int n, size_t d, double *scratch);

/* ---- from evidence to a verdict ---- */

/* Sets bounds and null rates of all checks. */
void vt_selftest_rates(vt_selftest *t);
/* Adds what was found on n images to the hits and trials of the checks, their medians and the flags. */
void vt_count(vt_selftest *t, const vt_evidence *found, const int32_t *images, size_t n);
/* Counts the run's own random search, which saw survivors of its white-box attacks at full strength, as the Square
 * check, and marks them as looked at; false: fewer than four, and the check is left. */
bool vt_count_square(vt_selftest *t, vt_standing *s);
