/* SPDX-License-Identifier: MIT */
/* A fixed set of images that training watches: clean and robust accuracy after every epoch. */
#pragma once

#include "parallel/team.h"
#include "data/dataset.h"
#include "train/inner.h"

typedef struct vt_validation {
    const vt_recipe *r;
    const vt_model *m;
    const vt_dataset *data;
    int64_t count; /* images of data, spread evenly */
    int threads;
    vt_inner *inner;      /* [threads] */
    float *buffer;        /* [threads, 2 pixels + classes] */
    unsigned char *right; /* [2 count]: clean, robust */
    vt_team *team;        /* the ranks that share the images; NULL: this process alone */
    unsigned char *all;   /* [size, 2 count] of ranks */
} vt_validation;

/* Returns how many images recipe r watches: at most probe.images, of the training split at most a tenth. */
int64_t vt_validation_count(const vt_recipe *r, const vt_dataset *d);
/* Returns the index of watched image k = 0, 1, ...: they are spread evenly over the split of `count` images, since
 * folders are sorted by class. */
int64_t vt_validation_image(int64_t k, int64_t watched, int64_t count);
/* Returns the index in the split of image number i of those that are not watched (`watched` of `count` are). */
int64_t vt_unwatched_image(int64_t i, int64_t watched, int64_t count);
/* Opens `threads` attackers for the watched images of d (NULL: none). To be closed also after a failure. */
vt_status vt_validation_open(vt_validation *w, const vt_recipe *r, const vt_model *m, const vt_dataset *d, int threads,
                             vt_team *team, vt_err *e);
/* Frees all that w holds; accepts a zeroed one. */
void vt_validation_close(vt_validation *w);
/* Classifies the watched images, clean and attacked: shares in [0,1]; *robust is -1 when the recipe names no radius. Of
 * ranks, collective; agrees. */
vt_status vt_validation_run(vt_validation *w, double *clean, double *robust, vt_err *e);
/* Tells whether there is catastrophic overfitting of single-step training (Wong et al. 2020): since the epoch before,
 * accuracy on training's own adversarial examples rose, while that under the watch's attack is below half of the best
 * it had (of at least 5 %), by more than three standard errors of a share of that many images. */
bool vt_validation_collapsed(double single, double single_before, double robust, double robust_best, int64_t images);
/* Returns the bytes that watching will take with that many threads. */
size_t vt_validation_bytes(const vt_recipe *r, const vt_model *m, int threads);
