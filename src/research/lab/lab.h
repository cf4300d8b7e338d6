/* SPDX-License-Identifier: MIT */
/* Experiments of the papers behind vitrine, which take seconds to minutes: `vitrine lab NAME`. A lab is one file
 * lab_X.c with a vt_lab_def; it prints tables to a stream that it is handed, fills a JSON object with the same numbers,
 * and states, claim by claim, what its paper claims and what was found here. Random numbers are keyed by the seed
 * (base/rand), sums are formed in order: what a lab writes never depends on threads. */
#pragma once

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/chart.h"
#include "base/columns.h"
#include "base/opt.h"
#include "base/progress.h"
#include "base/status.h"
#include "parallel/threads.h"

typedef enum vt_finding {
    VT_SUPPORTED,    /* what was measured here agrees with the claim */
    VT_WEAKENED,     /* it holds, but by less or for less than the paper claims */
    VT_CONTRADICTED, /* it does not hold here */
    VT_NOT_TESTED,   /* this run was too small, or had no means, to say */
    VT_FINDING_COUNT
} vt_finding;

typedef struct vt_lab {
    uint64_t seed;
    int threads;
    const volatile sig_atomic_t *interrupt; /* or NULL */
    FILE *out;                              /* tables, in the order in which they are ready; no times */
    json_t *json;                           /* the lab's own results, an object: deterministic values only */
    json_t *claims;                         /* filled by vt_lab_claim */
    const char *dir;                        /* --out, which exists; NULL: terminal only */
    vt_progress progress;
    /* Keeps a figure as DIR/name.svg; NULL: figures are not kept. */
    vt_status (*picture)(void *ctx, const char *name, const char *svg, vt_err *e);
    void *picture_ctx;
} vt_lab;

typedef struct vt_lab_def {
    const char *name, *summary;
    const char *source; /* the paper */
    const vt_opt *opts; /* each is also a flag of the command: --key value; a BOOL one takes no value */
    size_t params_size;
    vt_status (*run)(const void *params, vt_lab *lab, vt_err *e);
} vt_lab_def;

/* Returns all labs, in the registry's order; *n: how many. Static memory. */
const vt_lab_def *const *vt_lab_defs(int *n);
/* Sets *out to the lab of that name; VT_E_UNKNOWN with the nearest or all known names if there is none. */
vt_status vt_lab_find(const vt_lab_def **out, const char *name, vt_err *e);

/* Runs a lab and makes *doc, which the caller owns also after a failure: lab, source, seed, options, results and
 * claims. The lab's tables go to lab->out, and at their end the verdict. params: of params_size. */
vt_status vt_lab_run(const vt_lab_def *def, const void *params, vt_lab *lab, json_t **doc, vt_err *e);

/* ---- for labs ---- */

/* Adds a claim with finding and evidence (printf, up to 499 bytes) to verdict and lab.json; VT_E_MEMORY. */
vt_status vt_lab_claim(vt_lab *lab, vt_finding f, const char *claim, vt_err *e, const char *evidence, ...)
    __attribute__((format(printf, 5, 6)));
/* VT_INTERRUPTED with its sentence if the user asked to stop; to be called between pieces of work. */
vt_status vt_lab_alive(const vt_lab *lab, vt_err *e);
/* Calls fn(ctx, thread, i) for i in [0, n) on the lab's threads and counts each in the progress, in order, under
 * `stage` (NULL: the caller has begun one). Fails as vt_for_each. */
vt_status vt_lab_for_each(vt_lab *lab, const char *stage, size_t n, vt_item_fn fn, void *ctx, vt_err *e);
/* The finding of a claim that holds in `good` of `all` cases: weakened if only in some, not tested if all is 0. */
vt_finding vt_lab_by_count(int good, int all);
/* JSON array of n numbers; NaN and infinite ones are null. NULL: no memory. */
json_t *vt_lab_numbers(const double *x, size_t n);
/* Draws a figure by `draw` and data and hands it to lab->picture as name.svg; does nothing if that is NULL. */
vt_status vt_lab_figure(vt_lab *lab, const char *name, const char *title, vt_figure_draw *draw, const void *data,
                        vt_err *e);
/* Stores value (stolen) under key; VT_E_MEMORY if value is NULL. For results: vt_lab_put(lab->json, "x", ...). */
vt_status vt_lab_put(json_t *object, const char *key, json_t *value, vt_err *e);
