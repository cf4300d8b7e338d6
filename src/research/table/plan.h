/* SPDX-License-Identifier: MIT */
/* From a manifest to its cells: every training and every evaluation that the table needs, what determines each (its
 * key, whose hash is its folder's name), what is there already, what it will cost, and the command that makes it. */
#pragma once

#include <jansson.h>
#include "eval/ledger.h"
#include "data/dataset.h"
#include "research/table/cache.h"
#include "research/table/manifest.h"

#define VT_SPECTRUM_CSV "sigma.csv" /* in a cell's folder */
enum { VT_TIME_FIRST = 2 };         /* steps that are not timed: they prepare products and fill caches */

typedef struct vt_plan_cell {
    bool train, spectrum;
    int row, data, attack; /* attack -1: of a training */
    uint64_t seed;
    int model;       /* the training whose weights an evaluation takes, -1: the row's checkpoint */
    json_t *key;     /* NULL while something is not there */
    char hash[65];   /* of key, or "" */
    char lacks[500]; /* what is not there: "data CIFAR-10: cifar-10-batches-bin does not exist"; "": nothing */
    char *recipe;    /* of a training, and of what times its steps: canonical text */
    int64_t timed;   /* steps; 0: no timing */
    vt_cell_state state;
    bool chosen;  /* by only, only_data, only_column and shard */
    double tflop; /* at most; NAN: cannot be known without its checkpoint */
    double disk;  /* bytes, about */
} vt_plan_cell;

/* Images of a cell. */
typedef struct vt_plan_images {
    const char *text; /* as in the manifest; NULL: the whole split */
    int64_t n;        /* 0: not known */
    int64_t first;    /* they are first, first + 1, ...; -1: they are listed */
    char key[80];     /* "0:200", "all", or the list's hash */
} vt_plan_images;

typedef struct vt_plan_data {
    char *path;                 /* after --data NAME=PATH */
    vt_dataset *images, *train; /* the split that is evaluated; the one that is trained on. NULL: not there */
    vt_plan_images *of;         /* [m->n_attacks] of a column's cells */
} vt_plan_data;

typedef struct vt_plan {
    const vt_manifest *m;
    const char *out;         /* NULL: none */
    vt_plan_data *data;      /* [m->n_data] */
    struct vt_model **inits; /* [m->n_rows] checkpoints that rows start from, as far as their shape was needed */
    vt_plan_cell *cells;
    int n;
} vt_plan;

typedef struct vt_plan_ask {
    const char *out;
    const char *const *paths; /* "NAME=PATH" of data, [n_paths] */
    int n_paths;
    const char *const *only; /* rows, [n_only]; 0: all */
    int n_only;
    const char *const *only_data, *const *only_column; /* data sets, attacks; 0: all */
    int n_only_data, n_only_column;
    int shard, shards; /* 1 to shards; 0: everything. Cells that share a training stay together */
} vt_plan_ask;

/* Makes the cells, trainings before their evaluations, and sets hash, state, cost and choice of each. Reads recipes,
 * data and the cache; writes nothing. VT_E_USAGE, VT_E_MEMORY or the failure of a file; call vt_plan_free also then. */
vt_status vt_plan_make(vt_plan *p, const vt_manifest *m, const vt_plan_ask *ask, vt_err *e);
/* Frees all and zeroes it. */
void vt_plan_free(vt_plan *p);
/* The evaluation, timing or spectrum of a place in the table and a seed; NULL: there is none. */
const vt_plan_cell *vt_plan_find(const vt_plan *p, int row, int data, int attack, uint64_t seed);
/* Whether a cell must be run now: chosen and not done. A training is needed only by an evaluation that is. */
bool vt_plan_needs(const vt_plan *p, int cell);
/* How many needed cells lack what this one lacks, if it is the first of them; else 0. */
int vt_plan_lacking(const vt_plan *p, int cell);
/* VT_E_USAGE if a needed cell lacks something; the sentence lists all that is missing. */
vt_status vt_plan_ready(const vt_plan *p, vt_err *e);
/* VT_E_USAGE if the caches [n], with the plan's own, still lack cells of the manifest's primary comparisons: the
 * table would hold a mean over other seeds than were fixed beforehand. */
vt_status vt_plan_primary_in(const vt_plan *p, const char *const *dirs, int n, vt_err *e);
/* VT_E_FORMAT for a ledger of other weights, data, images [n], seed, norm, eps or attack than the cell, or of more
 * than the cell has: a wrapped model. c->key is not NULL. */
vt_status vt_plan_answers(const vt_plan *p, const vt_plan_cell *c, const vt_ledger *l, const int32_t *images, size_t n,
                          vt_err *e);
/* The words of the command that makes a cell, "eval", ..., NULL; vt_plan_command_free frees them. NULL: no memory. */
char **vt_plan_command(const vt_plan *p, int cell, int threads);
/* Frees the words and their list; accepts NULL. */
void vt_plan_command_free(char **words);
/* out: what a cell does, "evaluate SpecFormer, CIFAR-10, AutoAttack, seed 0"; or train, time, measure. */
void vt_plan_name(const vt_plan *p, int cell, char *out, size_t size);

/* ---- for plan*.c ---- */
/* Sets c->key and hash by what determines the cell, but for the machine; c->recipe of what is trained; tflop and disk
 * if they can be known. A missing file: no key, c->lacks names it, VT_OK. VT_E_USAGE for the recipe, norm or attack. */
vt_status vt_plan_key(const vt_plan *p, vt_plan_cell *c, vt_err *e);
/* Sets the canonical recipe, the work (TFLOP) and disk (bytes) of a training or timing; the costs stay as they are if
 * the data's shape is unknown. VT_E_USAGE names row and data. */
vt_status vt_plan_recipe(const vt_plan *p, vt_plan_cell *c, vt_err *e);
/* Sets an evaluation's work (TFLOP at most) and disk (bytes), unless the model's shape is unknown. Never fails. */
vt_status vt_plan_evaluation(const vt_plan *p, vt_plan_cell *c, vt_err *e);
/* The file of its training's folder that an evaluation takes: the last or the best model. */
const char *vt_plan_weights(const vt_plan *p, const vt_plan_cell *c);

/* ---- what a table takes from a finished cell (spectra.c, times.c) ---- */
/* Sets *sigma to the largest singular value of the heads of W_Q, W_K or W_V ("q", "k", "v"; a head is the rows that
 * make its outputs), as a mean over the layers: what SpecFormer's penalty lowers (Hu et al. 2024, eq. 12). VT_E_FORMAT:
 * the finished cell does not hold it. */
vt_status vt_spectra_read(const vt_plan *p, const vt_plan_cell *c, const char *which, double *sigma, vt_err *e);
/* Quartiles of the seconds of c->timed steps after the first VT_TIME_FIRST, by the log. VT_E_FORMAT: it has fewer. */
vt_status vt_times_read(const vt_plan *p, const vt_plan_cell *c, double quartiles[3], vt_err *e);
