/* SPDX-License-Identifier: MIT */
/* A training run under way: what the loop (train.c), the files of a run (state.c) and the log (log.c) share. */
#pragma once

#include <stdio.h>
#include "train/batch.h"
#include "train/train.h"
#include "train/update.h"
#include "train/validation.h"

#define VT_MAX_PENALTIES 16
#define VT_MAX_FAULTS 3 /* steps with a loss or gradient that is not finite which a run survives */

typedef struct vt_active_penalty {
    char key[48]; /* "penalty_msvp", in logs and states */
    const vt_penalty_def_f32 *def;
    const vt_model *m;
    const void *params;
    float *state, *work;
    size_t state_len;
    double last, sum; /* value at the last step; over the steps of the epoch so far */
} vt_active_penalty;

/* Numbers that a checkpoint carries besides tensors. Sums are over the steps of the epoch so far. */
// clang-format off
#define VT_RUN_NUMBERS(X) \
    X(loss) X(ortho) X(images) X(right_adv) X(clean_images) X(right_clean) X(steps) X(lr_scale) X(faults) X(taken) X(best) X(best_epoch) X(last_single) X(best_watch) X(overfit)
// clang-format on

typedef struct vt_run_numbers {
#define VT_RUN_FIELD(name) double name;
    VT_RUN_NUMBERS(VT_RUN_FIELD)
#undef VT_RUN_FIELD
} vt_run_numbers;

typedef struct vt_run {
    const vt_train *t;
    const vt_recipe *r;
    vt_model *m;
    char *text; /* canonical recipe */
    vt_batch batch;
    vt_update update;
    vt_validation watch;
    vt_active_penalty penalties[VT_MAX_PENALTIES];
    int n_penalties;
    int64_t per_epoch, steps; /* steps of an epoch, of the run */
    int64_t step;             /* done so far */
    bool sound;               /* the last step was taken: a checkpoint now is one to go on from */
    vt_run_numbers n;
    char kernels_before[128]; /* of the matrix products, when the state was written; "": unknown */
    bool resumed;             /* there was a state to go on from */
    vt_sampler sampler;
    char data_hash[65]; /* of all its images */
    FILE *log;
    double saved_at, shown_at, began;
    int64_t began_step;
} vt_run;

/* Writes state.safetensors: everything that a resumed run needs. */
vt_status vt_state_save(vt_run *run, vt_err *e);
/* Reads state.safetensors into the run and sets run->step; VT_E_USAGE: made with another recipe, other options or data.
 */
vt_status vt_state_load(vt_run *run, vt_err *e);
/* Refuses, among several ranks, any whose recipe, images, options, version or product kernels are not rank 0's; then
 * all have rank 0's state. Agrees. */
vt_status vt_state_share(vt_run *run, vt_err *e);
/* Refuses, among several ranks, to continue if weights are no longer the same bits on all (two machines whose
 * arithmetic differs). Agrees. */
vt_status vt_state_compare(vt_run *run, vt_err *e);
/* Sets *there to whether there is a state to go on from. A folder that may not be written to is refused: one that holds
 * a run when run->t does not resume, or without its state, one that holds weights of other origin, one with links
 * where files are to be written. */
vt_status vt_state_exists(const vt_run *run, bool *there, vt_err *e);
/* Writes NAME for others to load: averaged weights when there are any, recipe in the metadata. */
vt_status vt_state_export(vt_run *run, const char *name, vt_err *e);

/* Opens log.jsonl, without the lines that lie after run->step; locked, so that a run has one writer. Without it (ranks
 * above 0) no line is written. */
vt_status vt_log_open(vt_run *run, vt_err *e);
/* Writes the line of the step just done: its mean loss, learning rate, gradient norm and seconds. */
vt_status vt_log_step(vt_run *run, double lr, double norm, double seconds, vt_err *e);
/* Writes the line of an epoch's end; accuracies in [0,1], below 0: not measured. */
vt_status vt_log_epoch(vt_run *run, int epoch, double lr, double clean, double robust, double seconds, vt_err *e);
/* Writes an event in words, part of step `step` (1, ...): {"event": kind, "step": ..., "text": ...}. */
vt_status vt_log_event(vt_run *run, const char *kind, int64_t step, const char *text, vt_err *e);
/* Makes the log durable (fsync). */
vt_status vt_log_sync(vt_run *run, vt_err *e);
