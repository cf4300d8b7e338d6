/* SPDX-License-Identifier: MIT */
#include "data/transform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/opt.h"

const char *const vt_filter_names[] = {"nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"};

/* ---- filters: Pillow's src/libImaging/Resample.c (and, for nearest, Geometry.c) re-expressed in its order of
 * operations, because every bit of a weight counts: not to be compiled with contracted multiply-adds ---- */

/* The filters return the weight of a sample at distance x, in units of the (stretched) pixel. */
static double box_filter(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

/* Returns the filter's weight at distance x, 0 beyond 1. */
static double bilinear_filter(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Returns sinc times a Hamming window at distance x, 0 beyond 1. */
static double hamming_filter(double x) {
    x = fabs(x);
    if (x == 0) return 1;
    if (x >= 1) return 0;
    x = x * M_PI;
    return sin(x) / x * (0.54f + 0.46f * cos(x)); /* float constants in Pillow, too */
}

/* Keys 1981 with a = -0.5 (PyTorch's interpolate without antialias has -0.75) */
static double bicubic_filter(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x) {
    if (x == 0) return 1;
    x = x * M_PI;
    return sin(x) / x;
}

/* Returns Lanczos' filter of three lobes at distance x, 0 beyond 3. */
static double lanczos_filter(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double (*f)(double);
    double support;
} filters[VT_FILTER_COUNT] = {
    [VT_FILTER_BOX] = {box_filter, 0.5},       [VT_FILTER_BILINEAR] = {bilinear_filter, 1},
    [VT_FILTER_HAMMING] = {hamming_filter, 1}, [VT_FILTER_BICUBIC] = {bicubic_filter, 2},
    [VT_FILTER_LANCZOS] = {lanczos_filter, 3},
};

/* ---- one axis ---- */

#define BITS 22 /* of a weight; 8 bits of sample and the sign fill 32 with one to spare for overshoot */

/* Sample o of the result is the sum of w[o*room .. + n[o]] times the samples from first[o] on. */
typedef struct taps {
    int *first, *n, *w;
    int room;
} taps;

static void free_taps(taps *t) { free(t->first), free(t->n), free(t->w); }

/* Sets t's first, n and weights of result sample o, normalised to sum 1, then rounded half away from zero to BITS. in:
 * source samples; scale: in / out; stretch: of the filter, at least 1; k [t->room]: scratch. */
static void compute_taps(taps *t, int o, int in, double scale, double stretch, vt_filter filter, double *k) {
    double support = filters[filter].support * stretch, ss = 1 / stretch, sum = 0;
    double centre = (o + 0.5) * scale;
    int lo = (int)(centre - support + 0.5), hi = (int)(centre + support + 0.5);
    if (lo < 0) lo = 0;
    if (hi > in) hi = in;
    t->first[o] = lo, t->n[o] = hi - lo;
    for (int i = 0; i < hi - lo; i++) sum += k[i] = filters[filter].f((i + lo - centre + 0.5) * ss);
    for (int i = 0; i < hi - lo; i++) {
        double w = sum != 0 ? k[i] / sum : k[i];
        t->w[(size_t)o * (size_t)t->room + (size_t)i] = (int)((w < 0 ? -0.5 : 0.5) + w * (1 << BITS));
    }
}

/* Computes the taps of a resize from `in` to `out` samples; false: no memory. t is to be freed in any case. */
static bool make_taps(taps *t, int in, int out, vt_filter filter) {
    double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    t->room = (int)ceil(filters[filter].support * stretch) * 2 + 1;
    t->first = calloc((size_t)out, sizeof *t->first);
    t->n = calloc((size_t)out, sizeof *t->n);
    t->w = calloc((size_t)out * (size_t)t->room, sizeof *t->w); /* about 6 in + out */
    double *k = calloc((size_t)t->room, sizeof *k);
    bool ok = t->first && t->n && t->w && k;
    for (int o = 0; ok && o < out; o++) compute_taps(t, o, in, scale, stretch, filter, k);
    free(k);
    return ok;
}

/* Returns a sum of weighted samples, scaled by 2^BITS, as a byte, clipped. */
static uint8_t round_to_byte(int sum) {
    sum >>= BITS; /* arithmetic: towards minus infinity */
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Resamples each of `rows` rows from n_in to n_out samples. */
static void resample_rows(uint8_t *out, const uint8_t *in, const taps *t, size_t rows, int n_in, int n_out) {
    for (size_t y = 0; y < rows; y++, in += n_in, out += n_out)
        for (int x = 0; x < n_out; x++) {
            const uint8_t *p = in + t->first[x];
            const int *w = t->w + (size_t)x * (size_t)t->room;
            int sum = 1 << (BITS - 1);
            for (int i = 0; i < t->n[x]; i++) sum += p[i] * w[i];
            out[x] = round_to_byte(sum);
        }
}

/* Resamples one plane, rows of width samples, to n_out rows. sum [width]: scratch. */
static void resample_columns(uint8_t *out, const uint8_t *in, const taps *t, int width, int n_out, int *sum) {
    for (int y = 0; y < n_out; y++, out += width) {
        const int *w = t->w + (size_t)y * (size_t)t->room;
        for (int x = 0; x < width; x++) sum[x] = 1 << (BITS - 1);
        for (int i = 0; i < t->n[y]; i++) {
            const uint8_t *row = in + (size_t)(t->first[y] + i) * (size_t)width;
            for (int x = 0; x < width; x++) sum[x] += row[x] * w[i];
        }
        for (int x = 0; x < width; x++) out[x] = round_to_byte(sum[x]);
    }
}

/* ---- resizing ---- */

/* Replaces the picture's pixels by rgb if ok, else frees rgb; returns ok. */
static bool take_pixels(vt_image *im, uint8_t *rgb, int width, int height, bool ok) {
    free(ok ? im->rgb : rgb);
    if (ok) *im = (vt_image){{3, height, width}, rgb, NULL};
    return ok;
}

/* Resizes the picture to `width`, in place; false: no memory. */
static bool resize_width(vt_image *im, int width, vt_filter filter) {
    if (width == im->shape.width) return true;
    size_t rows = 3 * (size_t)im->shape.height;
    taps t = {0};
    uint8_t *rgb = malloc(rows * (size_t)width);
    bool ok = rgb && make_taps(&t, im->shape.width, width, filter);
    if (ok) resample_rows(rgb, im->rgb, &t, rows, im->shape.width, width);
    free_taps(&t);
    return take_pixels(im, rgb, width, im->shape.height, ok);
}

/* Resizes the picture to `height`, in place; false: no memory. */
static bool resize_height(vt_image *im, int height, vt_filter filter) {
    if (height == im->shape.height) return true;
    size_t w = (size_t)im->shape.width;
    taps t = {0};
    uint8_t *rgb = malloc(3 * w * (size_t)height);
    int *sum = calloc(w, sizeof *sum);
    bool ok = rgb && sum && make_taps(&t, im->shape.height, height, filter);
    for (size_t c = 0; ok && c < 3; c++)
        resample_columns(rgb + c * w * (size_t)height, im->rgb + c * w * (size_t)im->shape.height, &t, im->shape.width,
                         height, sum);
    free(sum);
    free_taps(&t);
    return take_pixels(im, rgb, im->shape.width, height, ok);
}

/* Returns at [out], to be freed; NULL: no memory. at[o] is the source, of `in`, of sample o; -1 if past the end: Pillow
 * adds up the step, it does not multiply. */
static int *nearest_sources(int in, int out) {
    int *at = calloc((size_t)out, sizeof *at);
    double step = (double)in / out, x = step * 0.5;
    for (int o = 0; at && o < out; o++, x += step) at[o] = (int)x < in ? (int)x : -1;
    return at;
}

/* Resizes the picture by nearest pixels, in place (black where there is none); false: no memory. */
static bool resize_nearest(vt_image *im, int width, int height) {
    size_t w = (size_t)im->shape.width, h = (size_t)im->shape.height;
    int *xs = nearest_sources(im->shape.width, width), *ys = nearest_sources(im->shape.height, height);
    uint8_t *rgb = calloc((size_t)width * (size_t)height, 3), *out = rgb;
    bool ok = xs && ys && rgb;
    for (size_t c = 0; ok && c < 3; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++, out++)
                if (xs[x] >= 0 && ys[y] >= 0) *out = im->rgb[(c * h + (size_t)ys[y]) * w + (size_t)xs[x]];
    free(xs), free(ys);
    return take_pixels(im, rgb, width, height, ok);
}

/* Pillow after 12.1 resizes very tall pictures (height above 100 times the width) vertically first; this does not. */
vt_status vt_image_resize(vt_image *im, int width, int height, vt_filter filter, const char *path, vt_err *e) {
    VT_TRY(vt_image_check_size(width, height, path, e));
    VT_TRY(vt_image_check_size(width, im->shape.height, path, e)); /* between the passes */
    if (width == im->shape.width && height == im->shape.height) return VT_OK;
    VT_TRY(vt_image_to_bytes(im, path, e));
    bool ok = filter == VT_FILTER_NEAREST ? resize_nearest(im, width, height)
                                          : resize_width(im, width, filter) && resize_height(im, height, filter);
    return ok ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to resize it to %d x %d", path, width, height);
}

/* ---- text ---- */

/* Parses a side of 1 to VT_IMAGE_MAX_SIDE pixels; VT_E_USAGE, naming `key`, for anything else. */
static vt_status parse_side_length(const char *key, const char *value, int *out, vt_err *e) {
    long long v;
    if (!vt_parse_int(value, &v))
        return vt_fail(e, VT_E_USAGE, "preprocessing: %s is '%.40s', which is not a whole number", key, value);
    if (v < 1 || v > VT_IMAGE_MAX_SIDE)
        return vt_fail(e, VT_E_USAGE, "preprocessing: %s is %lld, must be from 1 to %d", key, v, VT_IMAGE_MAX_SIDE);
    *out = (int)v;
    return VT_OK;
}

/* Sets t's part that the word names, and its bit in *given; cuts the word at its colon. VT_E_USAGE: no such word, or a
 * part whose bit is set. */
static vt_status parse_word(vt_transform *t, unsigned *given, char *word, vt_err *e) {
    static const char *const parts[] = {"the resize", "the filter", "crop"};
    char *value = strchr(word, ':');
    if (value) *value++ = 0;
    int filter = 0, part = 0;
    while (filter < VT_FILTER_COUNT && strcmp(word, vt_filter_names[filter])) filter++;
    bool is_short = !strcmp(word, "short"), fit = is_short || !strcmp(word, "squash");
    if (!value && filter < VT_FILTER_COUNT)
        part = 1, t->filter = (vt_filter)filter;
    else if (value && !strcmp(word, "crop"))
        part = 2;
    else if (value ? !fit : strcmp(word, "none") != 0)
        return vt_fail(e, VT_E_USAGE,
                       "preprocessing: '%.40s' is not one of none, short:N, squash:N, crop:N, nearest, lanczos, "
                       "bilinear, bicubic, box, hamming; for example short:248,bicubic,crop:224",
                       word);
    if (*given & 1u << part) return vt_fail(e, VT_E_USAGE, "preprocessing: %s is given twice", parts[part]);
    *given |= 1u << part;
    if (!value) return VT_OK;
    if (fit) t->fit = is_short ? VT_FIT_SHORT : VT_FIT_SQUASH;
    return parse_side_length(word, value, fit ? &t->size : &t->crop, e);
}

vt_status vt_transform_parse(vt_transform *t, const char *text, vt_err *e) {
    char copy[128], *rest = copy;
    unsigned given = 0;
    *t = (vt_transform){.filter = VT_FILTER_BILINEAR};
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        return vt_fail(e, VT_E_USAGE, "preprocessing: '%.60s...' is too long", text);
    for (char *word; (word = strsep(&rest, ","));) VT_TRY(parse_word(t, &given, word, e));
    if (given & 2 && t->fit == VT_FIT_NONE)
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

/* Returns (a - b) / 2, half to even: Python's round */
static int half_even(int difference) {
    int half = difference / 2;
    return difference % 2 ? half + half % 2 : half;
}

/* Sets *pad to where a side of length n begins in the crop, and *skip to where the crop begins in it; one is 0. */
static void compute_crop_offsets(int n, int side, int *pad, int *skip) {
    *pad = n < side ? (side - n) / 2 : 0;
    *skip = n > side ? half_even(n - side) : 0;
}

/* Crops in place as torchvision's CenterCrop(side): offsets round half to even, smaller pictures get black borders, the
 * odd line right and below. A picture of this size stays as it is; else floats become bytes first, VT_E_SHAPE if one is
 * no grey level. VT_E_RANGE: no side that a picture may have. */
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
        bool tall = im->shape.width <= im->shape.height;
        int side = tall ? im->shape.width : im->shape.height, other = tall ? im->shape.height : im->shape.width;
        int64_t longer = (int64_t)t->size * other / side;
        if (longer > VT_IMAGE_MAX_SIDE) longer = VT_IMAGE_MAX_SIDE + 1; /* refused by its name below */
        *(tall ? &h : &w) = (int)longer;
    }
    if (t->fit != VT_FIT_NONE) VT_TRY(vt_image_resize(im, w, h, t->filter, path, e));
    return t->crop ? centre_crop(im, t->crop, path, e) : VT_OK;
}
