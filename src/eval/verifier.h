/* SPDX-License-Identifier: MIT */
/* One thread's tools to judge points that are stored already: a classifier, the clean image, a point. */
#pragma once

#include "eval/subject.h"
#include "eval/verify.h"

typedef struct vt_verifier {
    vt_classifier model;
    const vt_subject *subject;
    vt_shape shape;
    float *x, *x_adv, *z; /* [pixels], [pixels], [classes] */
    double *z64;          /* [classes] */
} vt_verifier;

/* s must outlive it: judged is what stood there when the points were found. */
vt_status vt_verifier_open(vt_verifier *j, const vt_subject *s, vt_err *e);
void vt_verifier_close(vt_verifier *j); /* accepts a zeroed one */

/* j->x = an image of the data, as an evaluation sees it. */
vt_status vt_verifier_image(vt_verifier *j, int64_t image, int *label, vt_err *e);
