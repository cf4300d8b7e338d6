/* SPDX-License-Identifier: MIT */
/* Optimisers: a file optim_*.c each, compiled for float and for double. A step is elementwise, so that a tensor may be
 * cut into pieces and the pieces done by several threads, or of whole matrices. Options are recipe keys below the
 * optimiser's name
 * ("sgd.momentum"). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/opt.h"
#include "base/real.h"

#define VT_OPTIM_SLOTS 2

typedef struct VT_R(vt_optim_def) {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts;
    int slots;                             /* numbers of state for each weight, at most VT_OPTIM_SLOTS */
    const char *slot_name[VT_OPTIM_SLOTS]; /* in checkpoints: "exp_avg" */
    bool wide;                             /* state is double in both precisions */
    /* Would weights that are zero stay (numerically) zero? NULL: no. */
    bool (*keeps_zero)(const void *params);
    /* Fills the state for weights w; NULL: zeros. state[i] [n] is real, or double when wide. */
    void (*start)(void *const *state, const real *w, size_t n, const void *params);
    /* Of an optimiser of matrices, instead of step: w, g, state [rows, cols]; work [work_len] is scratch. Tensors that
     * are no matrices of a block (vectors, embeddings, heads) are left to the optimiser named `others`. */
    const char *others;
    bool (*everywhere)(const void *params); /* does it take embeddings and heads too? NULL: no */
    size_t (*work_len)(int rows, int cols);
    void (*step_matrix)(real *w, void *const *state, const real *g, int rows, int cols, const void *params, double lr,
                        double weight_decay, real *work);
    /* w -= ..., in place; g [n] the gradient (already clipped); weight_decay of this tensor; t = 1, 2, ... counts
     * steps. */
    void (*step)(real *w, void *const *state, const real *g, size_t n, const void *params, double lr,
                 double weight_decay, int64_t t);
} VT_R(vt_optim_def);

/* Returns all optimisers [*n], in the order of their files. */
const VT_R(vt_optim_def) *const *VT_R(vt_optim_defs)(int *n);
const VT_R(vt_optim_def) *VT_R(vt_optim_find)(const char *name); /* NULL: unknown */
