/* SPDX-License-Identifier: MIT */
/* Resizing bytes with Pillow's bits (Image.resize, 8-bit RGB). Antialiased, as Pillow always is: when a side shrinks,
 * the filter is stretched by the same factor. Two passes, horizontal first, rounded to bytes between them; a pass whose
 * side keeps its length is left out. Pillow releases after 12.1 turn very tall pictures (height above 100 times the
 * width) vertically first; here the order is always the one of 9.4 (Debian 12) to 12.1. */
#ifndef VT_IO_RESIZE_H
#define VT_IO_RESIZE_H

#include "io/image.h"

/* Name and number as in Pillow (the numbers stand in Hugging Face's preprocessor_config.json as "resample"). */
#define VT_FILTER_LIST(X)                                                                                              \
    X(NEAREST, "nearest", 0)                                                                                           \
    X(LANCZOS, "lanczos", 1)                                                                                           \
    X(BILINEAR, "bilinear", 2)                                                                                         \
    X(BICUBIC, "bicubic", 3)                                                                                           \
    X(BOX, "box", 4)                                                                                                   \
    X(HAMMING, "hamming", 5)
typedef enum vt_filter {
#define VT_FILTER_ENUM(id, name, number) VT_FILTER_##id = number,
    VT_FILTER_LIST(VT_FILTER_ENUM)
#undef VT_FILTER_ENUM
        VT_FILTER_COUNT
} vt_filter;
extern const char *const vt_filter_names[VT_FILTER_COUNT];

/* In place; the same size leaves it alone. path: what errors name. */
vt_status vt_image_resize(vt_image *im, int width, int height, vt_filter filter, const char *path, vt_err *e);

#endif
