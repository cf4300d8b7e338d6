/* SPDX-License-Identifier: MIT */
#include "graph/resize.h"

#include <math.h>

/* Returns where number i of side k lies in the input of `in` numbers, by r->place. */
static double source_of(const vt_resize *r, int k, int64_t i, int64_t in) {
    const double at = (double)i, scale = r->scale[k], out = scale * (double)in, last = (double)in - 1;
    if (r->place == VT_PLACE_CORNERS) return out == 1 ? 0 : at * last / (out - 1);
    if (r->place == VT_PLACE_ASYMMETRIC) return at / scale;
    if (r->place == VT_PLACE_TF_NEAREST) return (at + 0.5) / scale;
    if (r->place == VT_PLACE_PYTORCH && r->to.d[k] <= 1) return 0;
    if (r->place == VT_PLACE_CROP)
        return out > 1 ? r->begin[k] * last + at * (r->end[k] - r->begin[k]) * last / (out - 1)
                       : (r->begin[k] + r->end[k]) * last / 2;
    double shift = 0;
    if (r->place == VT_PLACE_SYMMETRIC) shift = (double)in / 2 * (1 - (double)r->to.d[k] / out);
    return shift + (at + 0.5) / scale - 0.5;
}

/* Is the place outside the input, for tf_crop_and_resize? False for every other rule. */
static bool lies_outside(const vt_resize *r, double at, int64_t in) {
    return r->place == VT_PLACE_CROP && !(at >= 0 && at <= (double)in - 1);
}

/* Returns the input's number at or before the place, within [0, in). */
static int64_t clamp_place(double at, int64_t in) { return at < 0 ? 0 : at > (double)(in - 1) ? in - 1 : (int64_t)at; }

/* Returns the input's number nearest to a place, by r->nearest, within [0, in). */
static int64_t nearest_of(const vt_resize *r, double at, int64_t in) {
    double near = r->nearest == VT_ROUND_UP_AT_HALF ? floor(at + 0.5) : ceil(at - 0.5);
    if (r->nearest == VT_ROUND_FLOOR) near = floor(at);
    if (r->nearest == VT_ROUND_CEIL) near = ceil(at);
    return clamp_place(near, in);
}

/* Returns Keys' kernel, or the tent, of a distance in pixels. */
static double kernel_of(const vt_resize *r, double distance) {
    const double t = fabs(distance), a = r->cubic;
    if (r->mode == VT_RESIZE_LINEAR) return t < 1 ? 1 - t : 0;
    if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/* Adds to row [in], all 0, the weights of the input's numbers at a place; what lies before or after the input is its
 * edge, or, with exclude_outside, left out. */
static void weigh_row(const vt_resize *r, double at, double scale, int64_t in, double *row) {
    const double shrink = r->antialias && scale < 1 ? scale : 1;
    const double reach = ceil((r->mode == VT_RESIZE_LINEAR ? 1 : 2) / shrink), first = floor(at) - reach;
    double sum = 0;
    for (int64_t k = 0; k <= 2 * (int64_t)reach + 1; k++) {
        const double place = first + (double)k, weight = kernel_of(r, (place - at) * shrink);
        if (weight == 0 || (r->exclude_outside && (place < 0 || place > (double)in - 1))) continue;
        row[clamp_place(place, in)] += weight, sum += weight;
    }
    for (int64_t k = 0; k < in && (r->antialias || r->exclude_outside) && sum != 0; k++) row[k] /= sum;
}

static vt_status resize_nearest(vt_import *im, int x, const vt_resize *r, int *y, vt_err *e) {
    const vt_dims d = vt_import_value(im, x)->dims;
    int64_t *table[VT_RANK] = {0}, step = 1;
    for (int k = d.rank - 1; k >= 0; k--) {
        if (!(table[k] = vt_import_take(im, (size_t)r->to.d[k] + 1, sizeof **table))) return vt_import_memory(im, e);
        for (int64_t i = 0; i < r->to.d[k]; i++) {
            const double at = source_of(r, k, i, d.d[k]);
            table[k][i] = lies_outside(r, at, d.d[k]) ? VT_MOVE_FILL : nearest_of(r, at, d.d[k]) * step;
        }
        step *= d.d[k];
    }
    return vt_emit_move(im, x, &r->to, table, r->outside, y, e);
}

/* Adds r->outside to *y [n] where a place is outside the input of sides d, and the products gave 0. */
static vt_status add_outside(vt_import *im, const vt_resize *r, const vt_dims *d, size_t n, int *y, vt_err *e) {
    int more;
    double *p = vt_import_take(im, n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0, rest; i < n; i++) {
        rest = i;
        for (int k = d->rank - 1; k >= 0; k--) {
            const int64_t side = r->to.d[k];
            if (lies_outside(r, source_of(r, k, (int64_t)(rest % (size_t)side), d->d[k]), d->d[k])) p[i] = r->outside;
            rest /= (size_t)side;
        }
    }
    VT_TRY(vt_emit_reals(im, &r->to, p, &more, e));
    return vt_emit_binary(im, "Add", *y, more, y, e);
}

vt_status vt_emit_resize(vt_import *im, int x, const vt_resize *r, int *y, vt_err *e) {
    const vt_dims d = vt_import_value(im, x)->dims;
    size_t all;
    if (!vt_dims_count(&r->to, &all)) return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    if (r->mode == VT_RESIZE_NEAREST) return resize_nearest(im, x, r, y, e);
    *y = x;
    for (int k = 0; k < d.rank; k++) {
        const int64_t in = d.d[k], out = r->to.d[k];
        size_t n;
        if (!vt_dims_count(&(vt_dims){2, {in, out}}, &n) || in > 65536)
            return vt_import_fail(im, e, "resizes a side of %lld to %lld", (long long)in, (long long)out);
        double *m = vt_import_take(im, n + 1, sizeof *m);
        if (!m) return vt_import_memory(im, e);
        bool same = in == out;
        for (int64_t i = 0; i < out; i++) {
            const double at = source_of(r, k, i, in);
            if (!lies_outside(r, at, in)) weigh_row(r, at, r->scale[k], in, m + i * in);
            for (int64_t j = 0; same && j < in; j++) same = m[i * in + j] == (i == j);
        }
        if (!same) VT_TRY(vt_emit_matrix(im, *y, k, m, out, y, e));
    }
    return r->outside != 0 ? add_outside(im, r, &d, all, y, e) : VT_OK;
}
