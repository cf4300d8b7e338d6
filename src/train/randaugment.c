/* SPDX-License-Identifier: MIT */
/* RandAugment and random erasing. Every operation computes Pillow's bytes (of 9.4: Image.transform, ImageEnhance,
 * ImageOps), since that is what torchvision's does on a PIL image. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "train/augment.h"

/* ---- where pixels come from ---- */

/* Computes out(x, y) = in(m0 x + m1 y + m2, m3 x + m4 y + m5) at the centres of pixels, in fixed point of 16 bits:
 * nearest pixels, black from outside. Planes [3, side, side]; out: another buffer. */
static void apply_affine(uint8_t *out, const uint8_t *in, int side, const double m[6]) {
    const double one = 65536;
    int64_t step[2][2];
    for (int i = 0; i < 4; i++) step[i / 2][i % 2] = (int64_t)floor(m[3 * (i / 2) + i % 2] * one + 0.5);
    for (int c = 0; c < 3; c++, in += side * side)
        for (int64_t y = 0; y < side; y++)
            for (int64_t x = 0; x < side; x++, out++) {
                int64_t at[2];
                for (int i = 0; i < 2; i++) {
                    double centre = m[3 * i + 2] + m[3 * i] * 0.5 + m[3 * i + 1] * 0.5;
                    at[i] = (int64_t)floor(centre * one + 0.5) + x * step[i][0] + y * step[i][1];
                }
                int64_t row = at[1] >> 16, column = at[0] >> 16;
                *out = row >= 0 && column >= 0 && row < side && column < side ? in[row * side + column] : 0;
            }
}

/* Moves row y of the picture (apply_affine) to the left by v times its distance from the top, in pixels. */
static void shear_x(uint8_t *out, const uint8_t *in, int side, double v) {
    apply_affine(out, in, side, (const double[6]){1, v, 0, 0, 1, 0});
}

/* Moves column x of the picture (apply_affine) up by v times its distance from the left, in pixels. */
static void shear_y(uint8_t *out, const uint8_t *in, int side, double v) {
    apply_affine(out, in, side, (const double[6]){1, 0, 0, v, 1, 0});
}

/* Moves the picture (apply_affine) to the right by trunc(v) pixels, as torchvision does. */
static void translate_x(uint8_t *out, const uint8_t *in, int side, double v) {
    apply_affine(out, in, side, (const double[6]){1, 0, -trunc(v), 0, 1, 0});
}

/* Moves the picture (apply_affine) down by trunc(v) pixels. */
static void translate_y(uint8_t *out, const uint8_t *in, int side, double v) {
    apply_affine(out, in, side, (const double[6]){1, 0, 0, 0, 1, -trunc(v)});
}

/* Turns the picture, planes [3, side, side], counter-clockwise by v degrees around the centre into out, another buffer:
 * nearest pixels, black from outside. */
static void rotate_image(uint8_t *out, const uint8_t *in, int side, double v) {
    double angle = -v * (3.14159265358979323846 / 180), centre = side / 2.0;
    double c = round(cos(angle) * 1e15) / 1e15, s = round(sin(angle) * 1e15) / 1e15;
    apply_affine(out, in, side,
                 (const double[6]){c, s, c * -centre + s * -centre + centre, -s, c,
                                   -s * -centre + c * -centre + centre});
}

/* ---- what becomes of their values ---- */

/* Sets out [area] to table[in]. */
static void apply_lookup_table(uint8_t *out, const uint8_t *in, int area, const uint8_t table[256]) {
    for (int i = 0; i < area; i++) out[i] = table[in[i]];
}

/* Returns Image.blend's a + factor (b - a), cut off */
static uint8_t blend_values(uint8_t a, uint8_t b, float factor) {
    float v = (float)a + factor * ((float)b - (float)a);
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

/* Returns Pillow's convert("L") of a pixel. */
static uint8_t grey_value(const uint8_t *in, int area, int i) {
    return (uint8_t)((19595u * in[i] + 38470u * in[area + i] + 7471u * in[2 * area + i] + 0x8000u) >> 16);
}

/* Returns a value of ImageFilter.SMOOTH: 5 in the middle, 1 around, of 13; the border stays. */
static uint8_t smoothed_value(const uint8_t *plane, int side, int y, int x) {
    const float weight[2] = {1 / 13.0f, 5 / 13.0f};
    if (!y || !x || y == side - 1 || x == side - 1) return plane[y * side + x];
    float sum = 0.5f;
    for (int dy = 1; dy >= -1; dy--) { /* Pillow's order of summation: rows from below */
        const uint8_t *p = plane + (y + dy) * side + x;
        sum += (float)p[-1] * weight[0] + (float)p[0] * weight[!dy] + (float)p[1] * weight[0];
    }
    return (uint8_t)sum;
}

/* Which picture an enhancement blends with: black, the greys, their mean, the picture smoothed. */
typedef enum blend { BLACK, GREYS, MEAN_GREY, SMOOTHED } blend;

/* Sets out [3, side, side] to in with every value's distance from another picture's times 1 + v, cut off at 0 and 255.
 * */
static void enhance(uint8_t *out, const uint8_t *in, int side, double v, blend with) {
    int area = side * side;
    double sum = 0;
    for (int i = 0; i < area; i++) sum += grey_value(in, area, i);
    for (int i = 0; i < 3 * area; i++) {
        uint8_t other = with == BLACK       ? 0
                        : with == GREYS     ? grey_value(in, area, i % area)
                        : with == MEAN_GREY ? (uint8_t)(sum / area + 0.5)
                                            : smoothed_value(in + i / area * area, side, i % area / side, i % side);
        out[i] = blend_values(other, in[i], (float)(1 + v));
    }
}

/* Multiplies every value by 1 + v, cut off at 255. */
static void change_brightness(uint8_t *out, const uint8_t *in, int side, double v) { enhance(out, in, side, v, BLACK); }
/* Multiplies every value's distance from the pixel's grey by 1 + v, cut off at 0 and 255. */
static void change_colour(uint8_t *out, const uint8_t *in, int side, double v) { enhance(out, in, side, v, GREYS); }
/* Multiplies every value's distance from the picture's mean grey by 1 + v, cut off at 0 and 255. */
static void change_contrast(uint8_t *out, const uint8_t *in, int side, double v) {
    enhance(out, in, side, v, MEAN_GREY);
}
/* Multiplies every value's distance from the smoothed picture's by 1 + v, cut off at 0 and 255. */
static void change_sharpness(uint8_t *out, const uint8_t *in, int side, double v) {
    enhance(out, in, side, v, SMOOTHED);
}

/* Keeps the upper int(bits) bits of every value of in [3, side, side]. */
static void posterize_image(uint8_t *out, const uint8_t *in, int side, double bits) {
    int mask = ~((1 << (8 - (int)bits)) - 1);
    for (int i = 0; i < 3 * side * side; i++) out[i] = (uint8_t)(in[i] & mask);
}

/* Inverts the values of in [3, side, side] from `threshold` on. */
static void solarize_image(uint8_t *out, const uint8_t *in, int side, double threshold) {
    for (int i = 0; i < 3 * side * side; i++) out[i] = in[i] < threshold ? in[i] : (uint8_t)(255 - in[i]);
}

/* Stretches each channel so that its least value is 0 and its largest 255; one of a single value stays. */
static void apply_autocontrast(uint8_t *out, const uint8_t *in, int side, double unused) {
    int area = side * side;
    (void)unused;
    for (int c = 0; c < 3; c++, in += area, out += area) {
        uint8_t table[256], lo = 255, hi = 0;
        for (int i = 0; i < area; i++) lo = in[i] < lo ? in[i] : lo, hi = in[i] > hi ? in[i] : hi;
        for (int i = 0; i < 256; i++) {
            double scale = hi > lo ? 255.0 / (hi - lo) : 1, v = hi > lo ? trunc(i * scale + -lo * scale) : i;
            table[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
        }
        apply_lookup_table(out, in, area, table);
    }
}

/* Makes each channel's histogram as flat as Pillow's equalize does: it clips its table at 255. */
static void equalize_histogram(uint8_t *out, const uint8_t *in, int side, double unused) {
    int area = side * side;
    (void)unused;
    for (int c = 0; c < 3; c++, in += area, out += area) {
        int count[256] = {0}, last = 0, n;
        uint8_t table[256];
        for (int i = 0; i < area; i++) count[in[i]]++;
        for (int i = 0; i < 256; i++) last = count[i] ? count[i] : last;
        int step = (area - last) / 255;
        n = step / 2;
        for (int i = 0; i < 256; n += count[i++]) {
            int to = step ? n / step : i;
            table[i] = (uint8_t)(to < 255 ? to : 255);
        }
        apply_lookup_table(out, in, area, table);
    }
}

/* Copies the picture, bytes [3, side, side], to out. */
static void copy_image(uint8_t *out, const uint8_t *in, int side, double unused) {
    (void)unused;
    memcpy(out, in, (size_t)(3 * side * side));
}

/* ---- the operations ---- */

/* A setting goes from 0 to `most` in a line over the magnitudes. */
static const struct operation {
    const char *name;
    void (*apply)(uint8_t *out, const uint8_t *in, int side, double setting);
    double most;
    bool has_sign;
} operations[] = {
    {"Identity", copy_image, 0, false},
    {"ShearX", shear_x, 0.3, true},
    {"ShearY", shear_y, 0.3, true},
    {"TranslateX", translate_x, 150.0 / 331, true}, /* of the side */
    {"TranslateY", translate_y, 150.0 / 331, true},
    {"Rotate", rotate_image, 30, true},
    {"Brightness", change_brightness, 0.9, true},
    {"Color", change_colour, 0.9, true},
    {"Contrast", change_contrast, 0.9, true},
    {"Sharpness", change_sharpness, 0.9, true},
    {"Posterize", posterize_image, 4, false}, /* bits left out */
    {"Solarize", solarize_image, 255, false}, /* levels left out */
    {"AutoContrast", apply_autocontrast, 0, false},
    {"Equalize", equalize_histogram, 0, false},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

const char *vt_randaugment_name(int op) { return op < OPERATIONS ? operations[op].name : NULL; }

double vt_randaugment_setting(int op, int magnitude, int side, bool *has_sign) {
    const struct operation *o = &operations[op];
    double v = o->most * magnitude / (VT_RANDAUGMENT_LEVELS - 1);
    *has_sign = o->has_sign;
    if (o->apply == translate_x || o->apply == translate_y) v *= side;
    if (o->apply == posterize_image) return 8 - nearbyint(v);
    return o->apply == solarize_image ? 255 - v : v;
}

void vt_randaugment_apply(uint8_t *out, const uint8_t *in, int side, int op, double setting) {
    operations[op].apply(out, in, side, setting);
}

vt_status vt_randaugment(float *x, int side, int ops, int magnitude, const vt_rng *r, vt_err *e) {
    size_t n = (size_t)(3 * side * side);
    uint8_t *in = malloc(2 * n), *out = in + n, *const block = in;
    if (!in) return vt_fail(e, VT_E_MEMORY, "no memory for an image of %d pixels a side", side);
    for (size_t i = 0; i < n; i++) in[i] = (uint8_t)lrintf(x[i] * 255);
    for (int k = 0; k < ops; k++) {
        int op = (int)vt_rng_below(r, (uint64_t)(2 * k), OPERATIONS);
        bool has_sign;
        double v = vt_randaugment_setting(op, magnitude, side, &has_sign);
        if (has_sign && vt_rng_bits(r, (uint64_t)(2 * k + 1)) >> 31) v = -v;
        vt_randaugment_apply(out, in, side, op, v);
        uint8_t *t = in;
        in = out, out = t;
    }
    for (size_t i = 0; i < n; i++) x[i] = (float)in[i] / 255;
    free(block);
    return VT_OK;
}

/* ---- random erasing ---- */

/* Positions of its key: whether, then tries of four draws each, then pixels. */
enum { TRIES = 10, PIXELS_FROM = 1 + 4 * TRIES };

void vt_random_erase(float *x, int side, double p, const vt_rng *r) {
    if ((double)vt_rng_uniform(r, 0) >= p) return;
    for (uint64_t t = 0; t < TRIES; t++) { /* torchvision's ten tries for a rectangle that fits */
        double share = 0.02 + (0.33 - 0.02) * (double)vt_rng_uniform(r, 1 + 4 * t);
        double ratio = exp(log(0.3) + log(3.3 / 0.3) * (double)vt_rng_uniform(r, 2 + 4 * t)),
               area = share * side * side;
        int h = (int)lrint(sqrt(area * ratio)), w = (int)lrint(sqrt(area / ratio));
        if (!h || !w || h >= side || w >= side) continue;
        int y0 = (int)vt_rng_below(r, 3 + 4 * t, (uint32_t)(side - h + 1));
        int x0 = (int)vt_rng_below(r, 4 + 4 * t, (uint32_t)(side - w + 1));
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < h; i++)
                for (int j = 0; j < w; j++) {
                    size_t at = (size_t)((c * side + y0 + i) * side + x0 + j);
                    x[at] = vt_rng_uniform(r, PIXELS_FROM + at);
                }
        return;
    }
}
