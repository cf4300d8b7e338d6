/* SPDX-License-Identifier: MIT */
/* Convolution (cross-correlation) over one to three sides, with constant weights: each group's windows as a matrix,
 * times the weights; in float by nn/convolve where the fusion brought the weights into its order. */
#include <limits.h>
#include <string.h>
#include "graph/conv.h"
#include "graph/op.h"
#include "linalg/gemm.h"

/* Sets *from and *to so that along side s the out pixels [*from, *to) have an input pixel of the window's place
 * `tap`. */
static void valid_range(const vt_windows *w, int s, int64_t tap, int64_t *from, int64_t *to) {
    const int64_t shift = tap * w->dilation[s] - w->before[s];
    *from = shift >= 0 ? 0 : (-shift + w->stride[s] - 1) / w->stride[s];
    *to = w->in[s] - shift <= 0 ? 0 : (w->in[s] - shift - 1) / w->stride[s] + 1;
    if (*to > w->out[s]) *to = w->out[s];
    if (*from > *to) *from = *to;
}

/* Copies one channel x to col [taps, out pixels], 0 in the padding; back: adds col to x instead. */
static void copy_windows(const vt_windows *w, real *x, real *col, bool back) {
    for (int64_t k = 0; k < w->taps; k++) {
        const int64_t kz = k / (w->kernel[1] * w->kernel[2]), ky = k / w->kernel[2] % w->kernel[1],
                      kx = k % w->kernel[2];
        int64_t from, to;
        valid_range(w, 2, kx, &from, &to);
        for (int64_t oz = 0; oz < w->out[0]; oz++)
            for (int64_t oy = 0; oy < w->out[1]; oy++) {
                real *row = col + ((k * w->out[0] + oz) * w->out[1] + oy) * w->out[2];
                const int64_t z = oz * w->stride[0] - w->before[0] + kz * w->dilation[0];
                const int64_t y = oy * w->stride[1] - w->before[1] + ky * w->dilation[1];
                const bool inside = z >= 0 && z < w->in[0] && y >= 0 && y < w->in[1];
                real *in = x + (z * w->in[1] + y) * w->in[2] + kx * w->dilation[2] - w->before[2];
                const int64_t a = inside ? from : 0, b = inside ? to : 0, step = w->stride[2];
                if (back) {
                    for (int64_t o = a; o < b; o++) in[o * step] += row[o];
                    continue;
                }
                for (int64_t o = 0; o < a; o++) row[o] = 0;
                for (int64_t o = a; o < b; o++) row[o] = in[o * step];
                for (int64_t o = b; o < w->out[2]; o++) row[o] = 0;
            }
    }
}

/* Where the parts of the workspace begin, in reals; `all`: their sum. */
typedef struct rooms {
    size_t weights, x, y, all;
} rooms;

/* Returns where windows, scaled weights and maps in the other order begin in the workspace. */
static rooms rooms_of(const vt_conv *p, const vt_node *n) {
    const size_t in = (size_t)(p->w.channels / p->groups * p->w.taps), pixels = (size_t)p->w.pixels_out;
    rooms r = {.weights = p->plain ? 0 : in * pixels};
    r.x = r.weights + (n->n_in > VT_CONV_SCALE ? (size_t)p->out * in : 0);
    r.y = r.x + (p->last ? (size_t)(p->w.channels * p->w.pixels_in) : 0);
    r.all = r.y + (p->last ? (size_t)p->out * pixels : 0);
    return r;
}

/* Returns the weights, times the scale of their channel if there is one, then in c->work. */
static const real *scaled_weights(const VT_R(vt_call) *c) {
    const vt_conv *p = c->n->with;
    if (c->n->n_in <= VT_CONV_SCALE) return c->x[1];
    real *to = c->work + rooms_of(p, c->n).weights;
    const size_t n = (size_t)(p->w.channels / p->groups * p->w.taps);
    for (size_t o = 0; o < (size_t)p->out; o++)
        for (size_t i = 0; i < n; i++) to[o * n + i] = c->x[1][o * n + i] * c->x[VT_CONV_SCALE][o];
    return to;
}

/* Sets to [cols, rows] to the transpose of from [rows, cols], or adds it. */
static void transpose_block(real *to, const real *from, int64_t rows, int64_t cols, bool add) {
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            to[j * rows + i] = add ? to[j * rows + i] + from[i * cols + j] : from[i * cols + j];
}

static void forward(const VT_R(vt_call) *c) {
    const vt_conv *p = c->n->with;
    const vt_windows *w = &p->w;
    const int64_t in = w->channels / p->groups, out = p->out / p->groups, rows = in * w->taps, pixels = w->pixels_out;
    const real *bias = c->n->n_in > 2 ? c->x[2] : NULL, *image = c->x[0];
#ifndef VT_DOUBLE
    if (p->packed) {
        vt_convolution_forward(c->y, c->work, image, p->packed, bias, &p->shape);
        return;
    }
#endif
    const rooms r = rooms_of(p, c->n);
    const real *all = scaled_weights(c);
    real *result = p->last ? c->work + r.y : c->y;
    if (p->last) transpose_block(c->work + r.x, image, w->pixels_in, w->channels, false), image = c->work + r.x;
    for (int64_t g = 0; g < w->n * p->groups; g++) {
        const real *x = image + g * in * w->pixels_in, *weights = all + g % p->groups * out * rows;
        real *y = result + g * out * pixels, *col = c->work;
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < pixels; i++) y[o * pixels + i] = bias ? bias[g % p->groups * out + o] : 0;
        for (int64_t i = 0; !p->plain && i < in; i++)
            copy_windows(w, (real *)(uintptr_t)(x + i * w->pixels_in), col + i * w->taps * pixels, false);
        VT_R(vt_gemm)(false, false, (int)out, (int)pixels, (int)rows, 1, weights, (int)rows, p->plain ? x : col,
                      (int)pixels, 1, y, (int)pixels);
    }
    if (p->last) transpose_block(c->y, result, p->out, pixels, false);
}

static void backward(const VT_R(vt_call) *c) {
    const vt_conv *p = c->n->with;
    const vt_windows *w = &p->w;
    const int64_t in = w->channels / p->groups, out = p->out / p->groups, rows = in * w->taps, pixels = w->pixels_out;
    if (!c->dx[0]) return;
#ifndef VT_DOUBLE
    if (p->packed) {
        vt_convolution_backward(c->dx[0], c->work, c->dy, p->packed, c->add[0], &p->shape);
        return;
    }
#endif
    const rooms r = rooms_of(p, c->n);
    const real *all = scaled_weights(c), *given = p->last ? c->work + r.y : c->dy;
    real *to = p->last ? c->work + r.x : c->dx[0];
    const bool add = c->add[0] && !p->last;
    if (p->last) transpose_block(c->work + r.y, c->dy, pixels, p->out, false);
    if (!add && !p->plain) memset(to, 0, (size_t)(w->n * w->channels * w->pixels_in) * sizeof(real));
    for (int64_t g = 0; g < w->n * p->groups; g++) {
        const real *dy = given + g * out * pixels, *weights = all + g % p->groups * out * rows;
        real *dx = to + g * in * w->pixels_in, *col = p->plain ? dx : c->work;
        VT_R(vt_gemm)(true, false, (int)rows, (int)pixels, (int)out, 1, weights, (int)rows, dy, (int)pixels,
                      p->plain && add ? 1 : 0, col, (int)pixels);
        for (int64_t i = 0; !p->plain && i < in; i++)
            copy_windows(w, dx + i * w->pixels_in, col + i * w->taps * pixels, true);
    }
    if (p->last) transpose_block(c->dx[0], to, w->channels, w->pixels_in, c->add[0]);
}

/* Returns the reals that both copies need, the double one without packed weights: the plan is for both. */
static size_t work(const vt_graph *g, const vt_node *n, bool back) {
    const vt_conv *p = n->with;
    const size_t plain = rooms_of(p, n).all;
    (void)g, (void)back;
#ifndef VT_DOUBLE
    if (p->packed && vt_convolution_work(&p->shape) > plain) return vt_convolution_work(&p->shape);
#endif
    return plain;
}

static double flops(const vt_graph *g, const vt_node *n) {
    const vt_conv *p = n->with;
    return 2 * (double)g->values[n->out].n * (double)(p->w.channels / p->groups * p->w.taps);
}

#ifndef VT_DOUBLE
/* Emits conv(x, weights) + bias (-1: none), by the attributes of the node at hand; VT_E_FORMAT: weights that follow the
 * image or do not fit x, or windows of more than 2^28 numbers. */
vt_status vt_emit_conv(vt_import *im, int x, int weights, int bias, int *y, vt_err *e) {
    const int in[3] = {x, weights, bias};
    vt_conv *p = vt_import_take(im, 1, sizeof *p);
    vt_dims d;
    if (!p) return vt_import_memory(im, e);
    const vt_value v = *vt_import_value(im, x), w = *vt_import_value(im, weights);
    if (!vt_value_is_constant(&w) || (bias >= 0 && !vt_value_is_constant(vt_import_value(im, bias))))
        return vt_import_fail(im, e, "has weights that follow the image");
    if (w.dims.rank != v.dims.rank || w.dims.rank < 3)
        return vt_import_fail(im, e, "has weights of %d sides for an input of %d", w.dims.rank, v.dims.rank);
    p->groups = vt_attr_int(im, "group", 1), p->out = w.dims.d[0];
    if (p->groups < 1 || !v.dims.d[1] || v.dims.d[1] % p->groups || v.dims.d[1] / p->groups != w.dims.d[1] ||
        p->out % p->groups)
        return vt_import_fail(im, e, "has %lld groups of %lld channels, its input %lld", (long long)p->groups,
                              (long long)w.dims.d[1], (long long)v.dims.d[1]);
    if (bias >= 0 && (int64_t)vt_import_value(im, bias)->n != p->out)
        return vt_import_fail(im, e, "has a bias that is not one a channel");
    VT_TRY(vt_import_windows(im, x, &w.dims.d[2], p->out, &p->w, &d, e));
    const int64_t rows = w.dims.d[1] * p->w.taps;
    p->plain = p->w.taps == 1 && p->w.pixels_in == p->w.pixels_out;
    for (int s = 0; s < 3; s++) p->plain = p->plain && p->w.stride[s] == 1 && p->w.before[s] == 0;
    if (rows * p->w.pixels_out > (int64_t)VT_GRAPH_VALUES || p->w.pixels_out > INT_MAX || rows > INT_MAX)
        return vt_import_fail(im, e, "has windows of %lld numbers, must be at most 2^28",
                              (long long)(rows * p->w.pixels_out));
    return vt_emit(im, vt_op_find_f32("Conv"), in, bias >= 0 ? 3 : 2, &d, false, p, y, e);
}
#endif

static vt_status import(vt_import *im, vt_err *e) {
    int x, weights, y;
    VT_TRY(vt_input_count(im, 2, 3, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_real_input(im, 1, &weights, e));
    VT_TRY(vt_emit_conv(im, x, weights, vt_input(im, 2), &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_conv);
const VT_R(vt_op) VT_R(vt_op_conv) =
    {.name = "Conv", .import = import, .forward = forward, .backward = backward, .work = work, .flops = flops};
