/* SPDX-License-Identifier: MIT */
/* A table as numbers: what the finished cells say, beside the published ones. A pure function of plan and ledgers. */
#ifndef VT_TABLE_RESULT_H
#define VT_TABLE_RESULT_H

#include "eval/metrics.h"
#include "table/consistency.h"
#include "table/plan.h"

typedef struct vt_table_cell {
    bool wanted;        /* the manifest has such a cell */
    int seeds, done;    /* how many there are to be, and are */
    int64_t total;      /* images, the same for each seed */
    double mean;        /* percent, over the seeds that are there; NAN: none is */
    double low, high;   /* 95 % Wilson interval of the mean share on so many images: which images were drawn */
    double least, most; /* over the seeds: how training varies */
    int published;      /* index in the published file, -1: none */
    double difference;  /* mean - published; NAN */
    /* steps, if times are meant: mean is the median over rounds, one a seed, of a factor (of median times, to the same
     * round of the group's first row), low and high that of the steps' quartiles, least and most are of the rounds */
    int64_t timed;
    double (*seconds)[3]; /* [seeds] of a timed step: first quartile, median, third; NaN: not there */
    bool best;            /* significantly better than every other row of its column */
    int32_t *images;      /* [total] numbers, ascending, the same for each seed */
    /* [seeds] by seed: right under the attack, one byte an image; NULL: not there */
    uint8_t **right;
} vt_table_cell;

/* A above B, as the paper has it or the manifest asks. */
typedef struct vt_table_ordering {
    int above, below, data, attack;
    bool published;          /* from the published numbers */
    double gap;              /* published points; NAN */
    int64_t images;          /* tested on */
    int seeds;               /* that both have */
    int64_t for_it, against; /* images right in more seeds under `above`, under `below` */
    double p, adjusted;      /* two-sided, exact; by Holm over all orderings of the table */
    vt_claim_verdict verdict;
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

vt_status vt_table_make(vt_table *t, const vt_plan *p, vt_err *e);
void vt_table_free(vt_table *t);
vt_table_cell *vt_table_at(const vt_table *t, int row, int data, int attack);
/* Published number of a place in the table; -1: none. A key of the file that nobody names must be empty there. */
int vt_table_published(const vt_published *p, const vt_manifest *m, int row, int data, int attack);

/* Paired test of two cells: images right in more seeds (of those that both have) under the one than under the other,
 * an exact sign test; with one seed it is McNemar's. Cells over other images have no seed in common. */
vt_mcnemar vt_table_test(const vt_table_cell *a, const uint64_t *seeds_a, int n_a, const vt_table_cell *b,
                         const uint64_t *seeds_b, int n_b, int64_t *more_a, int64_t *more_b, int *seeds);

#endif
