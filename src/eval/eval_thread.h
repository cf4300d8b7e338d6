/* SPDX-License-Identifier: MIT */
/* What one thread attacks with: as many workers as images are attacked at a time, and the pool in which they wait for
 * the model together. */
#pragma once

#include "eval/options.h"

/* What attacks one image at a time: a classifier, an oracle and buffers. Made once, used for every image. */
typedef struct vt_worker {
    vt_classifier model, surrogate, draft;
    vt_oracle oracle;
    vt_attacker attacker;
    vt_inside inside; /* of the model, where an attack climbs it */
    vt_grid8 grid;    /* of 8-bit entries, where there are any */
    float *x, *z;     /* [pixels], [classes] */
    double *z64;      /* [classes] */
} vt_worker;

typedef struct vt_eval_thread {
    vt_fiber_pool *pool;
    vt_batcher *batchers[3]; /* the model; the surrogate, if there is one; the model as attacks search it, if apart */
    int n_batchers, batch;
    vt_worker *workers; /* [batch]: one for each fiber of the pool */
} vt_eval_thread;

/* For the evaluation v, which must outlive it. What failed is closed by vt_eval_thread_close too. */
vt_status vt_eval_thread_open(vt_eval_thread *c, const vt_eval_options *v, vt_err *e);
void vt_eval_thread_close(vt_eval_thread *c); /* accepts a zeroed one */
