/* SPDX-License-Identifier: MIT */
#include "attacks/rotation.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include "base/opt.h"

static const vt_opt rotation_opts[] = {
    VT_OPT_R("angle", vt_rotation, angle, "largest angle in degrees", 30, 0, VT_ROTATION_ANGLE),
    VT_OPT_R("shift", vt_rotation, shift, "largest translation in pixels", 3, 0, VT_SHAPE_SIDE),
    VT_OPT_I("angles", vt_rotation, angles, "angles, both ends among them", 31, 1, VT_ROTATION_COUNT),
    VT_OPT_I("shifts", vt_rotation, shifts, "translations across, and as many down", 5, 1, VT_ROTATION_COUNT),
    VT_OPT_END,
};

bool vt_rotation_named(const char *text) { return strcspn(text, ":") == 8 && !strncasecmp(text, "rotation", 8); }

vt_status vt_rotation_parse(vt_rotation *out, const char *text, vt_err *e) {
    *out = (vt_rotation){0};
    vt_opt_defaults(rotation_opts, out);
    VT_TRY(vt_opt_parse(rotation_opts, out, text[8] ? text + 9 : "", "threat rotation", e));
    if (out->angle == 0 || out->angles == 1) out->angle = 0, out->angles = 1;
    if (out->shift == 0 || out->shifts == 1) out->shift = 0, out->shifts = 1;
    return VT_OK;
}

vt_status vt_rotation_fit(const vt_rotation *r, vt_shape shape, vt_err *e) {
    const int least = shape.height < shape.width ? shape.height : shape.width;
    const double points = (double)r->angles * r->shifts * r->shifts;
    if (r->shift >= least)
        return vt_fail(e, VT_E_USAGE,
                       "@threat rotation: shift is %g pixels, must be less than the images' %d: nothing would be left",
                       r->shift, least);
    if (points > VT_ROTATION_POINTS)
        return vt_fail(e, VT_E_USAGE,
                       "@threat rotation: %d angles and %d x %d translations are %.0f points, at most %d", r->angles,
                       r->shifts, r->shifts, points, VT_ROTATION_POINTS);
    return VT_OK;
}

int vt_rotation_points(const vt_rotation *r) { return r->angles * r->shifts * r->shifts; }

/* Returns value k of n from -limit to limit: in the middle exactly 0. */
static double grid_value(double limit, int k, int n) { return n == 1 ? 0 : limit * (2 * k - (n - 1)) / (n - 1); }

vt_motion vt_rotation_point(const vt_rotation *r, int k) {
    const int shift = k / r->angles;
    return (vt_motion){.angle = grid_value(r->angle, k % r->angles, r->angles),
                       .right = grid_value(r->shift, shift / r->shifts, r->shifts),
                       .down = grid_value(r->shift, shift % r->shifts, r->shifts)};
}

/* Returns a channel's value at a pixel, 0 outside of it. */
static double pixel_or_zero(const float *plane, vt_shape s, double y, double x) {
    return y >= 0 && y < s.height && x >= 0 && x < s.width ? (double)plane[(int)y * s.width + (int)x] : 0;
}

/* A rotation about the centre of an image. */
typedef struct turn {
    const float *plane; /* [height, width] */
    vt_shape shape;
    double cosine, sine;
} turn;

/* Returns the rotated channel's value at a whole pixel: the channel, interpolated where the pixel comes from. */
static double rotated_pixel(const turn *t, double y, double x) {
    const double mid_y = (t->shape.height - 1) / 2.0, mid_x = (t->shape.width - 1) / 2.0;
    const double from_x = mid_x + t->cosine * (x - mid_x) - t->sine * (y - mid_y);
    const double from_y = mid_y + t->sine * (x - mid_x) + t->cosine * (y - mid_y);
    const double left = floor(from_x), top = floor(from_y), across = from_x - left, below = from_y - top;
    const double upper = (1 - across) * pixel_or_zero(t->plane, t->shape, top, left) +
                         across * pixel_or_zero(t->plane, t->shape, top, left + 1);
    const double lower = (1 - across) * pixel_or_zero(t->plane, t->shape, top + 1, left) +
                         across * pixel_or_zero(t->plane, t->shape, top + 1, left + 1);
    return (1 - below) * upper + below * lower;
}

void vt_rotation_apply(float *out, const float *x, vt_shape shape, vt_motion t) {
    const double radians = t.angle * M_PI / 180;
    turn by = {.shape = shape, .cosine = cos(radians), .sine = sin(radians)};
    for (int c = 0; c < shape.channels; c++) {
        by.plane = x + (size_t)c * vt_shape_plane(shape);
        for (int y = 0; y < shape.height; y++)
            for (int i = 0; i < shape.width; i++) {
                const double top = floor(y - t.down), left = floor(i - t.right);
                const double below = y - t.down - top, across = i - t.right - left;
                double v = (1 - below) * (1 - across) * rotated_pixel(&by, top, left);
                if (across > 0) v += (1 - below) * across * rotated_pixel(&by, top, left + 1);
                if (below > 0) v += below * (1 - across) * rotated_pixel(&by, top + 1, left);
                if (below > 0 && across > 0) v += below * across * rotated_pixel(&by, top + 1, left + 1);
                *out++ = (float)v;
            }
    }
}
