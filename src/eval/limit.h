/* SPDX-License-Identifier: MIT */
/* An evaluation with a limit of time (`--hours`): images are attacked in a random order, each to the end, so that at
 * any time those that are finished are a sample of all, and what the others hold is bounded. A pure function of the
 * lines: what is finished later has the bytes of a run without a limit. */
#pragma once

#include "eval/options.h"
#include "eval/result_index.h"

/* Runs a stage (entry 0: clean predictions) on the images of part [n] (NULL: all) that it takes and that have no line
 * yet, and notes its lines. */
typedef vt_status (*vt_stage_fn)(void *ctx, int entry, int stage, const bool *part, vt_err *e);
/* Runs all stages after the clean predictions: the first one on all images if, by the time it takes, that leaves half
 * of v->seconds, counted from `began` (vt_now); then all stages, image by image. VT_INTERRUPTED: the caller's flag
 * ended it. */
vt_status vt_limit_run(const vt_eval_options *v, const vt_result_index *b, double began, vt_stage_fn run, void *ctx,
                       vt_err *e);

/* What the attacks in the ball left out. `survivors` stood after the stages that took every image; the first `sampled`
 * of them, in the random order, went through all attacks, which broke `broken`; on all, with 95 % confidence, at most
 * `further` more would fall than have fallen. */
typedef struct vt_left_out {
    int64_t survivors, sampled, broken, further;
} vt_left_out;
/* Computes it from all lines. The bound is exact, whenever the evaluation stopped, also if that depends on what it
 * found: it is read at fixed sizes of the sample (vt_sample_size), at a level that they share. VT_E_MEMORY. */
vt_status vt_limit_left_out(vt_left_out *out, const vt_result_index *b, vt_err *e);
