/* SPDX-License-Identifier: MIT */
/* Resizing by the rules of Resize and Upsample: op_resize.c. */
#pragma once

#include "graph/import.h"

typedef enum vt_resize_mode { VT_RESIZE_NEAREST, VT_RESIZE_LINEAR, VT_RESIZE_CUBIC } vt_resize_mode;
/* coordinate_transformation_mode */
typedef enum vt_resize_place {
    VT_PLACE_HALF_PIXEL,
    VT_PLACE_ASYMMETRIC,
    VT_PLACE_CORNERS,
    VT_PLACE_PYTORCH,
    VT_PLACE_TF_NEAREST,
    VT_PLACE_CROP,
    VT_PLACE_SYMMETRIC
} vt_resize_place;
/* nearest_mode */
typedef enum vt_resize_round {
    VT_ROUND_DOWN_AT_HALF,
    VT_ROUND_UP_AT_HALF,
    VT_ROUND_FLOOR,
    VT_ROUND_CEIL
} vt_resize_round;

typedef struct vt_resize {
    vt_resize_mode mode;
    vt_dims to;
    double scale[VT_RANK], begin[VT_RANK], end[VT_RANK]; /* begin, end: of the region that tf_crop_and_resize takes */
    vt_resize_place place;
    vt_resize_round nearest;
    double cubic, outside; /* cubic_coeff_a; what is beyond the input */
    bool antialias, exclude_outside;
} vt_resize;

/* Emits x resized by r, side after side: products with constant matrices, or (nearest) a move. VT_E_FORMAT. */
vt_status vt_emit_resize(vt_import *im, int x, const vt_resize *r, int *y, vt_err *e);
