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

/* Number of images that recipe r watches: at most probe.images, of the training split at most a tenth. They are spread
 * evenly over the split, since folders are sorted by class: number k of `watched` is image vt_validation_image. */
int64_t vt_validation_count(const vt_recipe *r, const vt_dataset *d);
int64_t vt_validation_image(int64_t k, int64_t watched, int64_t count);
/* Image of the split that is number i of those that are not watched (watched of count are). */
int64_t vt_unwatched_image(int64_t i, int64_t watched, int64_t count);
vt_status vt_validation_open(vt_validation *w, const vt_recipe *r, const vt_model *m, const vt_dataset *d, int threads,
                             vt_team *team, vt_err *e);
void vt_validation_close(vt_validation *w);
/* Shares in [0,1]; *robust is -1 when the recipe names no radius. Of ranks, collective; agrees. */
vt_status vt_validation_run(vt_validation *w, double *clean, double *robust, vt_err *e);
/* Catastrophic overfitting of single-step training (Wong et al. 2020): since the epoch before, accuracy on training's
 * own adversarial examples rose, while that under the watch's attack is below half of the best it had (of at least
 * 5 %), by more than three standard errors of a share of that many images. */
bool vt_validation_collapsed(double single, double single_before, double robust, double robust_best, int64_t images);
size_t vt_validation_bytes(const vt_recipe *r, const vt_model *m, int threads);
