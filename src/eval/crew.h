/* SPDX-License-Identifier: MIT */
/* What one thread of an evaluation works with: as many workers as images are attacked at a time, and the lane in which
 * they wait for the model together. */
#ifndef VT_EVAL_CREW_H
#define VT_EVAL_CREW_H

#include "eval/evaluate.h"

/* What attacks one image at a time: a classifier, an oracle and buffers. Made once, used for every image. */
typedef struct vt_worker {
    vt_classifier model, surrogate;
    vt_oracle oracle;
    vt_attacker attacker;
    vt_grid8 grid; /* of 8-bit entries, where there are any */
    float *x, *z;
    double *z64;
} vt_worker;

/* One thread's: `batch` workers, which wait for the model together. */
typedef struct vt_crew {
    vt_lane *lane;
    vt_batcher *batchers[2]; /* the model; the surrogate, if there is one */
    int n_batchers;
    vt_worker *workers; /* [batch] */
} vt_crew;

/* c zeroed; *v must outlive it. What failed is closed by vt_crew_close too. */
vt_status vt_crew_open(vt_crew *c, const vt_eval *v, vt_err *e);
void vt_crew_close(vt_crew *c, int batch); /* accepts a zeroed one */

/* ---- what an evaluation asks for ---- */

vt_task vt_eval_dims(const vt_eval *v);                       /* sizes alone */
int vt_eval_batch(const vt_eval *v);                          /* images at a time, of one thread */
bool vt_eval_transfers(const vt_eval *v);                     /* does an attack of it need a surrogate? */
size_t vt_eval_work(const vt_eval *v, const vt_task *dims); /* floats of scratch that the hungriest stage needs */

#endif
