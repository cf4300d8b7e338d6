/* SPDX-License-Identifier: MIT */
/* Resizing by the rules of Resize and Upsample: op_resize.c. */
#pragma once

#include "graph/import.h"

typedef enum vt_resize_mode { VT_RESIZE_NEAREST, VT_RESIZE_LINEAR, VT_RESIZE_CUBIC } vt_resize_mode;

typedef struct vt_resize {
    vt_resize_mode mode;
    vt_dims to;
    double scale[VT_RANK], begin[VT_RANK], end[VT_RANK]; /* begin, end: of the region that tf_crop_and_resize takes */
    const char *place;                                   /* coordinate_transformation_mode */
    const char *nearest;                                 /* nearest_mode */
    double cubic, outside;                               /* cubic_coeff_a; what is beyond the input */
    bool antialias, exclude_outside;
} vt_resize;

/* Emits x resized by r, side after side: products with constant matrices, or (nearest) a move. VT_E_FORMAT. */
vt_status vt_emit_resize(vt_import *im, int x, const vt_resize *r, int *y, vt_err *e);
