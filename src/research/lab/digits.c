/* SPDX-License-Identifier: MIT */
#include "research/lab/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/rand.h"
#include "parallel/threads.h"

/* ---- strokes: polylines in the unit square, x to the right, y down ---- */

enum { POINTS = 20 };
typedef struct point {
    double x, y;
} point;
#define END                                                                                                            \
    { -2, -2 }
static const point glyphs[10][POINTS] = {
    {{.5, .08}, {.28, .18}, {.2, .5}, {.28, .82}, {.5, .92}, {.72, .82}, {.8, .5}, {.72, .18}, {.5, .08}, END},
    {{.3, .25}, {.52, .08}, {.52, .92}, END},
    {{.2, .25}, {.35, .1}, {.62, .1}, {.78, .27}, {.7, .48}, {.2, .92}, {.82, .92}, END},
    {{.2, .12}, {.75, .12}, {.45, .42}, {.72, .52}, {.78, .72}, {.6, .9}, {.35, .92}, {.2, .8}, END},
    {{.65, .92}, {.65, .08}, {.18, .65}, {.85, .65}, END},
    {{.76, .1}, {.28, .1}, {.25, .45}, {.55, .42}, {.77, .56}, {.77, .76}, {.58, .92}, {.22, .86}, END},
    {{.7, .08}, {.4, .28}, {.24, .6}, {.3, .85}, {.52, .93}, {.74, .8}, {.74, .6}, {.52, .5}, {.28, .6}, END},
    {{.18, .1}, {.82, .1}, {.55, .5}, {.42, .92}, END},
    {{.5, .48},
     {.27, .35},
     {.3, .14},
     {.5, .07},
     {.7, .14},
     {.73, .35},
     {.5, .48},
     {.24, .65},
     {.28, .87},
     {.5, .94},
     {.72, .87},
     {.76, .65},
     {.5, .48},
     END},
    {{.74, .38}, {.5, .5}, {.28, .4}, {.26, .2}, {.48, .07}, {.7, .15}, {.74, .38}, {.72, .65}, {.6, .92}, END},
};

/* Distance of p from the segment a b, in the unit square. */
static double distance_to_segment(point p, point a, point b) {
    double dx = b.x - a.x, dy = b.y - a.y, l = dx * dx + dy * dy;
    double t = l > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / l : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(p.x - a.x - t * dx, p.y - a.y - t * dy);
}

/* Distance of p from the nearest stroke of a glyph. */
static double distance_to_glyph(const point *g, point p) {
    double least = 10;
    for (int i = 0; g[i + 1].x > -2; i++) least = fmin(least, distance_to_segment(p, g[i], g[i + 1]));
    return least;
}

typedef struct hand { /* from a picture's point to the glyph's: p -> m (p - centre) + centre + shift */
    double m[2][2], shift_x, shift_y, half; /* half the thickness */
} hand;

/* Turn, slant, stretch, shift and thickness of picture `index`, keyed by seed; index < 0: none. */
static hand draw_hand(uint64_t seed, int index) {
    hand h = {{{1, 0}, {0, 1}}, 0, 0, 0.075};
    if (index < 0) return h;
    float u[8];
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("digit hand"), .image = (uint32_t)index};
    vt_rng_uniforms(&key, u, 8);
    double turn = 0.3 * (2 * (double)u[0] - 1), slant = 0.3 * (2 * (double)u[1] - 1);
    double wide = 1.1 + 0.25 * (2 * (double)u[2] - 1), tall = 1.05 + 0.15 * (2 * (double)u[3] - 1);
    double c = cos(turn), s = sin(turn);
    h.m[0][0] = wide * (c - slant * s), h.m[0][1] = wide * (s + slant * c);
    h.m[1][0] = -tall * s, h.m[1][1] = tall * c;
    h.shift_x = 0.08 * (2 * (double)u[4] - 1), h.shift_y = 0.08 * (2 * (double)u[5] - 1);
    h.half = 0.055 + 0.05 * (double)u[6];
    return h;
}

void vt_digit_draw(float *ink, int s, int label, uint64_t seed, int index) {
    enum { SUB = 4 }; /* each pixel is the mean of 4 x 4 points */
    hand h = draw_hand(seed, index);
    for (int r = 0; r < s; r++)
        for (int c = 0; c < s; c++) {
            int hit = 0;
            for (int k = 0; k < SUB * SUB; k++) {
                double x = (c + (k % SUB + 0.5) / SUB) / s - 0.5, y = (r + ((double)(k / SUB) + 0.5) / SUB) / s - 0.5;
                point p = {h.m[0][0] * x + h.m[0][1] * y + 0.5 + h.shift_x,
                           h.m[1][0] * x + h.m[1][1] * y + 0.5 + h.shift_y};
                hit += distance_to_glyph(glyphs[label], p) <= h.half;
            }
            ink[r * s + c] = (float)hit / (SUB * SUB);
        }
}

int vt_digit_label(uint64_t seed, int index) {
    vt_rng key = {.seed = seed, .purpose = vt_rng_purpose("digit label"), .image = (uint32_t)index};
    return (int)vt_rng_below(&key, 0, 10);
}

size_t vt_digits_bytes(int side, int n) { return (size_t)n * sizeof(float) * ((size_t)side * (size_t)side + 10); }

typedef struct drawing {
    vt_digits *d;
    int first;
    uint64_t seed;
    const vt_dataset *data; /* NULL: digits are drawn */
} drawing;

/* How much of pixel i, 0 to 1, lies below pixel k when n pixels become s. */
static double pixel_overlap(int i, int k, int n, int s) {
    double from = (double)k * n / s, to = (double)(k + 1) * n / s;
    return fmax(0, fmin(i + 1, to) - fmax(i, from));
}

/* ink [s, s]: means over areas of a grey image. */
static void shrink_image(float *ink, int s, const vt_image *im) {
    int h = im->shape.height, w = im->shape.width;
    for (int k = 0; k < s * s; k++) {
        double sum = 0;
        for (int r = k / s * h / s; r < h && r * s < (k / s + 1) * h; r++)
            for (int c = k % s * w / s; c < w && c * s < (k % s + 1) * w; c++)
                sum += pixel_overlap(r, k / s, h, s) * pixel_overlap(c, k % s, w, s) *
                       (double)vt_image_at(im, (size_t)(r * w + c));
        ink[k] = (float)(sum * s * s / ((double)h * w));
    }
}

/* ink [s, s] and label of a data set's image; VT_E_USAGE unless it has one channel and classes 0 to 9. */
static vt_status read_digit(float *ink, int s, const vt_dataset *data, int index, int *label, vt_err *e) {
    vt_image im;
    VT_TRY(vt_dataset_read(data, index, &im, label, e));
    bool digit = im.shape.channels == 1 && *label < 10;
    if (digit) shrink_image(ink, s, &im);
    vt_shape is = im.shape;
    vt_image_free(&im);
    if (digit) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s: image %d is " VT_CHW " of class %d; this lab wants digits of one channel, classes 0 to 9",
                   data->path, index, VT_CHW_OF(is), *label);
}

/* Work item of vt_for_each: noise (keyed by seed and first + i) and digit of picture i, centred and scaled, and its
 * one-hot label. VT_E_USAGE if the data set's image is no digit. */
static vt_status draw_picture(void *ctx, int thread, size_t i, vt_err *e) {
    (void)thread;
    const drawing *w = ctx;
    const vt_digits *d = w->d;
    int index = w->first + (int)i, label = vt_digit_label(w->seed, index);
    size_t pixels = (size_t)d->side * (size_t)d->side;
    float *x = d->x + i * pixels, ink[64 * 64];
    vt_rng key = {.seed = w->seed, .purpose = vt_rng_purpose("digit noise"), .image = (uint32_t)index};
    vt_rng_uniforms(&key, x, pixels);
    if (w->data)
        VT_TRY(read_digit(ink, d->s, w->data, (int)i, &label, e));
    else
        vt_digit_draw(ink, d->s, label, w->seed, index);
    for (int r = 0; r < d->s; r++)
        for (int c = 0; c < d->s; c++) x[(d->row + r) * d->side + d->column + c] = ink[r * d->s + c];
    /* mean 1/2 and deviation 1 / sqrt(12) of the noise: to 0 and 1 */
    for (size_t k = 0; k < pixels; k++) x[k] = (x[k] - 0.5f) * 3.4641016f;
    d->y[i * 10 + (size_t)label] = 1;
    return VT_OK;
}

/* Allocates and fills n pictures; VT_E_RANGE unless s is 1 to min(side, 64). A failure leaves out closed. */
static vt_status make_pictures(vt_digits *out, int side, int s, drawing w, int n, int threads, vt_err *e) {
    if (s < 1 || s > side || s > 64)
        return vt_fail(e, VT_E_RANGE, "a digit of %d x %d in a picture of %d x %d; it must be 1 to %d", s, s, side,
                       side, side < 64 ? side : 64);
    *out = (vt_digits){.side = side, .s = s, .row = (side - s) / 2, .column = (side - s) / 2, .n = n};
    out->x = vt_alloc((size_t)n * (size_t)side * (size_t)side * sizeof *out->x);
    out->y = vt_alloc((size_t)n * 10 * sizeof *out->y);
    vt_status got = VT_OK;
    if (!out->x || !out->y) got = vt_fail(e, VT_E_MEMORY, "no memory for %d pictures of %d x %d", n, side, side);
    if (got == VT_OK) got = vt_for_each((size_t)n, threads, draw_picture, &w, e);
    if (got != VT_OK) vt_digits_close(out);
    return got;
}

vt_status vt_digits_open(vt_digits *out, int side, int s, int first, int n, const vt_lab *lab, vt_err *e) {
    return make_pictures(out, side, s, (drawing){out, first, lab->seed, NULL}, n, lab->threads, e);
}

vt_status vt_digits_read(vt_digits *out, int side, int s, const char *data, vt_split split, int n, const vt_lab *lab,
                         char *hash, vt_err *e) {
    vt_dataset *d;
    VT_TRY(vt_dataset_open(&d, data, split, e));
    vt_status got = VT_OK;
    if (d->count < n)
        got = vt_fail(e, VT_E_USAGE, "%s: %d %s images are asked for, it has %lld", data, n, vt_split_name(split),
                      (long long)d->count);
    /* noise of other pictures than the training's */
    drawing w = {out, split == VT_SPLIT_TRAIN ? 0 : 1 << 30, lab->seed, d};
    if (got == VT_OK) got = make_pictures(out, side, s, w, n, lab->threads, e);
    memcpy(hash, d->hash, sizeof d->hash);
    vt_dataset_close(d);
    return got;
}

void vt_digits_close(vt_digits *d) {
    free(d->x);
    free(d->y);
    *d = (vt_digits){0};
}

bool vt_digits_inside(const vt_digits *d, int pixel) {
    int r = pixel / d->side - d->row, c = pixel % d->side - d->column;
    return r >= 0 && r < d->s && c >= 0 && c < d->s;
}
