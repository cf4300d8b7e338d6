/* SPDX-License-Identifier: MIT */
/* From the gradient of a step to new weights: norm, clipping, each tensor's optimiser, averaged weights. Elementwise
 * work is cut into pieces of fixed size, matrices of an optimiser of matrices stay whole, and threads share the pieces;
 * sums are formed in the order of pieces. */
#pragma once

#include "models/model.h"
#include "train/batch.h"
#include "train/optim.h"
#include "train/recipe.h"

typedef struct vt_piece {
    int param;
    size_t offset, n; /* into the block of all parameters */
} vt_piece;

typedef struct vt_tensor_rule {
    const vt_optim_def_f32 *def;
    const void *params;
    double weight_decay, lr_scale;
    int rows, cols; /* 0: the optimiser's step is elementwise */
    size_t at;      /* byte offset of its state */
} vt_tensor_rule;

typedef struct vt_update {
    vt_model *m;
    int threads;
    double ema_decay;
    vt_piece *pieces;
    int n_pieces;
    vt_tensor_rule *rules; /* [params.count] */
    char *state_before;    /* as it was before the step under way */
    char *state;           /* slot 0 of a tensor, then slot 1; tensors in order */
    size_t state_bytes;
    float *ema;    /* [params.total] averaged weights, or NULL */
    float *before; /* [params.total] weights before the step under way */
    float *work;   /* [threads, work_len] of optimisers of matrices */
    size_t work_len;
    double *part; /* [n_pieces] sums of squares; 0 or NaN: are the new weights finite? */
} vt_update;

/* Allocates and starts the optimisers' state of all tensors of m by recipe r. To be closed also after a failure. */
vt_status vt_update_open(vt_update *u, vt_model *m, const vt_recipe *r, int threads, vt_err *e);
/* Frees all that u holds; accepts a zeroed one. */
void vt_update_close(vt_update *u);
/* Returns the state of tensor `param` in slot 0, 1, ..., floats or (vt_optim_def.wide) doubles. */
void *vt_update_slot(const vt_update *u, int param, int slot);
/* Returns the L2 norm of grad [params.total], in double. */
double vt_update_norm(vt_update *u, const float *grad);
/* Takes step t = 1, 2, ...; grad is scaled by `factor` first (clipping), in place. Weights and their transposes are
 * renewed. false: a new weight was not finite; weights and the optimiser's state are as before. */
bool vt_update_step(vt_update *u, float *grad, double factor, double lr, int64_t t);
/* Renews what the model keeps of its weights (transposes), by u's threads. */
void vt_update_refresh(vt_update *u);
/* Puts the averaged weights in the place of the model's (called again: back); nothing without ema. */
void vt_update_swap_ema(vt_update *u);
/* Returns the bytes that an update takes. */
size_t vt_update_bytes(const vt_model *m, const vt_recipe *r, int threads);
/* Returns how many tensors are all zero now under an optimiser that never leaves zero; *first: the first one's name. */
int vt_update_stuck(const vt_update *u, const char **first);

/* ---- adversarial weight perturbation ----
 * (Wu et al. 2020, "Adversarial weight perturbation helps robust generalization", algorithm 1): the gradient of a step
 * is taken at weights that have gone up the loss, on the same adversarial images. As in the authors' code each "weight"
 * of two sides or more moves, by gamma ||w|| g / (||g|| + 1e-20). */

/* Returns whether the perturbation is on at this share in [0,1] of the training. */
bool vt_awp_active(const vt_recipe *r, double share);
/* Replaces, after vt_batch_gradient and of the same step, b->grad by the gradient at the perturbed weights; u's weights
 * are as before when it returns. b->sums stay those of the weights themselves. */
vt_status vt_awp_gradient(vt_batch *b, vt_update *u, vt_err *e);
