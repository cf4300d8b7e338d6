/* SPDX-License-Identifier: MIT */
/* Parameters of a Conv node, whose inputs are x, weights, then bias (-1: none) and a scale of each channel of the
 * result, which come from the fusion. */
#pragma once

#include "graph/windows.h"
#include "nn/convolve.h"

enum { VT_CONV_SCALE = 3 };

typedef struct vt_conv {
    vt_windows w;
    int64_t groups, out; /* out: channels of the result, of all groups */
    bool plain;          /* windows are the input as it is */
    bool last;           /* input and result have their channels last: [1, sides, C] */
    vt_convolution shape;
    const float *packed; /* the float copy's weights, scale and all, in the order of nn/convolve; NULL: by windows */
} vt_conv;
