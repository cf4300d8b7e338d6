/* SPDX-License-Identifier: MIT */
#include "io/transform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/opt.h"

/* ---- text ---- */

static vt_status parse_side_length(const char *key, const char *value, int *out, vt_err *e) {
    long long v;
    if (!vt_parse_int(value, &v))
        return vt_fail(e, VT_E_USAGE, "preprocessing: %s is '%.40s', which is not a whole number", key, value);
    if (v < 1 || v > VT_IMAGE_MAX_SIDE)
        return vt_fail(e, VT_E_USAGE, "preprocessing: %s is %lld, must be from 1 to %d", key, v, VT_IMAGE_MAX_SIDE);
    *out = (int)v;
    return VT_OK;
}

/* Which of a transform's parts have been named. */
typedef struct given {
    bool fit, filter, crop;
} given;

static vt_status fail_given_twice(const char *what, vt_err *e) {
    return vt_fail(e, VT_E_USAGE, "preprocessing: %s is given twice", what);
}

static vt_status parse_word(vt_transform *t, given *g, char *word, vt_err *e) {
    char *value = strchr(word, ':');
    if (value) *value++ = 0;
    for (int f = 0; f < VT_FILTER_COUNT && !value; f++) {
        if (strcmp(word, vt_filter_names[f])) continue;
        if (g->filter) return fail_given_twice("the filter", e);
        g->filter = true;
        t->filter = (vt_filter)f;
        return VT_OK;
    }
    if (value && !strcmp(word, "crop")) {
        if (g->crop) return fail_given_twice("crop", e);
        g->crop = true;
        return parse_side_length("crop", value, &t->crop, e);
    }
    bool is_short = !strcmp(word, "short");
    if (value ? !is_short && strcmp(word, "squash") : strcmp(word, "none"))
        return vt_fail(e, VT_E_USAGE,
                       "preprocessing: '%.40s' is not one of none, short:N, squash:N, crop:N, nearest, lanczos, "
                       "bilinear, "
                       "bicubic, box, hamming; for example short:248,bicubic,crop:224",
                       word);
    if (g->fit) return fail_given_twice("the resize", e);
    g->fit = true;
    if (!value) return VT_OK;
    t->fit = is_short ? VT_FIT_SHORT : VT_FIT_SQUASH;
    return parse_side_length(word, value, &t->size, e);
}

vt_status vt_transform_parse(vt_transform *t, const char *text, vt_err *e) {
    char copy[128], *rest = copy;
    given g = {0};
    *t = (vt_transform){.filter = VT_FILTER_BILINEAR};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return vt_fail(e, VT_E_USAGE, "preprocessing: '%.60s...' is too long", text);
    while (rest) {
        char *word = rest;
        if ((rest = strchr(word, ','))) *rest++ = 0;
        VT_TRY(parse_word(t, &g, word, e));
    }
    if (g.filter && t->fit == VT_FIT_NONE)
        return vt_fail(e, VT_E_USAGE, "preprocessing: '%s' names a filter, but no short:N or squash:N to use it", text);
    if (t->fit == VT_FIT_NONE) t->filter = (vt_filter)0;
    return VT_OK;
}

int vt_transform_text(const vt_transform *t, char *buf, size_t size) {
    char fit[64] = "none", crop[32] = "";
    if (t->fit != VT_FIT_NONE)
        snprintf(fit, sizeof fit, "%s:%d,%s", t->fit == VT_FIT_SHORT ? "short" : "squash", t->size,
                 vt_filter_names[t->filter]);
    if (t->crop) snprintf(crop, sizeof crop, "crop:%d", t->crop);
    bool only_crop = t->fit == VT_FIT_NONE && t->crop;
    return snprintf(buf, size, "%s%s%s", only_crop ? "" : fit, !only_crop && t->crop ? "," : "", crop);
}

bool vt_transform_is_none(const vt_transform *t) { return t->fit == VT_FIT_NONE && !t->crop; }

vt_transform vt_transform_timm(int size, double crop_pct, vt_filter filter, bool squash) {
    return (vt_transform){squash ? VT_FIT_SQUASH : VT_FIT_SHORT, (int)(size / crop_pct), filter, size};
}

/* ---- pictures ---- */

/* (a - b) / 2, half to even: Python's round */
static int half_even(int difference) {
    int half = difference / 2;
    return difference % 2 ? half + half % 2 : half;
}

/* Where a side of length n begins in the crop (pad), and where the crop begins in it (skip). */
static void compute_crop_offsets(int n, int side, int *pad, int *skip) {
    *pad = n < side ? (side - n) / 2 : 0;
    *skip = n > side ? half_even(n - side) : 0;
}

/* CenterCrop(side): offsets round half to even, as Python does; smaller pictures get black borders first, the odd
 * line of them right and below. */
static vt_status centre_crop(vt_image *im, int side, const char *path, vt_err *e) {
    int left, top, x0, y0;
    if (im->shape.width == side && im->shape.height == side) return VT_OK;
    VT_TRY(vt_image_check_size(side, side, path, e));
    VT_TRY(vt_image_to_bytes(im, path, e));
    compute_crop_offsets(im->shape.width, side, &left, &x0);
    compute_crop_offsets(im->shape.height, side, &top, &y0);
    size_t n = (size_t)side, w = (size_t)im->shape.width, h = (size_t)im->shape.height;
    size_t rows = h < n ? h : n, columns = w < n ? w : n;
    uint8_t *rgb = calloc(3 * n, n);
    if (!rgb) return vt_fail(e, VT_E_MEMORY, "%s: no memory to crop it to %d x %d", path, side, side);
    for (size_t c = 0; c < 3; c++)
        for (size_t y = 0; y < rows; y++)
            memcpy(rgb + (c * n + (size_t)top + y) * n + (size_t)left,
                   im->rgb + (c * h + (size_t)y0 + y) * w + (size_t)x0, columns);
    free(im->rgb);
    *im = (vt_image){vt_shape_rgb(side), rgb, NULL};
    return VT_OK;
}

vt_status vt_transform_apply(vt_image *im, const vt_transform *t, const char *path, vt_err *e) {
    int w = t->size, h = t->size;
    if (vt_transform_is_none(t)) return VT_OK;
    if (im->shape.channels != 3)
        return vt_fail(e, VT_E_SHAPE, "%s is " VT_CHW ": only pictures of three channels are resized and cropped", path,
                       VT_CHW_OF(im->shape));
    if (t->fit == VT_FIT_SHORT) { /* torchvision: int(size * long / short) */
        int64_t longer = (int64_t)t->size * (im->shape.width < im->shape.height ? im->shape.height : im->shape.width) /
                         (im->shape.width < im->shape.height ? im->shape.width : im->shape.height);
        if (longer > VT_IMAGE_MAX_SIDE) longer = VT_IMAGE_MAX_SIDE + 1; /* refused by its name below */
        *(im->shape.width <= im->shape.height ? &h : &w) = (int)longer;
    }
    if (t->fit != VT_FIT_NONE) VT_TRY(vt_image_resize(im, w, h, t->filter, path, e));
    return t->crop ? centre_crop(im, t->crop, path, e) : VT_OK;
}
