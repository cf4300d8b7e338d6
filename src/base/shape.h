/* SPDX-License-Identifier: MIT */
/* How an image lies in memory: planes of rows, [channels, height, width]. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Limits of the images that models may take; an image has VT_SHAPE_VALUES values at most. */
#define VT_SHAPE_CHANNELS 64
#define VT_SHAPE_SIDE 4096
#define VT_SHAPE_VALUES (1 << 26)

typedef struct vt_shape {
    int channels, height, width;
} vt_shape;

/* For sentences: "3 x 32 x 32". */
#define VT_CHW "%d x %d x %d"
#define VT_CHW_OF(s) (s).channels, (s).height, (s).width

/* Returns the shape of a square RGB image, which vitrine's own networks take. */
static inline vt_shape vt_shape_rgb(int side) { return (vt_shape){3, side, side}; }
/* Returns the side of a square image of three channels; 0: it is none. */
static inline int vt_shape_side(vt_shape s) { return s.channels == 3 && s.height == s.width ? s.height : 0; }
/* Returns the pixels of one channel. */
static inline size_t vt_shape_plane(vt_shape s) { return (size_t)s.height * (size_t)s.width; }
/* Returns the values of an image, all channels. */
static inline size_t vt_shape_values(vt_shape s) { return (size_t)s.channels * vt_shape_plane(s); }
/* Returns whether two shapes are equal. */
static inline bool vt_shape_same(vt_shape a, vt_shape b) {
    return a.channels == b.channels && a.height == b.height && a.width == b.width;
}
