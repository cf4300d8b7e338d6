/* SPDX-License-Identifier: MIT */
/* Runs what a plan needs, in its order, a few cells at a time. How a command is run is the caller's: this room starts
 * no process. Nothing that a cell holds depends on order, jobs, threads or ranks. */
#pragma once

#include <signal.h>
#include "parallel/team.h"
#include "research/table/plan.h"

typedef struct vt_runner {
    void *ctx;
    /* Begins the command words (of vitrine, "eval", ...); its output goes to the end of the file `log`. *id: for wait.
     */
    vt_status (*start)(void *ctx, char *const *words, const char *log, long *id, vt_err *e);
    /* Until any of them has ended: *code 0, or another for a failure. */
    vt_status (*wait)(void *ctx, long *id, int *code, vt_err *e);
    void (*say)(void *ctx, const char *text); /* "3 of 24: train ..."; NULL: silent */
    const volatile sig_atomic_t *interrupt;
    /* Ranks with the same plan, which take cells as they get free; all must see one cache. NULL: this process alone. */
    vt_team *team;
} vt_runner;

/* Runs the needed cells, `jobs` at a time, which share the threads. VT_INTERRUPTED: stopped on request; what has
 * begun can be resumed. A cell that fails ends the run with the last line of its log. With ranks: refuses plans that
 * differ and caches that are not one folder; all return the same status. */
vt_status vt_schedule(vt_plan *p, const vt_runner *r, int jobs, int threads, vt_err *e);
