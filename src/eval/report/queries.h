/* SPDX-License-Identifier: MIT */
/* Success of black-box attacks over queries: how many forwards of the model each broken image took, from the ledger's
 * counts. An attack ends at the query that breaks the image, unless the run is exhaustive or a curve: those have none.
 */
#pragma once

#include "base/chart.h"
#include "eval/ledger.h"

/* One entry of the run, all of whose stages see the model through logits or decisions alone. */
typedef struct vt_queries {
    char label[72];
    int64_t tried, broken;
    int64_t *at; /* [broken] queries until each broken image fell, over the entry's stages; ascending */
} vt_queries;

/* Makes *out [*n], the run's black-box entries with an image; free it also after a failure. VT_E_MEMORY alone. */
vt_status vt_queries_make(vt_queries **out, int *n, const vt_ledger *l, vt_err *e);
void vt_queries_free(vt_queries *q, int n);
/* Writes attack,queries,broken,tried,percent: a line for each number of queries at which images fall. */
void vt_queries_csv(FILE *f, const vt_queries *q, int n);
/* Sets marks [most] for vt_chart_lines, evenly chosen if there are more; the labels are q's. Returns how many. */
size_t vt_queries_marks(vt_mark *marks, size_t most, const vt_queries *q, int n);
