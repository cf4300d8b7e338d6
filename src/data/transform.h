/* SPDX-License-Identifier: MIT */
/* What is done to a picture before the model sees it, by torchvision's rules on Pillow pictures. As text, from a
 * command line or a configuration: words separated by commas,
 *     none | short:N | squash:N    leave it, Resize(N) of the shorter side, Resize([N, N]) without keeping the aspect
 *     bilinear | bicubic | ...     the filter (default bilinear, as torchvision's)
 *     crop:N                       CenterCrop(N)
 * for example "short:248,bicubic,crop:224" (timm's ViT), "squash:224,bilinear" (Hugging Face's ViT). */
#pragma once

#include <stdbool.h>
#include "data/image.h"

/* Numbered as in Pillow (the numbers stand in Hugging Face's preprocessor_config.json as "resample"). */
typedef enum vt_filter {
    VT_FILTER_NEAREST,
    VT_FILTER_LANCZOS,
    VT_FILTER_BILINEAR,
    VT_FILTER_BICUBIC,
    VT_FILTER_BOX,
    VT_FILTER_HAMMING,
    VT_FILTER_COUNT
} vt_filter;
extern const char *const vt_filter_names[VT_FILTER_COUNT];

/* Resizes in place as Image.resize of Pillow 9.4 to 12.1 does bytes: antialiased, horizontal pass first, rounded to
 * bytes between the two; the same size changes nothing. Floats become bytes (vt_image_to_bytes). VT_E_RANGE: too large.
 * path: for errors. */
vt_status vt_image_resize(vt_image *im, int width, int height, vt_filter filter, const char *path, vt_err *e);

typedef enum vt_fit { VT_FIT_NONE, VT_FIT_SHORT, VT_FIT_SQUASH } vt_fit;

typedef struct vt_transform { /* zeroed: leave the picture as it is */
    vt_fit fit;
    int size;
    vt_filter filter;
    int crop; /* 0: none */
} vt_transform;

/* Parses the text of a transform; VT_E_USAGE for a word that is none, twice the same part, or a filter without a
 * resize. */
vt_status vt_transform_parse(vt_transform *t, const char *text, vt_err *e);
/* Writes the canonical text; returns the length that snprintf would. */
int vt_transform_text(const vt_transform *t, char *buf, size_t size);
/* Returns whether it leaves pictures as they are. */
bool vt_transform_is_none(const vt_transform *t);
/* Returns timm's evaluation transform: side floor(size / crop_pct), then the centre; squash: crop_mode 'squash'. */
vt_transform vt_transform_timm(int size, double crop_pct, vt_filter filter, bool squash);

/* Applies a transform in place; VT_E_SHAPE: not three channels, or floats that are no grey levels; VT_E_RANGE: too
 * large. path: what errors name. */
vt_status vt_transform_apply(vt_image *im, const vt_transform *t, const char *path, vt_err *e);
