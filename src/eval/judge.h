/* SPDX-License-Identifier: MIT */
/* One thread's tools to judge points that are stored already: a classifier, the clean image, a point. */
#ifndef VT_EVAL_JUDGE_H
#define VT_EVAL_JUDGE_H

#include "eval/verify.h"
#include "io/dataset.h"
#include "models/wrap/wrap.h"

typedef struct vt_judge {
    vt_classifier model;
    const vt_dataset *data;
    int side;
    float *x, *x_adv, *z; /* [pixels], [pixels], [classes] */
    double *z64;          /* [classes] */
} vt_judge;

/* m, w and d must outlive it; w (NULL: none) stands around m as it did when the points were found; of a restricted data
 * set only the outputs of its classes are seen. */
vt_status vt_judge_open(vt_judge *j, const vt_model *m, const vt_wrap *w, const vt_dataset *d, vt_err *e);
void vt_judge_close(vt_judge *j); /* accepts a zeroed one */

/* j->x = an image of the data, as an evaluation sees it. */
vt_status vt_judge_image(vt_judge *j, int64_t image, int *label, vt_err *e);

#endif
