/* SPDX-License-Identifier: MIT */
/* Pillow's src/libImaging/Resample.c (and, for nearest, Geometry.c) re-expressed; the expressions keep its order of
 * operations, because every bit of a weight counts. This file must not be compiled with contracted multiply-adds. */
#include "io/resize.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *const vt_filter_names[VT_FILTER_COUNT] = {
#define VT_FILTER_NAME(id, name, number) [number] = name,
    VT_FILTER_LIST(VT_FILTER_NAME)
#undef VT_FILTER_NAME
};

/* ---- filters ---- */

static double box_filter(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double bilinear_filter(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

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

static void taps_free(taps *t) { free(t->first), free(t->n), free(t->w); }

/* Weights of result sample o, normalised to sum 1, then rounded half away from zero to BITS. */
static void taps_of(taps *t, int o, int in, double scale, double stretch, vt_filter filter, double *k) {
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

static bool taps_make(taps *t, int in, int out, vt_filter filter) {
    double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    t->room = (int)ceil(filters[filter].support * stretch) * 2 + 1;
    t->first = calloc((size_t)out, sizeof *t->first);
    t->n = calloc((size_t)out, sizeof *t->n);
    t->w = calloc((size_t)out * (size_t)t->room, sizeof *t->w); /* about 6 in + out */
    double *k = calloc((size_t)t->room, sizeof *k);
    bool ok = t->first && t->n && t->w && k;
    for (int o = 0; ok && o < out; o++) taps_of(t, o, in, scale, stretch, filter, k);
    free(k);
    return ok;
}

static uint8_t round_to_byte(int sum) {
    sum >>= BITS; /* arithmetic: towards minus infinity */
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* rows x in samples -> rows x out */
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

/* One plane, n_in rows of width samples -> n_out rows. sum [width]: scratch. */
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

/* ---- pictures ---- */

static bool resize_width(vt_image *im, int width, vt_filter filter) {
    if (width == im->shape.width) return true;
    size_t rows = 3 * (size_t)im->shape.height;
    taps t = {0};
    uint8_t *rgb = malloc(rows * (size_t)width);
    bool ok = rgb && taps_make(&t, im->shape.width, width, filter);
    if (ok) {
        resample_rows(rgb, im->rgb, &t, rows, im->shape.width, width);
        free(im->rgb);
        *im = (vt_image){{3, im->shape.height, width}, rgb, NULL};
    } else
        free(rgb);
    taps_free(&t);
    return ok;
}

static bool resize_height(vt_image *im, int height, vt_filter filter) {
    if (height == im->shape.height) return true;
    size_t w = (size_t)im->shape.width;
    taps t = {0};
    uint8_t *rgb = malloc(3 * w * (size_t)height);
    int *sum = calloc(w, sizeof *sum);
    bool ok = rgb && sum && taps_make(&t, im->shape.height, height, filter);
    if (ok) {
        for (size_t c = 0; c < 3; c++)
            resample_columns(rgb + c * w * (size_t)height, im->rgb + c * w * (size_t)im->shape.height, &t,
                             im->shape.width, height, sum);
        free(im->rgb);
        *im = (vt_image){{3, height, im->shape.width}, rgb, NULL};
    } else
        free(rgb);
    free(sum);
    taps_free(&t);
    return ok;
}

/* at[o]: the source of sample o. Pillow adds up the step, it does not multiply; -1 where that runs past the end. */
static int *nearest_sources(int in, int out) {
    int *at = calloc((size_t)out, sizeof *at);
    double step = (double)in / out, x = step * 0.5;
    for (int o = 0; at && o < out; o++, x += step) at[o] = (int)x < in ? (int)x : -1;
    return at;
}

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
    if (ok) {
        free(im->rgb);
        *im = (vt_image){{3, height, width}, rgb, NULL};
    } else
        free(rgb);
    return ok;
}

vt_status vt_image_resize(vt_image *im, int width, int height, vt_filter filter, const char *path, vt_err *e) {
    VT_TRY(vt_image_check_size(width, height, path, e));
    VT_TRY(vt_image_check_size(width, im->shape.height, path, e)); /* between the passes */
    if (width == im->shape.width && height == im->shape.height) return VT_OK;
    VT_TRY(vt_image_to_bytes(im, path, e));
    bool ok = filter == VT_FILTER_NEAREST ? resize_nearest(im, width, height)
                                          : resize_width(im, width, filter) && resize_height(im, height, filter);
    return ok ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory to resize it to %d x %d", path, width, height);
}
