/* SPDX-License-Identifier: MIT */
/* Adversarial weight perturbation (Wu et al. 2020, "Adversarial weight perturbation helps robust generalization",
 * algorithm 1): the gradient of a step is taken at weights that have gone up the loss, each matrix by gamma of its
 * norm, on the same adversarial images. Which tensors move, and how far, is as in the authors' code: v = gamma ||w|| g
 * /
 * (||g|| + 1e-20) for every "weight" of two sides or more. */
#ifndef VT_TRAIN_AWP_H
#define VT_TRAIN_AWP_H

#include "train/batch.h"
#include "train/update.h"

/* Is it on at this share of the training? */
bool vt_awp_active(const vt_recipe *r, double share);
/* After vt_batch_gradient, of the same step: replaces b->grad by the gradient at the perturbed weights; u's weights are
 * as before when it returns. b->sums stay those of the weights themselves. */
vt_status vt_awp_gradient(vt_batch *b, vt_update *u, vt_err *e);

#endif
