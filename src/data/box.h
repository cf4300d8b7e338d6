/* SPDX-License-Identifier: MIT */
/* A threat with a lower and an upper bound for every value of an image: the tensors lo and hi of a file (safetensors,
 * .npz), both [C,H,W], the same for all images, or [N,C,H,W], each for its own. Image numbers may stand beside them as
 * beside adversarial images (data/adv_file.h); without them box k is image k's. Values count as float32. */
#pragma once

#include "data/adv_file.h"

typedef struct vt_box {
    const char *path;   /* as given: it is not copied; NULL: no box */
    char sha256[65];    /* of the file */
    vt_adv_file lo, hi; /* [N,C,H,W]; N 1 without numbers: for all images */
} vt_box;

/* Opens a file of boxes. VT_E_USAGE: it lacks lo or hi, or they are of different shapes. Close it after a failure too.
 */
vt_status vt_box_open(vt_box *b, const char *path, vt_err *e);
void vt_box_close(vt_box *b); /* accepts a zeroed one */
/* Refuses (VT_E_USAGE) boxes that are not of a model's input; mean, std as in vt_adv_file_fit. */
vt_status vt_box_fit(vt_box *b, vt_shape want, const double mean[3], const double std[3], vt_err *e);

/* Reads an image's bounds lo, hi [values of the shape]. VT_E_USAGE: the file has none for it. */
vt_status vt_box_read(const vt_box *b, int64_t image, float *lo, float *hi, vt_err *e);
/* Reads them, and refuses (VT_E_USAGE, with value and limit) what is not 0 <= lo <= hi <= 1 everywhere, and an image x
 * [values of the shape] outside of them. */
vt_status vt_box_check(const vt_box *b, int64_t image, const float *x, float *lo, float *hi, vt_err *e);
