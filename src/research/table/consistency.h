/* SPDX-License-Identifier: MIT */
/* What published numbers say about themselves: laws that cells of one table must obey, recomputed from the cells. Pure
 * functions; every finding names its cells, so that whoever shows one can add the footnote. */
#pragma once

#include "research/table/published.h"
#include <stddef.h>

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

/* claims: what the paper's text says of the averages (columns tables, method, training, attack, points), or of
 * gains over the plain row (table, dataset, metric, gain), or NULL. */
vt_status vt_published_check(vt_oddities *f, const vt_published *p, const vt_published *claims, vt_err *e);
void vt_oddities_free(vt_oddities *f);
/* Is the cell one of the finding's? */
bool vt_oddity_has(const vt_oddity *f, int cell);

/* ---- what the checks share ---- */

/* Number [n] of each cell's group: cells that agree in `keys` (ends at NULL), or in all keys except these. NULL: no
 * memory. */
int *vt_published_group(const vt_published *p, const char *const *keys, bool except, int *count);
vt_oddity *vt_oddity_add(vt_oddities *f, const char *check, bool note); /* NULL: no memory */
bool vt_oddity_cell(vt_oddity *f, int cell);
/* "Table 4, adversarial, ViT-S" */
const char *vt_published_place(const vt_published *p, int i, const char *const *keys, char *buf, size_t size);

/* Each adds its findings; false: no memory. */
bool vt_check_claims(vt_oddities *f, const vt_published *p, const vt_published *claims);
bool vt_check_sweep(vt_oddities *f, const vt_published *p);
bool vt_check_times(vt_oddities *f, const vt_published *p);
bool vt_check_scores(vt_oddities *f, const vt_published *p, const vt_published *claims);
bool vt_check_parameters(vt_oddities *f, const vt_published *p);
bool vt_check_errors(vt_oddities *f, const vt_published *p);
