/* SPDX-License-Identifier: MIT */
/* The oracle: an attack's only door to the model. Every call is counted; a call names the loss and its target vector;
 * gradients are refused to black-box attacks. It ends an image (VT_STOP) only when a query lies in ball and box, is
 * misclassified in float32, confirmed in double, and its margin exceeds the float32 noise of its own logits by
 * VT_CONFIRM_FACTOR; the attack passes the status up. Of an oracle with a goal "misclassified" means "taken for the
 * goal's class" throughout, here and in the attacks. Other modes never end an image (vt_oracle_mode). A query whose
 * logits are not finite ends an image too, with VT_E_NUMERIC. A model that fails (a device, another process) ends it
 * with VT_E_MODEL, and its sentence stays in `why`. A surrogate, where there is one, is another classifier
 * whose gradients are given instead of the model's own: an attack that transfers from it asks the model for logits
 * alone. Where there is a coarse classifier (the model with products in bfloat16), it answers in the model's place, and
 * a query that it takes for what is looked for is asked again of the model, whose answer is the one that counts, here
 * and for the attack. With `eight_bit` a query that would have ended it is rounded to 8 bits first, and what ends the
 * image is the rounded point (attacks/grid8.h), by the same rule. */
#ifndef VT_ATTACKS_ORACLE_H
#define VT_ATTACKS_ORACLE_H

#include <signal.h>
#include <stdint.h>
#include "attacks/ball.h"
#include "attacks/grid8.h"
#include "core/status.h"
#include "models/wrap/classifier.h"

/* First flips sit near the boundary (median margin 0.018 against 1.4 at the last misclassified iterate): a point is
 * final only when its double margin is this many times the largest float32-double difference of its logits. */
#define VT_CONFIRM_FACTOR 4.0

/* Where no entry of the gradient of a softmax loss by the logits reaches this (a class leads by 32), what is left of it
 * is rounding: 1 - p is known to a hundredth, then not at all, though computed in double, and float comes to its end on
 * the way to the pixels. The margin's gradient, its direction in the limit, is given. */
#define VT_VANISHED 1e-14f

/* A nearer query is confirmed when it is nearer by at least a thousandth: a double forward costs several float ones. */
#define VT_CLOSER 0.999

/* What a query may lead to. */
typedef enum vt_oracle_mode {
    VT_ORACLE_SEARCH,     /* it may end the image */
    VT_ORACLE_EXHAUSTIVE, /* never: the attack's last point is its answer, though better queries are kept */
    VT_ORACLE_CLOSEST, /* never: of those that would have ended it the nearest to the ball's centre is kept, for curves
                          of accuracy over eps */
    VT_ORACLE_UNJUDGED /* nobody asks whether an image is broken (training, papers' evaluators): nothing is kept, and
                          logits that nobody reads are not computed */
} vt_oracle_mode;

/* What can be climbed inside a model: dx [pixels] <- the gradient of quantity k of `count` at x. */
typedef struct vt_inside {
    int count;
    void *self;
    vt_status (*gradient)(void *self, const float *x, int k, float *dx, vt_err *e);
} vt_inside;

typedef struct vt_oracle {
    const vt_classifier *model;
    const vt_classifier *surrogate; /* of the same classes and pixels, set after opening; NULL: none */
    const vt_inside *inside;        /* set after opening; NULL: nothing is shown */
    const vt_classifier *coarse;    /* searches in the model's place, set after opening; NULL: none */
    int64_t coarse_calls;           /* so many calls of an image, then the model itself; vt_oracle_reset: 0 */
    const vt_ball *ball;
    int label;
    int goal; /* the class that alone ends an image (vt_oracle_aim); -1: any but the label */
    bool gradients_allowed;
    vt_oracle_mode mode;       /* set after opening; SEARCH then */
    const unsigned char *open; /* goes with every loss that vt_oracle_loss makes (vt_loss.open) */
    vt_grid8 *eight_bit; /* the 8-bit threat around this image; NULL: any float counts. vt_oracle_reset leaves it */
    const volatile sig_atomic_t *interrupt; /* nonzero: calls return VT_INTERRUPTED; NULL: never */
    int64_t forwards;                       /* forward passes asked for by themselves */
    int64_t gradients; /* gradient evaluations (forward and backward; the forward is shared with a call at the same x),
                          the surrogate's and those of what is inside among them */
    int64_t vanished;  /* of the gradients those that were the margin's, in place of a softmax loss's */
    int64_t confirmations; /* double forwards of the stop rule */
    int64_t asked_again;   /* of the forwards those of the model at a query that the coarse one had answered */
    float *found;          /* [n] in-ball query misclassified in float32, of the largest margin so far; closest: the
                              nearest of those confirmed; eight_bit (searching): the grid point of the largest */
    bool has_found;
    bool not_finite; /* a query's logits were not; found is that query where nothing was found before */
    float found_margin;
    double found_distance; /* closest: of found, in the ball's norm */
    /* buffers: one-hot label [K], logits [K] float and double, last kept input [n] */
    float *z_surrogate;
    float *target, *z, *kept; /* target: the label's one-hot vector, or what vt_oracle_target set */
    float *aim;               /* [K] the goal's one-hot vector */
    float *dz;
    double *z64;
    bool has_kept;
    const vt_classifier *kept_by; /* whose call that was */
    vt_err why;                   /* of a call that gave VT_E_MODEL: the model's own sentence */
} vt_oracle;

vt_status vt_oracle_open(vt_oracle *o, const vt_classifier *m, vt_err *e);
void vt_oracle_close(vt_oracle *o);
/* A new image: counters to zero. */
void vt_oracle_reset(vt_oracle *o, const vt_ball *ball, int label, bool gradients_allowed);

/* Class `goal` is to be reached: the losses rise towards it, and no other class ends the image. After a reset. */
void vt_oracle_aim(vt_oracle *o, int goal);
/* Is a point of logits z [K] what is looked for: of the goal's class, or of any but the label? */
bool vt_oracle_reached(const vt_oracle *o, const float *z);
/* By how much: above 0 where it is. max_{j != y} z_j - z_y, or z_goal - max_{j != goal} z_j. */
float vt_oracle_margin(const vt_oracle *o, const float *z);

/* What vt_oracle_loss aims at from now on, instead of the label's one-hot vector: a distribution [K]. */
void vt_oracle_target(vt_oracle *o, const float *target);

/* z [K] (may be NULL) of x [n]; one forward. */
vt_status vt_oracle_logits(vt_oracle *o, const float *x, float *z);
/* The same, when a gradient at this x is likely to follow: it will then need no second forward. */
vt_status vt_oracle_logits_first(vt_oracle *o, const float *x, float *z);
/* The next call makes a forward of its own, though it be at the same point: another draw of a randomised model. */
void vt_oracle_forget(vt_oracle *o);
/* z [K] (may be NULL), *value and dx [n] of a loss at x; one gradient. VT_E_FORBIDDEN for black-box attacks.
 * Where the loss is of the softmax (ce, pm, po) and has vanished (VT_VANISHED), value and dx are the margin's:
 * below 0 where the image is right, so that of two points the one nearer to falling still has the larger value.
 * (Unjudged everything is as asked for.) */
vt_status vt_oracle_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *z, float *value, float *dx);

/* *value and dx [n] of a loss of the surrogate at x; one gradient, whatever the model allows. Nothing is judged: x is
 * not a query of the model. VT_E_FORBIDDEN without a surrogate, VT_E_NUMERIC where its logits are not finite. */
vt_status vt_oracle_surrogate_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *value, float *dx);

/* How many quantities inside the model can be climbed, and dx [n], the gradient of one of them at x: one gradient,
 * whatever the model allows. Nothing is judged: x is not a query of the model. */
static inline int vt_oracle_inside_count(const vt_oracle *o) { return o->inside ? o->inside->count : 0; }
vt_status vt_oracle_inside_gradient(vt_oracle *o, const float *x, int k, float *dx);

/* eight_bit: one forward at the grid point q [n]; *margin: above 0 it is misclassified. keep: a gradient at the same
 * point is likely to follow. */
vt_status vt_oracle_levels(vt_oracle *o, const uint8_t *q, bool keep, float *margin);

/* mean [side*side]: the attention of a block to every patch at x (vt_tokens.mean). One forward, unless x is the point
 * evaluated last for a gradient. VT_E_FORBIDDEN for black-box attacks, and where no attention can be looked at. */
vt_status vt_oracle_attention(vt_oracle *o, const float *x, int layer, float *mean);

/* A loss that rises away from the true label (or the target set), or towards the goal: minus the loss of its class,
 * and for DLR the targeted one, DLR_T, from the label to the goal (eq. 7: eq. 6 is
 * constant where the goal's logit is the third). */
vt_loss vt_oracle_loss(const vt_oracle *o, vt_loss_kind kind);

/* May an attack whose reference ends at a broken point end there? Exhaustive: when the image has been broken in float32
 * inside the ball. Unjudged: when it is `broken` in the attack's own view, which is all there is. Searching it may not:
 * the oracle itself ends the image, when the point is good enough. */
bool vt_oracle_may_end(const vt_oracle *o, bool broken);

#endif
