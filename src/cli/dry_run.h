/* SPDX-License-Identifier: MIT */
/* --dry-run: what a command would cost here, without doing it. */
#ifndef VT_CLI_DRY_RUN_H
#define VT_CLI_DRY_RUN_H

#include "eval/args.h"
#include "eval/cost_estimate.h"

#define VT_DRY_RUN_ARG                                                                                                 \
    { "dry-run", NULL, "print work, hours here and memory; run and write nothing", VT_OF_RUN }

/* The most memory that this process has held, in MB. */
double vt_resident_mb(void);
/* Compiled kernels and buffers of oneDNN and OpenBLAS: what a run takes beside what it asks for. */
double vt_libraries_mb(const vt_model *m, int threads);
/* Hours that so many floating-point operations of a model's forwards and backwards take here on all threads, by the
 * rate that one image's reach. */
vt_status vt_cli_hours(double *hours, const vt_model *m, double flops, int threads, vt_err *e);
/* Work, time and memory of an evaluation or curve whose model and data are open. */
vt_status vt_dry_run(vt_eval_options *v, vt_err *e);

#endif
