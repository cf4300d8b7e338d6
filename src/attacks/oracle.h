/* SPDX-License-Identifier: MIT */
/* The oracle: an attack's only access to the model. It counts calls, refuses gradients to black-box attacks, and judges
 * every query: one that lies in ball and box and is misclassified, in float32 and, by more than VT_CONFIRM_FACTOR times
 * the float noise, in double, ends the image with VT_STOP, which attacks pass on. Logits that are not finite end it
 * with VT_E_NUMERIC, a model that fails with VT_E_MODEL. Of an oracle with a goal "misclassified" means "taken for the
 * goal's class", here and in the attacks. Points of 8 bits: oracle_8bit.c. */
#pragma once

#include <signal.h>
#include <stdint.h>
#include "attacks/ball.h"
#include "attacks/grid8.h"
#include "base/status.h"
#include "inference/classifier.h"

/* First flips sit near the boundary (median margin 0.018 against 1.4 at the last misclassified iterate): a point is
 * final only when its double margin is this many times the largest float32-double difference of its logits. */
#define VT_CONFIRM_FACTOR 4.0

/* Where no entry of a softmax loss's gradient by the logits reaches this (a class leads by 32), the rest is rounding:
 * 1 - p is known to a hundredth, then not at all, though computed in double, and float underflows on the way to the
 * pixels. The margin's gradient, its direction in the limit, is given instead. */
#define VT_VANISHED 1e-14f

/* A nearer query is confirmed when it is nearer by at least a thousandth: a double forward costs several float ones. */
#define VT_CLOSER 0.999

/* What a query may lead to. */
typedef enum vt_oracle_mode {
    VT_ORACLE_SEARCH,       /* it may end the image */
    VT_ORACLE_EXHAUSTIVE,   /* never: the attack's last point is its answer, though better queries are kept */
    VT_ORACLE_MIN_DISTANCE, /* never: of those that would have ended it the one nearest to the centre is kept (curves)
                             */
    VT_ORACLE_NO_VERDICT /* never, and nothing is kept (training, papers' evaluators): logits that are not read are not
                          computed */
} vt_oracle_mode;

/* What can be climbed inside a model: dx [pixels] <- the gradient of quantity k of `count` at x. */
typedef struct vt_inside {
    int count;
    void *self;
    vt_status (*gradient)(void *self, const float *x, int k, float *dx, vt_err *e);
} vt_inside;

/* A second, cheaper classifier (the model with products in bfloat16) that searches in the model's place. */
typedef struct vt_draft {
    const vt_classifier *classifier; /* NULL: none */
    int64_t calls;                   /* of an image that it answers, then the model itself; vt_oracle_reset: 0 */
    int64_t asked_again;             /* forwards of the model at a query that the draft had answered */
} vt_draft;

/* The last call, targets of losses, scratch: for the oracle alone (the self-test borrows `label`). */
typedef struct vt_oracle_own {
    float *z;                /* [K] its logits */
    float *x;                /* [n] its input, where has_x: a gradient there needs no second forward */
    const vt_classifier *by; /* who answered */
    bool has_x;
    vt_err why;              /* of a call that gave VT_E_MODEL: the model's own sentence */
    float *label, *goal;     /* [K] the label's one-hot vector or what vt_oracle_target set; the goal's */
    float *z_surrogate, *dz; /* [K] */
    double *z64;             /* [votes, K] */
} vt_oracle_own;

/* surrogate to draft, mode, open, eight_bit and interrupt are set after opening; none of the first three: NULL. */
typedef struct vt_oracle {
    const vt_classifier *model;
    const vt_classifier *surrogate; /* of the same classes and pixels: its gradients are given beside the model's */
    const vt_inside *inside;
    vt_draft draft;
    const vt_ball *ball;
    int label;
    int goal; /* the class that alone ends an image (vt_oracle_aim); -1: any but the label */
    bool gradients_allowed;
    vt_oracle_mode mode;                    /* SEARCH at first */
    const unsigned char *open;              /* goes with every loss that vt_oracle_loss makes (vt_loss.open) */
    vt_grid8 *eight_bit;                    /* the 8-bit threat around this image; NULL: any float counts */
    const volatile sig_atomic_t *interrupt; /* nonzero: calls return VT_INTERRUPTED; NULL: never */
    int64_t forwards;                       /* forward passes asked for by themselves */
    int64_t gradients;  /* gradient evaluations (forward and backward; the forward is shared with a call at the same x),
                           the surrogate's and those of what is inside among them */
    int64_t repeated;   /* of the gradients those that vt_oracle_repeat counted without computing them */
    int64_t vanished;   /* of the gradients those that were the margin's, in place of a softmax loss's */
    float *found;       /* [n] in-ball query misclassified in float32, of the largest margin so far; MIN_DISTANCE: the
                           nearest of those confirmed; eight_bit (SEARCH): the grid point of the largest */
    double found_value; /* of found: its margin; MIN_DISTANCE: its distance in the ball's norm */
    bool has_found;
    bool not_finite; /* a query's logits were not; found is that query where nothing was found before */
    vt_oracle_own own;
} vt_oracle;

/* Allocates an oracle around m, which must outlive it, without a ball yet. */
vt_status vt_oracle_open(vt_oracle *o, const vt_classifier *m, vt_err *e);
void vt_oracle_close(vt_oracle *o); /* accepts a zeroed one */
/* Begins a new image: its ball and label; counters become 0. */
void vt_oracle_reset(vt_oracle *o, const vt_ball *ball, int label, bool gradients_allowed);

/* Makes class `goal` the one to reach: the losses rise towards it, and no other class ends the image. After a reset. */
void vt_oracle_aim(vt_oracle *o, int goal);
/* Returns whether a point of logits z [K] is adversarial: of the goal's class, or without a goal of any but the label.
 */
bool vt_oracle_reached(const vt_oracle *o, const float *z);
/* Returns by how much a point of logits z [K] is adversarial, above 0 if it is: max_{j != y} z_j - z_y, or z_goal -
 * max_{j != goal} z_j. */
float vt_oracle_margin(const vt_oracle *o, const float *z);

/* Sets what vt_oracle_loss aims at from now on, instead of the label's one-hot vector: a distribution [K]. */
void vt_oracle_target(vt_oracle *o, const float *target);

/* Computes z [K] (may be NULL) of x [n], one forward, and judges the point. VT_STOP: it ends the image, the attack
 * returns at once; VT_E_NUMERIC: its logits are not finite; VT_E_MODEL: the model failed. So do all queries below. */
vt_status vt_oracle_logits(vt_oracle *o, const float *x, float *z);
/* Computes z [K] as vt_oracle_logits does, but keeps the forward for a gradient at the same x. */
vt_status vt_oracle_logits_first(vt_oracle *o, const float *x, float *z);
/* Drops the kept forward: the next call makes one of its own, another draw of a randomised model. */
void vt_oracle_forget(vt_oracle *o);
/* Computes z [K] (may be NULL), *value and dx [n] of a loss at x; one gradient. VT_E_FORBIDDEN for black-box attacks.
 * Where the loss is of the softmax (ce, pm, po) and has vanished (VT_VANISHED), value and dx are the margin's:
 * below 0 where the image is right, so that of two points the one nearer to falling still has the larger value.
 * (Without a judge everything is as asked for.) */
vt_status vt_oracle_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *z, float *value, float *dx);

/* Computes *value and dx [n] of a loss of the surrogate at x; one gradient, whatever the model allows. Nothing is
 * judged: x is not a query of the model. VT_E_FORBIDDEN without a surrogate, VT_E_NUMERIC where its logits are not
 * finite. */
vt_status vt_oracle_surrogate_gradient(vt_oracle *o, const float *x, const vt_loss *loss, float *value, float *dx);

/* Returns how many quantities inside the model can be climbed. */
static inline int vt_oracle_inside_count(const vt_oracle *o) { return o->inside ? o->inside->count : 0; }
/* Computes dx [n], the gradient of quantity k inside the model at x: one gradient, whatever the model allows. Nothing
 * is judged: x is not a query of the model. VT_E_FORBIDDEN: there is no such quantity. */
vt_status vt_oracle_inside_gradient(vt_oracle *o, const float *x, int k, float *dx);

/* Computes mean [side*side]: the attention of a block to every patch at x (vt_tokens.mean). One forward, unless x is
 * the point evaluated last for a gradient. VT_E_FORBIDDEN for black-box attacks, and where no attention can be looked
 * at. */
vt_status vt_oracle_attention(vt_oracle *o, const float *x, int layer, float *mean);

/* Returns the loss of a kind that rises away from the true label (or the target set), or towards the goal: minus the
 * loss of its class, and for DLR the targeted one, DLR_T, from the label to the goal (eq. 7: eq. 6 is constant where
 * the goal's logit is the third). */
vt_loss vt_oracle_loss(const vt_oracle *o, vt_loss_kind kind);

/* Returns whether an attack whose reference ends at a broken point may end there. Exhaustive: when the image has been
 * broken in float32 inside the ball. Without a judge: when it is `broken` in the attack's own view, which is all there
 * is. Searching it may not: the oracle itself ends the image, when the point is good enough. */
bool vt_oracle_may_end(const vt_oracle *o, bool broken);

/* What an oracle has counted, and who answers its next call: NULL where an answer need not be a function of the pixels'
 * bits (vt_classifier.exact), and in 8 bits on a draft. */
typedef struct vt_oracle_counts {
    const vt_classifier *by;
    int64_t gradients, vanished, asked_again;
} vt_oracle_counts;
/* Returns o's counts so far, and by: who answers its next call (NULL: not exact, or a draft in 8 bits). */
vt_oracle_counts vt_oracle_counted(const vt_oracle *o);
/* Counts, `times` times, what gradients have counted since `then`, without computing it: they would be the same ones.
 * Fewer times if a draft stops answering before. Returns how often. */
int vt_oracle_repeat(vt_oracle *o, const vt_oracle_counts *then, int times);

/* ---- oracle_8bit.c: with eight_bit a query that would end the image is rounded to 8 bits first, and what ends the
 * image is the rounded point (attacks/grid8.h), by the same rule ---- */

/* Runs one counted forward at the grid point q [n] and judges it; *margin: above 0 it is misclassified. keep: a
 * gradient at the same point is likely to follow. */
vt_status vt_oracle_levels(vt_oracle *o, const uint8_t *q, bool keep, float *margin);

enum {
    VT_ROUNDING_DRAWS = 4,     /* roundings drawn */
    VT_ROUNDING_GRADIENTS = 30 /* of all climbs of one repair */
};
/* Ends an attack in 8 bits. If a float point is misclassified but its nearest rounding is not: other roundings are
 * tried (away from the clean image, and random ones), and attacks that may see gradients climb from grid point to grid
 * point. All of it counts as the attack's own work; VT_STOP as every query. In the end x_adv [n], the attack's last
 * iterate, is a grid point: the best one met, unless searching its own rounding. attack: its key. */
vt_status vt_search_rounding(vt_oracle *o, const vt_rng *attack, float *x_adv);
/* Returns the most forwards that vt_search_rounding asks for on an image of n values; gradients: it may climb, and asks
 * for at most VT_ROUNDING_GRADIENTS of them too. */
int vt_rounding_forwards(size_t n, bool gradients);

/* ---- between the oracle's files ---- */

/* Returns whether none of v [n] is NaN or infinite. */
bool vt_all_finite(const float *v, int n);
/* Sets o->own to the answer at x, not counted and not judged; z [K] may be NULL. keep: a gradient at the same point is
 * likely to follow. */
vt_status vt_oracle_forward(vt_oracle *o, const float *x, float *z, bool keep);
/* Keeps x, which is misclassified and lies in the threat, if its margin is the largest so far; searching, VT_STOP if
 * the double copy confirms it. */
vt_status vt_oracle_keep(vt_oracle *o, const float *x, float margin);
/* Rounds x, which is misclassified in the float ball, and queries that if x is the best so far. o->own is another
 * point's afterwards, and nothing is kept. */
vt_status vt_oracle_try_rounded(vt_oracle *o, const float *x, float margin);
/* Ends the image: no attack knows its way from here. */
vt_status vt_oracle_fail_not_finite(vt_oracle *o, const float *x);
