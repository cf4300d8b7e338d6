/* SPDX-License-Identifier: MIT */
/* Training of a universal patch: one picture that, pasted into any image at any place, changes its class (Brown et al.
 * 2017, "Adversarial Patch"). Each step ascends the mean margin (which no scale of the logits lets vanish; the paper:
 * cross-entropy) over images and places drawn for it (expectation over transformation; Athalye et al. 2018,
 * "Synthesizing Robust Adversarial Examples", section 2.1). Draws are functions of seed and step: the picture does not
 * depend on threads. */
#pragma once

#include "eval/options.h"

typedef struct vt_universal {
    /* Set by the caller: */
    const vt_eval_options *v; /* open: subject, images to train on, patch threat, seed, threads, progress, interrupt */
    int steps, draws;         /* draws: images of a step, each with places of its own */
    double rate;              /* by how much a value moves in the first step; falls by half a cosine */
    int target;               /* class to reach; -1: any but the image's own */
    /* By vt_universal_open: */
    vt_shape shape;                     /* of the picture */
    float *picture;                     /* values in [0,1]; at first uniform noise, k/255 */
    float *gradient, *momentum;         /* of the last step */
    double loss;                        /* its mean */
    struct vt_universal_worker *thread; /* [threads] */
    int threads, step;
} vt_universal;

/* Takes all memory. VT_E_USAGE: the model gives no gradients. Close it after a failure too. */
vt_status vt_universal_open(vt_universal *u, vt_err *e);
void vt_universal_close(vt_universal *u); /* accepts a zeroed one */

/* Computes u->loss and u->gradient, the mean over the draws of u->step, at u->picture. */
vt_status vt_universal_gradient(vt_universal *u, vt_err *e);
/* Runs all steps from u->picture; its values end as k/255. */
vt_status vt_universal_train(vt_universal *u, vt_err *e);

/* Evaluates attack universal with u->picture at one random place of each image [n], as vitrine eval does: *right images
 * are right, of which *fell become another class, or the target. */
vt_status vt_universal_score(const vt_universal *u, const int32_t *images, size_t n, int64_t *right, int64_t *fell,
                             vt_err *e);
