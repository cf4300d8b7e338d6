/* SPDX-License-Identifier: MIT */
/* The networks, oracles and buffers of one thread of the self-test, and the functions of its parts. */
#ifndef VT_SELFTEST_TOOLS_H
#define VT_SELFTEST_TOOLS_H

#include "attacks/attacker.h"
#include "models/net/session.h"
#include "models/net/session64.h"
#include "models/surgery.h"
#include "selftest/checks.h"

/* What a double gradient costs, in float32 forwards: its loops are plain (measured: 6 to 7), and it reads every weight
 * anew. */
#define VT_COST_DOUBLE 12

enum { VT_PROBES = 6 };

/* What a part needs open, beside the model. */
enum { VT_NEED_LOOK = 1, VT_NEED_DOUBLE = 2, VT_NEED_TWIN = 4, VT_NEED_PROBES = 8, VT_NEED_ACTIVE = 16 };

typedef struct vt_selftest_worker {
    const vt_selftest *t;
    int classes;
    vt_classifier model, twin, features, two, probe[VT_PROBES]; /* two: with a head of two classes */
    vt_oracle o_model, o_twin, o_two, o_probe[VT_PROBES];
    vt_session_f32 *look;   /* to see the attention of the network itself; NULL: its architecture does not show it */
    vt_session_f64 *look64; /* its gradients in double; NULL where a wrap stands around it */
    vt_model *m_twin, *m_features, *m_two, *m_probe[VT_PROBES];
    size_t pixels, phi; /* phi: features */
    vt_attacker attacker;
    float *x, *y, *z, *dx, *dy;
    double *z64, *wide; /* wide [pixels] */
    /* active test: features of all points [points, phi] and its scratch */
    float *points;
    double *fit;
    float *planted; /* [pixels] */
    double forwards, gradients;
    vt_err failed; /* the first failure of a model since vt_selftest_worker_said */
} vt_selftest_worker;

/* Opens the model and what `needs` names. Twin, probes and features of the first thread serve all (first: NULL for that
 * one), which must be closed last. */
vt_status vt_selftest_worker_open(vt_selftest_worker *g, const vt_selftest *t, const vt_selftest_worker *first,
                                  unsigned needs, vt_err *e);
void vt_selftest_worker_close(vt_selftest_worker *g); /* accepts a zeroed one */
/* vt_classifier_logits and _backward of one of the worker's networks. After a failure, which g->failed keeps, all
 * answers are zero; a part asks vt_selftest_worker_said at its end. */
void vt_selftest_worker_logits(vt_selftest_worker *g, const vt_classifier *c, const float *x, float *z, bool keep);
void vt_selftest_worker_backward(vt_selftest_worker *g, const vt_classifier *c, const vt_loss *loss, float *value,
                                 float *dx);
vt_status vt_selftest_worker_said(vt_selftest_worker *g, vt_err *e);
/* The largest of the logits z [classes], that of `than` left out. */
int vt_runner_up(const float *z, int classes, int than);
/* The model's output that stands for class k of the data. */
int vt_selftest_worker_class(const vt_selftest_worker *g, int k);

/* Probes of the model (g is open): networks behind some of its blocks with fitted heads, from the last block down; NULL
 * where it cannot be cut. */
vt_status vt_probes_make(vt_model *probes[VT_PROBES], vt_selftest_worker *g, vt_err *e);

vt_rng vt_selftest_key(const vt_selftest *t, const char *purpose, int32_t image);

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
vt_status vt_tools_parse(vt_attack tools[VT_TOOL_COUNT], vt_norm norm, vt_err *e);
void vt_tools_free(vt_attack tools[VT_TOOL_COUNT]);

/* Runs one stage against `o` and lets the separate code judge the point on `judge`. g->x is the image; o's classifier
 * may be another one (a twin). The point stays in g->attacker.x_adv where it runs to the end. */
typedef struct vt_attack_trial {
    vt_oracle *o;
    const vt_classifier *judge;
    double eps;
    int label, classes;
    int32_t image;
    const char *purpose;
    bool to_the_end; /* never leave early: what counts is the last point */
} vt_attack_trial;
vt_status vt_try_attack(vt_selftest_worker *g, const vt_attack_stage *stage, const vt_attack_trial *t, bool *broken,
                        vt_err *e);
/* q points of the ball, half on its surface, half in its corners (linf; l2: all on the surface): is one of them
 * misclassified? */
vt_status vt_try_noise(vt_selftest_worker *g, const vt_classifier *c, int label, int classes, int32_t image, int q,
                       bool corners, bool *broken);

/* Part 1: single points of one image. */
typedef struct vt_direct {
    unsigned bits; /* 1u << vt_check_id */
    bool zero[VT_LOSS_COUNT];
    bool softmax;              /* the logits are probabilities: a softmax too many */
    bool saturated;            /* a logit gap beyond which cross-entropy underflows */
    bool claims, again, clips; /* of a model in another process: looked at; asked in another batch; clips its input */
} vt_direct;
/* Adds to it, where the model is in another process; g->x is the image. */
void vt_claims_image(vt_selftest_worker *g, int32_t image, int label, vt_direct *d);
vt_status vt_direct_image(vt_selftest_worker *g, int32_t image, vt_direct *d, vt_err *e);

/* Part 2: gradients at the scale of the ball. value: the larger the worse. */
enum { VT_SCALE_SEGMENT, VT_SCALE_PATH, VT_SCALE_STEP, VT_SCALE_ROUGH, VT_SCALE_BACKWARD, VT_SCALE_COUNT };
typedef struct vt_scale {
    double value[VT_SCALE_COUNT];
    bool backward; /* whether that was made */
} vt_scale;
/* partner: another image of the data, best of another predicted class. */
vt_status vt_scale_image(vt_selftest_worker *g, int32_t image, int32_t partner, vt_scale *s, vt_err *e);

/* Part 3: which of the white-box attacks broke one image. */
typedef struct vt_strength {
    bool half, brief, white, whole, whole_tried;
} vt_strength;
vt_status vt_strength_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, bool witness, vt_strength *f,
                            vt_err *e);

/* Part 4: which other ways lead to an image that white-box attacks left. */
typedef struct vt_ways {
    bool noise, twin, probe, smooth, square, again;
    bool head_tried;
    double head; /* 1 - (how far the model's logits move) / (how far the fitted head's do), as shares of their span */
} vt_ways;
vt_status vt_ways_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e);
vt_status vt_square_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e);
/* The same survivors once more, with more of everything. */
vt_status vt_again_image(vt_selftest_worker *g, const vt_attack *tools, int32_t image, vt_ways *w, vt_err *e);

/* Wakes what sleeps at one point inside the network, on the first `scouts` of n survivors; where one of these falls, on
 * the others. found [n]. */
typedef struct vt_wakeup {
    bool tried, broken;
} vt_wakeup;
vt_status vt_wakeup_point(vt_selftest_worker *g, int point, const int32_t *images, size_t n, size_t scouts,
                          vt_wakeup *found, vt_err *e);
double vt_wakeup_cost(const vt_selftest *t, size_t scouts); /* of all points, in forward-equivalents */

/* Part 5: one image of the active test. */
enum { VT_ACTIVE_INNER = 199, VT_ACTIVE_RANDOM = 100 };
typedef struct vt_active_bits {
    bool setup, found, surface, corner; /* without a set-up the others say nothing */
} vt_active_bits;
vt_status vt_active_image(vt_selftest_worker *g, int32_t image, vt_active_bits *bits, vt_err *e);

/* Mean and 1/deviation of each of d columns of x [n, d]; 0 for one that varies by no more than float32's noise among
 * such values, which takes no part in a head that is fitted. How many do. */
size_t vt_standardise(double *mean, double *inverse, const float *x, int n, size_t d);
/* Maximal-margin direction that separates point `last` from all others: w [d], b with w.x + b > 0 for it alone.
 * x [n, d] rows; scratch [n * n + 4 n + 2 d]. false: not separated. */
bool vt_separate(double *w, double *b, const float *x, int n, size_t d, double *scratch);

#endif
