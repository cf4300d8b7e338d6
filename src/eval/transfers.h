/* SPDX-License-Identifier: MIT */
/* Which broken points of finished runs break the models of others, judged by fresh forwards in float and double. */
#pragma once

#include "base/progress.h"
#include "eval/run_folder.h"
#include "eval/verify.h"

enum { VT_TRANSFERS_MOST = 16 };

/* Of the points of run i (they have an image and a label): right[i][k] have a clean image that the model of run k has
 * right, broken[i][k] of these it takes for another class than the label. */
typedef struct vt_transfers {
    int n, threads;
    vt_run_folder run[VT_TRANSFERS_MOST];
    int64_t points[VT_TRANSFERS_MOST], right[VT_TRANSFERS_MOST][VT_TRANSFERS_MOST],
        broken[VT_TRANSFERS_MOST][VT_TRANSFERS_MOST];
    vt_progress progress;
} vt_transfers;

/* Opens run number t->n of a zeroed t, with its model and data, and counts it. VT_E_USAGE: it is over other data than
 * the first, its model is of other images or classes, or is in another process. t is to be closed after a failure too.
 */
vt_status vt_transfers_add(vt_transfers *t, const char *dir, vt_err *e);
/* Fills the counts, with t->threads threads. */
vt_status vt_transfers_judge(vt_transfers *t, vt_err *e);
void vt_transfers_close(vt_transfers *t); /* accepts a zeroed one */
