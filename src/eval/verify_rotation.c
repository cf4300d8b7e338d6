/* SPDX-License-Identifier: MIT */
/* verify.h: is a point an image of the grid of rotations? A transform of its own, in double, written as the authors'
 * code computes it (TensorFlow's image.rotate and image.transform): an affine map with offsets from the corner, and
 * tents around the place that a pixel comes from. */
#include <math.h>
#include "eval/verify.h"

/* What a stored value may differ by from the grid's: rounding to float32 takes 2^-25 below 1. Two computations in
 * double differ by at most 1e-11 in the place of a pixel (sides of 4096, a few units in the last place), so by 4e-11 in
 * the value, which moves by at most 1 a pixel and direction. */
#define SLACK 0x1p-24

/* A transform of one channel, as the place that an output pixel comes from. */
typedef struct map {
    const float *plane;
    int height, width;
    double xx, xy, x0, yx, yy, y0; /* of the rotation: x' = xx x + xy y + x0, y' = yx x + yy y + y0 */
    double right, down;
} map;

/* Returns the weight of a pixel at distance d in bilinear interpolation. */
static double tent_weight(double d) { return fmax(0, 1 - fabs(d)); }

/* Returns the rotated image at pixel (x, y): the sum over the image's pixels in reach of the place it comes from. */
static double value_of_rotation(const map *m, double x, double y) {
    const double from_x = m->xx * x + m->xy * y + m->x0, from_y = m->yx * x + m->yy * y + m->y0;
    double sum = 0;
    for (double q = ceil(from_y - 1); q <= from_y + 1; q++)
        for (double p = ceil(from_x - 1); p <= from_x + 1; p++)
            if (p >= 0 && p <= m->width - 1 && q >= 0 && q <= m->height - 1)
                sum += tent_weight(from_x - p) * tent_weight(from_y - q) *
                       (double)m->plane[(size_t)q * (size_t)m->width + (size_t)p];
    return sum;
}

/* Returns the translated rotation at pixel (x, y). */
static double value_of_grid(const map *m, int x, int y) {
    const double from_x = x - m->right, from_y = y - m->down;
    double sum = 0;
    for (double q = ceil(from_y - 1); q <= from_y + 1; q++)
        for (double p = ceil(from_x - 1); p <= from_x + 1; p++) {
            const double weight = tent_weight(from_x - p) * tent_weight(from_y - q);
            if (weight > 0) sum += weight * value_of_rotation(m, p, q);
        }
    return sum;
}

/* Returns whether x_adv [shape] is x [shape] turned by an angle in degrees and moved by pixels, to within SLACK. */
static bool is_transform(const float *x, const float *x_adv, vt_shape s, double angle, double right, double down) {
    const double a = angle / 180 * acos(-1), w = s.width - 1, h = s.height - 1;
    map m = {.height = s.height, .width = s.width, .right = right, .down = down};
    m.xx = m.yy = cos(a), m.yx = sin(a), m.xy = -m.yx;
    m.x0 = (w - (m.xx * w + m.xy * h)) / 2, m.y0 = (h - (m.yx * w + m.yy * h)) / 2;
    for (int c = 0; c < s.channels; c++) {
        m.plane = x + (size_t)c * vt_shape_plane(s);
        for (int y = 0; y < s.height; y++)
            for (int i = 0; i < s.width; i++)
                if (!(fabs((double)*x_adv++ - value_of_grid(&m, i, y)) <= SLACK)) return false;
    }
    return true;
}

void vt_verify_rotation(vt_verdict *v, const float *x, const float *x_adv, vt_shape shape, const vt_rotation *r) {
    const double angle = r->angles > 1 ? 2 * r->angle / (r->angles - 1) : 0;
    const double shift = r->shifts > 1 ? 2 * r->shift / (r->shifts - 1) : 0;
    const double least = r->angles > 1 ? -r->angle : 0, first = r->shifts > 1 ? -r->shift : 0;
    for (int i = 0; v->inside && i < r->shifts; i++)
        for (int k = 0; k < r->shifts; k++)
            for (int j = 0; j < r->angles; j++)
                if (is_transform(x, x_adv, shape, least + j * angle, first + i * shift, first + k * shift)) return;
    v->inside = v->broken = v->borderline = false;
}
