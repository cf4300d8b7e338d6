/* SPDX-License-Identifier: MIT */
/* Maps [N,C,H,W] at the places of a constant grid [N,H',W',2], by interpolation: a sum of moves times weights. */
#include <math.h>
#include <string.h>
#include "graph/op.h"

enum { MOST_TAPS = 4 };
typedef enum padding { ZEROS, BORDER, REFLECTION } padding;
typedef struct sampler {
    int taps; /* along a side: 1 nearest, 2 linear, 4 cubic */
    bool align;
    padding padding;
} sampler;

/* Returns a place mirrored at low and high until it lies between; low if these are one. */
static double mirror_place(double at, double low, double high) {
    const double span = high - low;
    if (span <= 0) return low;
    double t = fmod(fabs(at - low), 2 * span);
    return low + (t > span ? 2 * span - t : t);
}

/* Returns the pixel at a whole place, by the padding within [0, side); -1: none (ZEROS). */
static int64_t pixel_of(const sampler *s, double at, int64_t side) {
    if (s->padding == REFLECTION) at = mirror_place(at, s->align ? 0 : -0.5, (double)side - (s->align ? 1 : 0.5));
    if (s->padding == ZEROS && (at < 0 || at > (double)side - 1)) return -1;
    return at < 0 ? 0 : at > (double)side - 1 ? side - 1 : (int64_t)at;
}

/* Sets pixel and weight [s->taps] to the pixels around a place of [-1, 1] and their weights. */
static void taps_of(const sampler *s, double grid, int64_t side, int64_t *pixel, double *weight) {
    const double n = (double)side, a = -0.75;
    double at = s->align ? (grid + 1) / 2 * (n - 1) : ((grid + 1) * n - 1) / 2;
    if (s->padding == BORDER && s->taps < 4) at = fmin(fmax(at, 0), n - 1);
    if (s->padding == REFLECTION && s->taps < 4) at = mirror_place(at, s->align ? 0 : -0.5, n - (s->align ? 1 : 0.5));
    const double first = s->taps == 1 ? rint(at) : floor(at) - (s->taps == 4 ? 1 : 0);
    for (int k = 0; k < s->taps; k++) {
        const double t = fabs(first + k - at);
        pixel[k] = pixel_of(s, first + k, side);
        weight[k] = s->taps == 1   ? 1
                    : s->taps == 2 ? 1 - t
                    : t < 1        ? ((a + 2) * t - (a + 3)) * t * t + 1
                                   : ((a * t - 5 * a) * t + 8 * a) * t - 4 * a;
    }
}

/* Sets *s by the node's mode, padding_mode and align_corners; VT_E_FORMAT: another mode. */
static vt_status read_modes(vt_import *im, sampler *s, vt_err *e) {
    static const struct {
        const char *name;
        int taps;
    } modes[] = {{"bilinear", 2}, {"linear", 2}, {"nearest", 1}, {"bicubic", 4}, {"cubic", 4}};
    static const char *const paddings[] = {"zeros", "border", "reflection"};
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++)
        if (vt_attr_is(im, "mode", modes[k].name, "bilinear")) s->taps = modes[k].taps;
    s->padding = (padding)3;
    for (int k = 0; k < 3; k++)
        if (vt_attr_is(im, "padding_mode", paddings[k], "zeros")) s->padding = (padding)k;
    s->align = vt_attr_int(im, "align_corners", 0) != 0;
    return s->taps && s->padding < 3 ? VT_OK : vt_import_fail(im, e, "has a mode that is not read");
}

/* Fills, of tap number `tap` around each place: map, of the result's numbers (-1: 0), and weight [N,1,H',W']. d: sides
 * of the maps; to: of the result. */
static void fill_tap(const sampler *s, const vt_dims *d, const vt_dims *to, const vt_value *grid, int tap, int32_t *map,
                     double *weight) {
    const size_t pixels = (size_t)(to->d[2] * to->d[3]), channels = (size_t)d->d[1];
    for (size_t n = 0; n < (size_t)to->d[0]; n++)
        for (size_t p = 0; p < pixels; p++) {
            int64_t x[MOST_TAPS], y[MOST_TAPS];
            double wx[MOST_TAPS], wy[MOST_TAPS];
            const size_t at = n * pixels + p;
            taps_of(s, vt_value_real(grid, 2 * at), d->d[3], x, wx);
            taps_of(s, vt_value_real(grid, 2 * at + 1), d->d[2], y, wy);
            const int64_t row = y[tap / s->taps], col = x[tap % s->taps];
            weight[at] = wy[tap / s->taps] * wx[tap % s->taps];
            for (size_t c = 0; c < channels; c++)
                map[(n * channels + c) * pixels + p] =
                    row < 0 || col < 0
                        ? -1
                        : (int32_t)((int64_t)(n * channels + c) * d->d[2] * d->d[3] + row * d->d[3] + col);
        }
}

static vt_status import(vt_import *im, vt_err *e) {
    sampler s = {0};
    int x, k, y = -1;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    VT_TRY(read_modes(im, &s, e));
    const vt_value grid = *vt_import_value(im, k);
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank != 4 || grid.dims.rank != 4 || grid.dims.d[3] != 2 || grid.dims.d[0] != d.d[0])
        return vt_import_fail(im, e, "has sides that are not [N,C,H,W] and [N,H,W,2]");
    const vt_dims to = {4, {d.d[0], d.d[1], grid.dims.d[1], grid.dims.d[2]}}, flat = {4, {d.d[0], 1, to.d[2], to.d[3]}};
    size_t n, n_flat;
    if (!vt_dims_count(&to, &n) || !vt_dims_count(&flat, &n_flat) || !d.d[2] || !d.d[3])
        return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    for (size_t i = 0; i < grid.n; i++)
        if (!(fabs(vt_value_real(&grid, i)) < 1e6)) return vt_import_fail(im, e, "has a place beyond 10^6");
    for (int tap = 0; tap < s.taps * s.taps; tap++) {
        int part, weights;
        int32_t *map = vt_import_take(im, n + 1, sizeof *map);
        double *weight = vt_import_take(im, n_flat + 1, sizeof *weight);
        if (!map || !weight) return vt_import_memory(im, e);
        fill_tap(&s, &d, &to, &grid, tap, map, weight);
        VT_TRY(vt_emit_map(im, x, &to, map, 0, &part, e));
        VT_TRY(vt_emit_reals(im, &flat, weight, &weights, e));
        VT_TRY(vt_emit_binary(im, "Mul", part, weights, &part, e));
        if (tap) VT_TRY(vt_emit_binary(im, "Add", y, part, &part, e));
        y = part;
    }
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(gridsample, "GridSample", import, .summary = "maps of two sides, constant grid", .since = 16)
