/* SPDX-License-Identifier: MIT */
/* What pictures of all formats share: limits, files, telling the formats apart. */
#include "data/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"

/* How far float32 can put k/255 from where it belongs: k * (1/255) is rounded twice, each time by 2^-24 at most. */
#define GREY_TOLERANCE 0x1p-23

vt_status vt_image_make(vt_image *im, vt_shape s, const char *path, vt_err *e) {
    *im = (vt_image){.shape = s, .rgb = malloc(vt_shape_values(s))};
    return im->rgb ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for " VT_CHW " bytes", path, VT_CHW_OF(s));
}

void vt_image_free(vt_image *im) {
    if (!im) return;
    free(im->rgb), free(im->f);
    *im = (vt_image){0};
}

vt_status vt_image_to_bytes(vt_image *im, const char *path, vt_err *e) {
    size_t area = vt_shape_plane(im->shape), n = vt_shape_values(im->shape), w = (size_t)im->shape.width;
    if (!im->f) return VT_OK;
    uint8_t *rgb = malloc(n);
    if (!rgb) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its bytes", path);
    for (size_t i = 0; i < n; i++) {
        double v = (double)im->f[i], k = nearbyint(v * 255);
        rgb[i] = (uint8_t)k;
        if (fabs(v - k / 255) <= GREY_TOLERANCE) continue;
        free(rgb);
        return vt_fail(e, VT_E_SHAPE,
                       "%s has the value %.9g at channel %zu, row %zu, column %zu, %.2g away from %g/255: pictures are "
                       "resized and cropped as bytes, so floats must have the model's size already",
                       path, v, i / area, i % area / w, i % w, fabs(v - k / 255), k);
    }
    free(im->f);
    im->f = NULL, im->rgb = rgb;
    return VT_OK;
}

vt_status vt_image_check_size(int64_t w, int64_t h, const char *path, vt_err *e) {
    if (w < 1 || h < 1 || w > VT_IMAGE_MAX_SIDE || h > VT_IMAGE_MAX_SIDE)
        return vt_fail(e, VT_E_RANGE, "%s: a picture of %lld x %lld, sides must be from 1 to %d", path, (long long)w,
                       (long long)h, VT_IMAGE_MAX_SIDE);
    if (w * h > VT_IMAGE_MAX_PIXELS)
        return vt_fail(e, VT_E_RANGE, "%s: a picture of %lld x %lld has %lld pixels, the limit is %d", path,
                       (long long)w, (long long)h, (long long)(w * h), VT_IMAGE_MAX_PIXELS);
    return VT_OK;
}

vt_status vt_picture_open(vt_image *im, vt_shape s, const char *path, vt_err *e) {
    *im = (vt_image){0};
    if (!vt_picture_is(s))
        return vt_fail(e, VT_E_USAGE, "%s: an image of %d channels has no picture, which takes 3 of them, or 1 in grey",
                       path, s.channels);
    return vt_image_make(im, (vt_shape){3, s.height, s.width}, path, e);
}

void vt_picture_spread(vt_image *im, vt_shape s) {
    size_t plane = vt_shape_plane(s);
    for (size_t c = (size_t)s.channels; c < 3; c++) memcpy(im->rgb + c * plane, im->rgb, plane);
}

void vt_picture_fill(vt_image *im, const float *x, vt_shape s) {
    for (size_t i = 0, n = vt_shape_values(s); i < n; i++) im->rgb[i] = (uint8_t)lrintf(fminf(fmaxf(x[i], 0), 1) * 255);
    vt_picture_spread(im, s);
}

/* Returns whether the three planes of a picture are the same. */
static bool is_grey(const vt_image *im) {
    const size_t plane = vt_shape_plane(im->shape);
    return !memcmp(im->rgb, im->rgb + plane, plane) && !memcmp(im->rgb, im->rgb + 2 * plane, plane);
}

vt_status vt_picture_read(float **out, const char *path, int size, int channels, vt_err *e) {
    vt_image im;
    const size_t n = (size_t)channels * (size_t)size * (size_t)size;
    *out = NULL;
    VT_TRY(vt_image_read(path, &im, e));
    vt_status s = VT_OK;
    if (im.shape.height != size || im.shape.width != size)
        s = vt_fail(e, VT_E_USAGE, "%s: is %d x %d pixels, must be %d x %d, the size of @threat patch", path,
                    im.shape.width, im.shape.height, size, size);
    else if (!vt_picture_is((vt_shape){channels, size, size}) || (channels == 1 && !is_grey(&im)))
        s = vt_fail(e, VT_E_USAGE, "%s: is a picture in colours, and the model's images have %d channels", path,
                    channels);
    else if (!(*out = malloc(n * sizeof **out)))
        s = vt_fail(e, VT_E_MEMORY, "%s: no memory for its pixels", path);
    for (size_t i = 0; s == VT_OK && i < n; i++) (*out)[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    return s;
}

static bool is_png(const uint8_t *b, size_t n) { return n >= 4 && !memcmp(b, "\x89PNG", 4); }

/* Fails with VT_E_FORMAT: the file is neither PNG nor JPEG; says by its first bytes what it is. */
static vt_status fail_unknown_format(const uint8_t *b, size_t n, const char *path, vt_err *e) {
    static const struct {
        const char *bytes, *what;
        size_t at;
    } kinds[] = {{"WEBP", "WebP", 8}, {"BM", "BMP", 0},       {"GIF8", "GIF", 0},     {"II*", "TIFF", 0},
                 {"MM", "TIFF", 0},   {"ftyphei", "HEIC", 4}, {"ftypmif", "HEIC", 4}, {"ftypavif", "AVIF", 4}};
    if (!n) return vt_fail(e, VT_E_FORMAT, "%s: is empty", path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t k = strlen(kinds[i].bytes);
        if (n >= kinds[i].at + k && !memcmp(b + kinds[i].at, kinds[i].bytes, k))
            return vt_fail(e, VT_E_FORMAT,
                           "%s: is not a PNG or JPEG file, but %s: convert it (mogrify -format png FILES)", path,
                           kinds[i].what);
    }
    return vt_fail(e, VT_E_FORMAT, "%s: is not a PNG or JPEG file, it begins with byte %d", path, b[0]);
}

/* Decodes a PNG or JPEG in memory into *out, told apart by its first bytes; VT_E_FORMAT for other bytes. */
static vt_status parse_picture(const uint8_t *bytes, size_t n, const char *path, vt_image *out, vt_err *e) {
    *out = (vt_image){0};
    if (is_png(bytes, n)) return vt_png_parse(bytes, n, path, out, e);
    if (vt_is_jpeg(bytes, n)) return vt_jpeg_parse(bytes, n, path, out, e);
    return fail_unknown_format(bytes, n, path, e);
}

vt_status vt_image_inspect(const uint8_t *bytes, size_t n, const char *path, vt_err *e) {
    vt_jpeg_outline o;
    int w, h;
    if (is_png(bytes, n)) return vt_png_inspect(bytes, n, path, &w, &h, e);
    if (vt_is_jpeg(bytes, n)) return vt_jpeg_inspect(&o, bytes, n, path, e);
    return fail_unknown_format(bytes, n, path, e);
}

vt_status vt_image_read(const char *path, vt_image *out, vt_err *e) {
    char *bytes;
    size_t n;
    *out = (vt_image){0};
    VT_TRY(vt_file_load(path, VT_IMAGE_FILE_MAX, &bytes, &n, e));
    vt_status r = parse_picture((uint8_t *)bytes, n, path, out, e);
    free(bytes);
    return r;
}
