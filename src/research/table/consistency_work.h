/* SPDX-License-Identifier: MIT */
/* What the files of consistency share. */
#pragma once

#include <stddef.h>
#include "research/table/consistency.h"

/* Number [n] of each cell's group: cells that agree in `keys` (ends at NULL), or in all keys except these. NULL: no
 * memory. */
int *vt_published_group(const vt_published *p, const char *const *keys, bool except, int *count);
vt_oddity *vt_oddity_add(vt_oddities *f, const char *check, bool note); /* NULL: no memory */
bool vt_oddity_cell(vt_oddity *f, int cell);
/* "Table 4, adversarial, ViT-S" */
const char *vt_place(const vt_published *p, int i, const char *const *keys, char *buf, size_t size);

/* Each adds its findings; false: no memory. */
bool vt_check_claims(vt_oddities *f, const vt_published *p, const vt_published *claims);
bool vt_check_sweep(vt_oddities *f, const vt_published *p);
bool vt_check_times(vt_oddities *f, const vt_published *p);
bool vt_check_scores(vt_oddities *f, const vt_published *p, const vt_published *claims);
bool vt_check_parameters(vt_oddities *f, const vt_published *p);
bool vt_check_errors(vt_oddities *f, const vt_published *p);
