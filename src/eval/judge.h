/* SPDX-License-Identifier: MIT */
/* One thread's tools to judge points that are stored already: a classifier, the clean image, a point. */
#ifndef VT_EVAL_JUDGE_H
#define VT_EVAL_JUDGE_H

#include "eval/subject.h"
#include "eval/verify.h"

typedef struct vt_judge {
    vt_classifier model;
    const vt_subject *subject;
    int side;
    float *x, *x_adv, *z; /* [pixels], [pixels], [classes] */
    double *z64;          /* [classes] */
} vt_judge;

/* s must outlive it: judged is what stood there when the points were found. */
vt_status vt_judge_open(vt_judge *j, const vt_subject *s, vt_err *e);
void vt_judge_close(vt_judge *j); /* accepts a zeroed one */

/* j->x = an image of the data, as an evaluation sees it. */
vt_status vt_judge_image(vt_judge *j, int64_t image, int *label, vt_err *e);

#endif
