/* A fixed set of images that training watches: clean and robust accuracy after every epoch. */
#ifndef VT_TRAIN_WATCH_H
#define VT_TRAIN_WATCH_H

#include "io/dataset.h"
#include "train/inner.h"

typedef struct vt_watch {
    const vt_recipe *r;
    const vt_model *m;
    const vt_dataset *data;
    int64_t first, count; /* images [first, first + count) of data */
    int threads;
    vt_inner *inner;      /* [threads] */
    float *buffer;        /* [threads, 2 pixels + classes] */
    unsigned char *right; /* [2 count]: clean, robust */
} vt_watch;

/* Images that recipe r watches: the last of the split, at most probe.images, of the training split at most a tenth. */
int64_t vt_watch_count(const vt_recipe *r, const vt_dataset *d);
vt_status vt_watch_open(vt_watch *w, const vt_recipe *r, const vt_model *m, const vt_dataset *d, int threads,
                        vt_err *e);
void vt_watch_close(vt_watch *w);
/* Shares in [0,1]; *robust is -1 when the recipe names no radius. */
vt_status vt_watch_run(vt_watch *w, double *clean, double *robust, vt_err *e);
/* Catastrophic overfitting of single-step training (Wong et al. 2020): since the epoch before, accuracy on training's
 * own adversarial examples rose, while that under the watch's attack is below half of the best it had (of at least 5
 * %). */
bool vt_watch_collapsed(double single, double single_before, double robust, double robust_best);
size_t vt_watch_bytes(const vt_recipe *r, const vt_model *m, int threads);

#endif
