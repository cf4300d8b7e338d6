/* SPDX-License-Identifier: MIT */
/* Figures and diagnostics of checkpoints: `vitrine analyze KIND WEIGHTS...`. A kind is one file analyze_X.c with a
 * vt_analysis_def; it prints tables to a stream that it is handed and fills a JSON object with the same numbers. Random
 * numbers are keyed by the seed (base/rand), images are shared out over threads and put together in their order: what a
 * kind writes never depends on threads. */
#pragma once

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "attacks/attack.h"
#include "base/chart.h"
#include "base/columns.h"
#include "base/json.h"
#include "base/opt.h"
#include "base/progress.h"
#include "base/status.h"
#include "data/dataset.h"
#include "models/model.h"
#include "attacks/attacker.h"

enum { VT_ANALYZE_MOST = 15 }; /* checkpoints side by side */

/* A checkpoint, and the images as it sees them (labels are its classes). */
typedef struct vt_analyzed {
    const char *path;
    vt_model *model;
    vt_dataset *data; /* NULL: the kind looks at weights alone */
} vt_analyzed;

typedef struct vt_analyze {
    vt_analyzed subjects[VT_ANALYZE_MOST];
    int n;
    int32_t *images; /* the same for all checkpoints */
    size_t n_images;
    const vt_attack *attack; /* or NULL: no attack */
    vt_norm norm;
    double eps;
    const char *eps_text;
    uint64_t seed;
    int threads;
    const volatile sig_atomic_t *interrupt; /* or NULL */
    vt_progress *progress;                  /* or NULL */
    /* Keeps a matrix of numbers [rows, cols] as name.npy; NULL: arrays are not kept. */
    vt_status (*array)(void *ctx, const char *name, const double *values, size_t rows, size_t cols, vt_err *e);
    void *array_ctx;
    /* Keeps a figure as name.svg; NULL: figures are not kept. */
    vt_status (*picture)(void *ctx, const char *name, const char *svg, vt_err *e);
    void *picture_ctx;
} vt_analyze;

/* What a kind reads. */
enum {
    VT_WANTS_IMAGES = 1,    /* --data and --images */
    VT_TAKES_ATTACK = 2,    /* --attack and --eps, if they are given */
    VT_WANTS_ATTACK = 6,    /* they must be */
    VT_WANTS_ATTENTION = 8, /* architectures whose blocks show their attention (analysis/layers.h) */
};

typedef struct vt_analysis_def {
    const char *name, *summary;
    const char *source; /* papers and theorems */
    unsigned wants;
    const vt_opt *opts; /* each is also a flag of the command: --key value; a BOOL one takes no value */
    size_t params_size;
    /* Whether options and what was given go together. NULL: always. */
    vt_status (*check)(const vt_analyze *a, const void *params, vt_err *e);
    /* Bytes of memory that it takes beyond models and sessions, of one checkpoint. NULL: little. */
    size_t (*bytes)(const vt_analyze *a, const vt_analyzed *s, const void *params);
    vt_status (*run)(const vt_analyze *a, const void *params, FILE *out, json_t *json, vt_err *e);
} vt_analysis_def;

/* Returns all kinds of analysis, in the registry's order; *n: how many. Static memory. */
const vt_analysis_def *const *vt_analysis_defs(int *n);
/* Sets *out to the kind of that name; VT_E_UNKNOWN with the nearest or all known names if there is none. */
vt_status vt_analysis_find(const vt_analysis_def **out, const char *name, vt_err *e);

/* Checks needs and memory, runs, and puts the whole document of a run into *doc, the caller's also after a failure (or
 * NULL): kind, source, options, weights, data, attack and results. params: of params_size. */
vt_status vt_analyze_run(const vt_analysis_def *def, const void *params, const vt_analyze *a, FILE *out, json_t **doc,
                         vt_err *e);

/* ---- for kinds ---- */

/* Stores value (stolen) as what was found of a checkpoint, under its letter; VT_E_MEMORY when value is NULL. */
vt_status vt_analyze_put(json_t *results, int subject, json_t *value, vt_err *e);
/* JSON array of n numbers by vt_json_real; the caller owns it. */
json_t *vt_analyze_reals(const double *x, int n);
/* Draws a figure by `draw` and data and hands it to a->picture as name.svg; does nothing if that is NULL. Its title
 * is vt_analyze_caption's: `what` and the checkpoint `subject`, or all of them for -1. */
vt_status vt_analyze_figure(const vt_analyze *a, const char *name, const char *what, int subject, vt_figure_draw *draw,
                            const void *data, vt_err *e);
/* Writes "what: A weights/x, B weights/y", of checkpoint `subject` alone, or of all for -1; cut to size. A path
 * beyond 48 characters keeps its last 45 after "...", and a single checkpoint has no letter. */
void vt_analyze_caption(char *out, size_t size, const vt_analyze *a, const char *what, int subject);
/* Prints an empty line and the checkpoint's first line: its letter if there are several, path, architecture. */
void vt_analyze_title(FILE *out, const vt_analyze *a, int subject);
/* x in at most 10 characters, about five digits, scientific below 0.001 and from 1e6; "-" for NaN. */
void vt_analyze_number(double x, char out[16]);
/* Adds x as a cell of a table, written as by vt_analyze_number. */
void vt_analyze_cell(vt_columns *t, double x);

/* ---- one thread's tools to look at a checkpoint on images: a double session, and a float classifier that attacks ----
 */

struct vt_session_f64;

typedef struct vt_analysis_worker {
    const vt_analyze *a;
    const vt_analyzed *s;
    size_t pixels;
    vt_shape shape;
    int classes;
    struct vt_session_f64 *session; /* of one image, gradients of the input */
    vt_classifier model;
    vt_oracle oracle;
    vt_attacker attacker;
    float *x, *z;        /* [pixels], [classes] */
    double *x64, *adv64; /* the image and the attacked one, as the session takes them */
    double *z64;         /* [classes] */
    int32_t image;
    int label;
    bool attacked, broken; /* attacker.x_adv: of the attack, whose point the float network gets wrong */
} vt_analysis_worker;

/* Returns the bytes of one thread's worker: its session, classifier, attacker and buffers. */
size_t vt_analysis_worker_bytes(const vt_analyze *a, const vt_analyzed *s);

/* Is called for image i of a->images, read and (with a->attack) attacked; i counts from 0. */
typedef vt_status (*vt_analysis_image_fn)(void *ctx, vt_analysis_worker *b, size_t i, vt_err *e);
/* Calls fn for all images of one checkpoint, on a->threads threads, in any order: fn writes only to places of image
 * i. Stops at the first failure and returns it. */
vt_status vt_analysis_images(const vt_analyze *a, const vt_analyzed *s, vt_analysis_image_fn fn, void *ctx, vt_err *e);

/* Sets *distance to that of the nearest point that the minimum-norm attack `stage` finds for the worker's image, in
 * norm; INFINITY: none. Overwrites attacker.x_adv. VT_E_RANGE if the stage needs more scratch than a worker has. */
vt_status vt_analysis_worker_nearest(vt_analysis_worker *b, const vt_attack_stage *stage, vt_norm norm,
                                     double *distance, vt_err *e);
