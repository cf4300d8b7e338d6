/* SPDX-License-Identifier: MIT */
/* A table as numbers: what the finished cells say, beside the published ones. A pure function of plan and ledgers. */
#pragma once

#include "base/stats.h"
#include "research/table/consistency.h"
#include "research/table/mean.h"
#include "research/table/plan.h"

typedef enum vt_cell_kind { VT_CELL_ACCURACY, VT_CELL_TIME, VT_CELL_SIGMA } vt_cell_kind;

typedef struct vt_table_cell {
    bool wanted;       /* the manifest has such a cell */
    vt_cell_kind kind; /* percent; a factor; a largest singular value */
    int seeds;         /* of the row: arrays below are by their number */
    int asked, done;   /* seeds that the column wants; those that are there */
    int64_t total;     /* images, the same for each seed */
    double mean;       /* over the seeds that are there; NAN: none is */
    /* 95 %. Of an accuracy: Wilson's, of the mean share on these images (which images were drawn). Of a singular
     * value: Student's, over the seeds (NAN: of one seed) */
    double low, high;
    double least, most; /* over the seeds: how training varies */
    int published;      /* index in the published file, -1: none */
    double difference;  /* mean - published; NAN */
    /* steps, if times are meant: mean is the median over rounds, one a seed, of a factor (of median times, to the same
     * round of the group's first row), low and high that of the steps' quartiles, least and most are of the rounds */
    int64_t timed;
    double (*seconds)[3]; /* [seeds] of a timed step: first quartile, median, third; NaN: not there */
    double *value;        /* [seeds] percent right, or the singular value; NaN: not there */
    bool best;            /* significantly better than every other row of its column */
    int32_t *images;      /* [total] numbers, ascending, the same for each seed */
    /* [seeds] by seed: right under the attack, one byte an image; NULL: not there */
    uint8_t **right;
} vt_table_cell;

/* How much more is right under row A than under row B. Two common seeds or more: the unit is the seed (a training,
 * drawn anew), the interval Student's over the differences of the seeds. One, none (then the first seed of each), or
 * two checkpoints: these two networks, the unit is the image, the interval Tango's and the test McNemar's. */
typedef struct vt_difference {
    int seeds;             /* compared; 0: nothing could be */
    int64_t images;        /* of each */
    int64_t for_it, other; /* answers that are right under A alone, under B alone, over all seeds */
    double points;         /* A - B, percent points */
    double low, high, p;   /* 95 %; two-sided */
    /* against a frontier: seeds whose A lies outside of the frontier's range, where its last line goes on */
    int outside;
} vt_difference;

typedef enum vt_table_verdict {
    VT_TABLE_UNDECIDED,
    VT_TABLE_HELD,
    VT_TABLE_CONTRADICTED,
    VT_TABLE_SMALLER,   /* undecided, but the interval ends below the published difference */
    VT_TABLE_WITHIN,    /* undecided, and the interval holds a published difference of comparable size */
    VT_TABLE_UNTESTED,  /* a penalty did nothing, or a calibration is none */
    VT_TABLE_IDENTICAL, /* no answer differs */
    VT_TABLE_ABSENT,    /* cells are not there */
    VT_TABLE_VERDICTS
} vt_table_verdict;
/* "held", "smaller than published", ... */
const char *vt_table_verdict_name(vt_table_verdict v);

/* Differences that the paper has between two methods: one a backbone, all else being the same. */
typedef struct vt_published_range {
    int n;
    double least, most;
} vt_published_range;

/* A above B, as the paper or the manifest has it. */
typedef struct vt_table_ordering {
    const vt_manifest_primary *primary; /* NULL: secondary, or the manifest has no primary family */
    int above, below, data, attack;     /* below: of a frontier its last row */
    bool published;                     /* from the published numbers */
    double gap;                         /* published points; NAN */
    vt_published_range all, comparable; /* of all backbones; of those that the manifest names */
    vt_difference d;
    double adjusted; /* d.p by Holm over its family; of a secondary one d.p itself */
    bool corrected;  /* adjusted is by Holm */
    vt_table_verdict verdict;
    bool smaller; /* the interval ends below what is published, whatever the verdict: all of comparable size, if any */
    bool within;  /* the interval holds a published difference of comparable size */
    const char *untested; /* why it is not tested; NULL: it is */
} vt_table_ordering;

typedef struct vt_table {
    const vt_plan *plan;
    const vt_manifest *m;
    vt_published *published; /* NULL: none */
    vt_oddities odd;
    vt_table_cell *cells; /* [n_rows, n_data, n_attacks] */
    vt_table_ordering *orderings;
    int n_orderings;
    int wanted, done;               /* evaluations */
    char kernels[200], version[40]; /* of the ledgers; "several" */
} vt_table;

#define VT_TABLE_ALPHA 0.05

/* Fails if the manifest's published numbers or claims, if it names any, cannot be read, or `comparable` names no
 * backbone of them (VT_E_USAGE); to be called before anything runs. */
vt_status vt_table_check_published(const vt_manifest *m, vt_err *e);
/* Reads all finished cells, decides the orderings. VT_E_MEMORY, VT_E_FORMAT; then too call vt_table_free. */
vt_status vt_table_make(vt_table *t, const vt_plan *p, vt_err *e);
/* Frees all and zeroes it; the plan stays the caller's. */
void vt_table_free(vt_table *t);
/* The cell of a row, data set and column, by index. */
vt_table_cell *vt_table_at(const vt_table *t, int row, int data, int attack);
/* Index of a place's published number; -1: none. Keys that the manifest does not set must be empty there. */
int vt_table_published(const vt_published *p, const vt_manifest *m, int row, int data, int attack);

/* ---- for result.c, orderings.c, difference.c, grounds.c ---- */

/* Row a minus row b in one column; seeds is 0 if nothing can be compared. */
vt_difference vt_table_difference(const vt_table *t, int a, int b, int data, int attack);
/* Whether row a and all of rows [n] are checkpoints: networks that no seed draws anew, so that one seed is enough. */
bool vt_table_fixed(const vt_table *t, int a, const int *rows, int n);
/* A point of a frontier: percent right in column `at`, and in the column that is compared. */
typedef struct vt_table_point {
    double x, y;
} vt_table_point;
/* Value at x of the lines through the points [n], n >= 2, sorted by x here; the end lines go on beyond them by as much
 * as the points span, NaN from there on, and where they span nothing. */
double vt_table_on_lines(vt_table_point *p, int n, double x);
/* Row A minus the value, at A's own accuracy in column `at`, of the lines that join the frontier's rows [n] of the
 * same seed (vt_table_on_lines). Seeds that lack a cell, or that the lines do not reach, are left out. */
vt_difference vt_table_frontier(const vt_table *t, int a, const int *rows, int n, int data, int attack, int at);
/* Of a calibration: the grid's best value, and whether it is a maximum inside the grid; name NULL: cells are missing.
 */
typedef struct vt_best {
    const char *name;
    double value;
    bool inner;
} vt_best;
/* The best of a calibration's grid; name NULL, value NaN: cells are missing. */
vt_best vt_table_best(const vt_table *t, int calibration);
/* buf: the k-th sentence on penalties that did nothing and on calibrations; false past the end. */
bool vt_table_ground(const vt_table *t, int k, char *buf, size_t size);
/* Why an ordering tests nothing, two or three words; NULL: it does. */
const char *vt_table_untested(const vt_table *t, const vt_table_ordering *o);
/* Sets all, comparable and within of a published ordering whose two cells have published numbers, else nothing; needs
 * o->d. */
void vt_table_ranges(const vt_table *t, vt_table_ordering *o);
/* Whether two rows are compared: the same group, or none. */
bool vt_table_same_group(const vt_manifest *m, int a, int b);
/* Marks the best of each group, makes the orderings, decides them: sets t->orderings and the cells' best. VT_E_MEMORY,
 * VT_E_USAGE. */
vt_status vt_table_decide(vt_table *t, vt_err *e);
