/* SPDX-License-Identifier: MIT */
/* Searches an input that meets a specification: projected gradient descent in the box, from its centre, corners and
 * random points, with steps in proportion to the box's sides (as Auto-PGD: momentum, halved steps). What float32 finds
 * counts when double agrees. */
#pragma once

#include <signal.h>
#include "spec/evaluator.h"
#include "spec/spec.h"

typedef struct vt_falsify_options {
    int steps;      /* of a run */
    int rounds;     /* 0: until the time is over */
    double seconds; /* 0: no limit */
    uint64_t seed;
    int threads;
    const volatile sig_atomic_t *interrupt; /* or NULL */
} vt_falsify_options;

/* A point and what is said of it. */
typedef struct vt_witness {
    double *x;                          /* [inputs] in the file's words: within the box exactly */
    double *y;                          /* [outputs] in float32, of x rounded to it */
    double *y_double;                   /* [outputs] */
    int at;                             /* the case that it meets, or comes nearest to */
    double outside;                     /* how far x leaves its box; 0: within */
    double violation, violation_double; /* vt_spec_violation of y and y_double: both <= 0 and outside 0: it is met */
} vt_witness;

typedef struct vt_falsify_result {
    bool sat;
    vt_witness witness; /* if sat */
    const char *from;   /* and where its run began: "the centre", "a corner", ... */
    int64_t run;        /* number of that run, from 1; else of all runs */
    int rounds;         /* begun */
    int64_t steps;      /* of all runs, in a search that found nothing */
    int64_t borderline; /* points that met a case in float32 and not in double */
    double *best;       /* [cases] the least violation in float32; INFINITY: the case was not reached */
    bool timed_out;
    double seconds;
} vt_falsify_result;

/* Searches for a witness of s, to *r, to be freed after VT_OK; random starts are keyed by seed, case, round and box.
 * Not found: VT_OK, r->sat false. VT_INTERRUPTED; VT_E_NUMERIC: a witness that is none again. */
vt_status vt_falsify(vt_falsify_result *r, const vt_spec *s, const vt_spec_network *n, const vt_falsify_options *o,
                     vt_err *e);
void vt_falsify_free(vt_falsify_result *r); /* accepts a zeroed one */

/* ---- a network and its specification, opened together ---- */

typedef struct vt_spec_pair {
    vt_spec *spec;
    vt_network *graph;
    vt_model *model;
    vt_spec_network network;
} vt_spec_pair;

/* Opens both; model: an ONNX file, .gz too, or a checkpoint, which o (may be NULL) is for; the paths outlive the pair.
 * VT_E_SHAPE: other numbers of inputs or outputs; VT_E_RANGE: a checkpoint's box leaves [0,1]. */
vt_status vt_spec_pair_open(vt_spec_pair *p, const char *model, const char *spec, const vt_overrides *o, vt_err *e);
void vt_spec_pair_close(vt_spec_pair *p);

/* ---- one point ---- */

/* Fills *w, to be freed after VT_OK, by x [inputs], which stays the caller's, and both precisions; w->at: the case to
 * which it comes nearest. */
vt_status vt_witness_judge(vt_witness *w, const vt_spec *s, const vt_spec_network *n, const double *x, vt_err *e);
/* Does the witness stay in the box and meet its case, each within the tolerance, in float32 and in double? */
static inline bool vt_witness_met(const vt_witness *w, double tolerance) {
    return w->outside <= tolerance && w->violation <= tolerance && w->violation_double <= tolerance;
}
void vt_witness_free(vt_witness *w);
/* Writes a witness as VNN-COMP's tools do, ((X_0 v) ... (Y_0 v)), complete or not at all; verdict: after "sat", or with
 * w NULL "unknown" alone. */
vt_status vt_witness_write(const char *path, bool verdict, const vt_spec *s, const vt_witness *w, vt_err *e);
/* Sets *x [inputs], the caller's to free, to X of such a file, which may be packed by gzip; Y is not read. VT_E_FORMAT
 * unless each is there once, finite. */
vt_status vt_witness_read(double **x, const char *path, int inputs, vt_err *e);
