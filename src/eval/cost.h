/* SPDX-License-Identifier: MIT */
/* What computing takes: forwards and gradients of a model on this machine, measured; an evaluation at most, before it
 * begins; and, while it runs, the time that is left. Estimates change no result. */
#pragma once

#include <stdio.h>
#include "eval/options.h"

/* Seconds of processor time of one image's forward, gradient (a forward and a backward) and verdict (a forward in float
 * and one in double), on each of `threads` threads while all of them are at work: medians over about a third of a
 * second. What is computed from matrix products instead (gradient_cost in the header) leaves out caches and everything
 * that is not a product. */
typedef struct vt_seconds {
    double forward, gradient, verdict;
} vt_seconds;
/* Measures them on this machine, all threads at work; m: a network of this process. A forward that fails fails it;
 * VT_E_MEMORY. *s is zeros then. */
vt_status vt_measure_seconds(vt_seconds *s, const vt_model *m, int threads, vt_err *e);
/* Estimates the hours that `flops` floating-point operations of a model's forwards and backwards take here on all
 * threads, by vt_measure_seconds, whose failures it has. */
vt_status vt_measure_hours(double *hours, const vt_model *m, double flops, int threads, vt_err *e);
/* Writes hours in the unit that suits, as "3.2 h", "4.1 min" or "12 s"; returns buf. */
const char *vt_hours_text(char buf[32], double hours);

/* Returns the most memory that this process has held, in MB. */
double vt_resident_mb(void);
/* Returns the most that it will have held, in MB, once it takes `more` beside what it holds now. */
double vt_forecast_mb(double more);
/* Estimates what a run takes beside what it allocates, in MB: compiled kernels and buffers of oneDNN and OpenBLAS. */
double vt_libraries_mb(const vt_model *m, int threads);

/* Returns the calls of an evaluation or curve, at most: as if every image were right and stood to the end of every
 * entry, and fell before each 8-bit one. Clean predictions count, verdicts do not. */
vt_passes vt_cost_passes(const vt_eval_options *v);
/* The self-test that follows, in forwards, of which a gradient takes the header's gradient_cost: its parts, and what it
 * does beside them if it is in doubt. */
typedef struct vt_cost_selftest {
    double parts, doubt;
} vt_cost_selftest;
/* Prints work, time here and memory of an evaluation or curve that is ready, at most (vt_cost_passes), with the
 * self-test that follows (NULL: none does). Sets v's batch and threads by vt_eval_fit; fails as vt_measure_seconds
 * does. */
vt_status vt_cost_print(FILE *f, vt_eval_options *v, const vt_cost_selftest *test, vt_err *e);

/* The time that is left: what images have cost so far in forwards, how fast that went, what is still to be done. */
typedef struct vt_eta {
    const vt_eval_options *v;
    double ratio; /* forwards that a gradient costs, by products */
    double began, work;
    double standing, falling; /* forwards behind this stage: of an image that it leaves, of one that it breaks */
    double stage_work;        /* done of this stage, in this run */
    size_t stage_done;
} vt_eta;

/* Begins the estimate of the time left of an evaluation, which must outlive it. The clock runs from here. */
void vt_eta_begin(vt_eta *o, const vt_eval_options *v);
/* Counts images as of this stage from here on (VT_ENTRY_CLEAN: clean predictions). */
void vt_eta_stage(vt_eta *o, int entry, int stage);
/* Counts one more image, which took so many passes; `done` of the `total` images of the stage have a line, `robust` of
 * them stand. Returns the seconds that the run will still take. */
double vt_eta_image(vt_eta *o, int64_t forwards, int64_t gradients, size_t done, size_t total, size_t robust);
