/* SPDX-License-Identifier: MIT */
/* What published numbers say about themselves: laws that cells of one table must obey, recomputed from the cells. Pure
 * functions; every finding names its cells, for footnotes. */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include "research/table/published.h"

typedef struct vt_oddity {
    const char *check; /* its law (docs/tables.md): "autoattack" */
    bool note;         /* worth knowing, no contradiction */
    char text[500];    /* one sentence */
    int *cells;        /* [n] indices of the file's cells that it is about, ascending; may be none */
    int n;
} vt_oddity;

typedef struct vt_oddities {
    vt_oddity *items;
    int n;
} vt_oddities;

/* Fills f, whose caller frees it, with what contradicts the laws of the file's unit. claims: what the paper's text
 * says of the averages (columns tables, method, training, attack, points), or of gains over the plain row (table,
 * dataset, metric, gain), or NULL. VT_E_MEMORY leaves f empty. */
vt_status vt_published_check(vt_oddities *f, const vt_published *p, const vt_published *claims, vt_err *e);
/* Frees all findings; accepts zeroed ones. */
void vt_oddities_free(vt_oddities *f);
/* Whether the finding is about this cell. */
bool vt_oddity_has(const vt_oddity *f, int cell);

/* Prints the table of this name, or all for NULL: a block for each table, training and backbone, its columns data set
 * and attack; below them every finding, numbered; a cell carries the numbers of those that name it. VT_E_USAGE if
 * there is no such table. */
vt_status vt_published_show(FILE *out, const vt_published *p, const vt_oddities *f, const char *table, vt_err *e);

/* ---- what the checks share ---- */

/* Number [n] of each cell's group: cells that agree in `keys` (ends at NULL), or in all keys except these; *count:
 * how many groups. The caller frees it. NULL: no memory. */
int *vt_published_group(const vt_published *p, const char *const *keys, bool except, int *count);
/* Appends a finding without text and cells, valid until the next one is added. NULL: no memory. */
vt_oddity *vt_oddity_add(vt_oddities *f, const char *check, bool note);
/* Adds a cell to a finding's list, in order. False: no memory. */
bool vt_oddity_cell(vt_oddity *f, int cell);
/* Returns buf: cell i's values of keys, the empty ones left out: "Table 4, adversarial, ViT-S". */
const char *vt_published_place(const vt_published *p, int i, const char *const *keys, char *buf, size_t size);

/* VT_E_USAGE for a claim of which the published numbers have no column. */
vt_status vt_claims_known(const vt_published *p, const vt_published *claims, vt_err *e);
/* Adds findings on the text's mean leads and on "best among all". False: no memory. */
bool vt_check_claims(vt_oddities *f, const vt_published *p, const vt_published *claims);
/* Adds findings on sweeps of penalties (lambda_q, lambda_k, lambda_v) against the main tables. False: no memory. */
bool vt_check_sweep(vt_oddities *f, const vt_published *p);
/* Adds a finding if a method's time factor is larger under adversarial training. A penalty is computed once for each
 * step, whatever the step's attack: relative to a longer step it weighs less. False: no memory. */
bool vt_check_times(vt_oddities *f, const vt_published *p);
/* Adds findings on variants below the plain row and on gains that claims (or NULL) state. False: no memory. */
bool vt_check_scores(vt_oddities *f, const vt_published *p, const vt_published *claims);
/* Adds a finding for each network on the sum of its tensors against the printed total. False: no memory. */
bool vt_check_parameters(vt_oddities *f, const vt_published *p);
/* Adds a finding for each method that errs more than one before it: such a file lists its methods from the worst to
 * the best, as the text ranks them. False: no memory. */
bool vt_check_errors(vt_oddities *f, const vt_published *p);
