/* SPDX-License-Identifier: MIT */
/* Is a checkpoint read as it was made? Logits that its own program gave for some images settle it: the reading that
 * gives the same ones, to rounding, is the true one. */
#pragma once

#include "eval/doctor/doctor.h"

enum { VT_LOGITS_MOST = 64 }; /* images that are compared */

/* Arrays `x` [N,C,H,W] in [0,1] and `logits` [N,K] of one file: an .npz, or safetensors. */
typedef struct vt_saved_logits {
    int n, of; /* the first n of them are here */
    int classes;
    vt_shape shape; /* of one image */
    double *x, *z;
    bool precise; /* some logit is no float32 number: they were computed in double */
    double span;  /* largest minus smallest logit */
} vt_saved_logits;

/* Reads s, to be freed also after a failure, of a file. VT_E_USAGE: arrays that are missing, of other shapes, not
 * finite, out of range, or all equal. */
vt_status vt_saved_logits_read(vt_saved_logits *s, const char *path, vt_err *e);
void vt_saved_logits_free(vt_saved_logits *s); /* accepts a zeroed one */

typedef struct vt_logits_match {
    vt_setting setting;           /* the one that is equal, or the nearest */
    double difference, tolerance; /* of the logit that differs most */
    double present;               /* the same difference of the present setting */
    bool equal;
    int changes, tried; /* at once, in the setting above or at most; how many readings */
    bool all;           /* no budget ended the search */
    char also[300];     /* readings, one change away, that these logits do not tell from it: "A; B", or empty */
} vt_logits_match;

/* Compares the present setting, then those with one change, two, ..., until some are equal, into *out. Of d: model,
 * threads, aspects, progress, interrupt. The model's input is s->shape. VT_INTERRUPTED. */
vt_status vt_doctor_logits(vt_logits_match *out, vt_doctor *d, const vt_saved_logits *s, const vt_setting *present,
                           vt_err *e);
