/* SPDX-License-Identifier: MIT */
/* Penalties on weights (or on attention probabilities), added to the objective once per step. A penalty is a file
 * penalty_*.c, compiled for float and for double; its options are recipe keys below its name ("msvp.lambda"). Several
 * may be active at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "base/opt.h"
#include "base/real.h"
#include "models/model.h"

typedef struct VT_R(vt_penalty_def) {
    const char *name, *summary, *reference;
    size_t params_size;
    const vt_opt *opts;
    bool (*active)(const void *params); /* false: nothing to do, no state */
    /* Does it fit the model (tensors there, widths)? NULL: always. */
    vt_status (*check)(const void *params, const vt_model *m, vt_err *e);
    size_t (*state_len)(const void *params, const vt_model *m); /* reals that live as long as the run; NULL: none */
    size_t (*work_len)(const void *params, const vt_model *m);  /* reals of scratch; NULL: none */
    /* First state for weights w [params.total]; draws are keyed by seed. NULL: zeros. */
    void (*start)(real *state, real *work, const real *w, const vt_model *m, const void *params, uint64_t seed);
    /* What threads share, before apply: parts 0, 1, ..., each from w, its own piece of the state and its own piece of
     * the scratch alone. NULL: apply does everything. */
    int (*parts)(const vt_model *m);
    void (*advance)(real *state, real *work, const real *w, const vt_model *m, const void *params, int part);
    /* Once per step, when all parts are done: advances the rest of the state, adds the gradient to grad [params.total]
     * (model layout) and returns the value. */
    double (*apply)(real *grad, real *state, real *work, const real *w, const vt_model *m, const void *params);
    /* Factor of L_AM, which the backward pass injects at the attention probabilities; NULL: 0. batch: images that
     * the model sees in a step (each twice when the objective has two views). */
    double (*attention)(const void *params, int batch);
} VT_R(vt_penalty_def);

/* Returns all penalties [*n], in the order of their files. */
const VT_R(vt_penalty_def) *const *VT_R(vt_penalty_defs)(int *n);
const VT_R(vt_penalty_def) *VT_R(vt_penalty_find)(const char *name); /* NULL: unknown */
