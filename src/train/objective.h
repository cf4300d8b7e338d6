/* SPDX-License-Identifier: MIT */
/* What training minimises, as a function of one image's logits. An objective is a file objective_*.c, compiled for
 * float and for double. Its options are recipe keys below its own name ("trades.beta"). */
#pragma once

#include <math.h>
#include <stdbool.h>
#include "base/opt.h"
#include "base/real.h"
#include "models/net/session.h"

/* What the inner attack maximises: nothing (no attack), the cross entropy against the image's (mixed) label, or the
 * divergence from the prediction at the clean image (TRADES). */
typedef enum vt_inner_goal { VT_INNER_NONE, VT_INNER_LABEL, VT_INNER_PREDICTION } vt_inner_goal;

/* Sums over images; right: the arg-max is that of the target. */
typedef struct vt_step_sums {
    double loss, ortho; /* objective; ||A^T A - I||^2 over heads and blocks */
    int64_t images, right_adv, clean_images, right_clean;
} vt_step_sums;

/* log sum_k exp(z_k), so that log p_k = z_k - this; in double for both precisions: differences of probabilities near 0
 * and 1 cancel in float. */
static inline double VT_R(vt_logsumexp)(const real *z, int classes) {
    double top = (double)z[0], sum = 0;
    for (int k = 1; k < classes; k++) top = (double)z[k] > top ? (double)z[k] : top;
    for (int k = 0; k < classes; k++) sum += exp((double)z[k] - top);
    return top + log(sum);
}

typedef struct VT_R(vt_objective_def) {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts; /* ends at key NULL; or NULL */
    vt_inner_goal inner;
    bool needs_clean;   /* reads the logits at the clean image too; with INNER_NONE these are all there is */
    bool bounds;        /* z_adv: upper bounds of z_k - z_y over the box of attack.eps (models/net/bounds.h) */
    bool hard_labels;   /* defined for one label an image: no mixing, no smoothing */
    double start_sigma; /* standard deviation of the inner attack's normal start; 0: the attack's own start */
    const char *attack; /* default of the recipe's attack.spec; NULL: no attack */
    /* One image. z_clean, z_adv [K] logits (those not needed: NULL); target [K] label distribution. Returns the loss;
     * dz_clean, dz_adv [K] are overwritten with its gradient (NULL where the logits are NULL). The batch's objective is
     * the mean over images. */
    real (*eval)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv, const float *target, int classes,
                 const void *params);
} VT_R(vt_objective_def);

/* An eval: the cross entropy at the adversarial image alone. */
real VT_R(vt_objective_adversarial)(real *dz_clean, real *dz_adv, const real *z_clean, const real *z_adv,
                                    const float *target, int classes, const void *params);

/* Returns all objectives [*n], in the order of their files. */
const VT_R(vt_objective_def) *const *VT_R(vt_objective_defs)(int *n);
const VT_R(vt_objective_def) *VT_R(vt_objective_find)(const char *name); /* NULL: unknown */

/* Images in the session for `images` of an objective: it sees each once or, clean and adversarial, twice. */
static inline int VT_R(vt_views)(const VT_R(vt_objective_def) *o) {
    return o->needs_clean && o->inner != VT_INNER_NONE ? 2 : 1;
}

/* Whether the objective reads a second row of logits: of the attacked image, or bounds. */
static inline bool VT_R(vt_reads_worst)(const VT_R(vt_objective_def) *o) {
    return o->inner != VT_INNER_NONE || o->bounds;
}

/* One micro-batch. x [views * images, 3, h, w]: the clean ones, then the adversarial ones (either alone when one view
 * is enough); target [images, K]; dz [2 * images, K] scratch. An objective of bounds reads those of s->bounds. grad
 * [params.total] accumulates scale times the gradient of the sum of the images' losses; *sums is overwritten. s:
 * capacity views * images, mode VT_GRAD_PARAMS. */
void VT_R(vt_micro_gradient)(real *grad, vt_step_sums *sums, VT_R(vt_session) *s, const VT_R(vt_objective_def) *o,
                             const void *params, const real *x, const float *target, int images, double scale,
                             real *dz);
