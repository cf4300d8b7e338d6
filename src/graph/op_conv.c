/* SPDX-License-Identifier: MIT */
/* Convolution (cross-correlation) over one to three sides, with constant weights: each group's windows as a matrix,
 * times the weights. */
#include <limits.h>
#include <string.h>
#include "graph/op.h"
#include "graph/windows.h"
#include "linalg/gemm.h"

typedef struct conv {
    vt_windows w;
    int64_t groups, out; /* out: channels of the result, of all groups */
    bool plain;          /* windows are the input as it is */
} conv;

#ifdef VT_DOUBLE
#define GEMM vt_gemm_f64
#else
#define GEMM vt_gemm_f32
#endif

/* Places of one tap along the innermost side: out pixels [*from, *to) have an input pixel, the first one at *at. */
static void valid_range(const vt_windows *w, int s, int64_t tap, int64_t *from, int64_t *to) {
    const int64_t shift = tap * w->dilation[s] - w->before[s];
    *from = shift >= 0 ? 0 : (-shift + w->stride[s] - 1) / w->stride[s];
    *to = w->in[s] - shift <= 0 ? 0 : (w->in[s] - shift - 1) / w->stride[s] + 1;
    if (*to > w->out[s]) *to = w->out[s];
    if (*from > *to) *from = *to;
}

/* For each tap and row of out pixels: to(x + ..., col + ...) over the innermost side. back: col is added to x. */
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

static void forward(const VT_R(vt_call) *c) {
    const conv *p = c->n->with;
    const vt_windows *w = &p->w;
    const int64_t in = w->channels / p->groups, out = p->out / p->groups, rows = in * w->taps, pixels = w->pixels_out;
    const real *bias = c->n->n_in > 2 ? c->x[2] : NULL;
    for (int64_t g = 0; g < w->n * p->groups; g++) {
        const real *x = c->x[0] + g * in * w->pixels_in, *weights = c->x[1] + g % p->groups * out * rows;
        real *y = c->y + g * out * pixels, *col = c->work;
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < pixels; i++) y[o * pixels + i] = bias ? bias[g % p->groups * out + o] : 0;
        for (int64_t i = 0; !p->plain && i < in; i++)
            copy_windows(w, (real *)(uintptr_t)(x + i * w->pixels_in), col + i * w->taps * pixels, false);
        GEMM(false, false, (int)out, (int)pixels, (int)rows, 1, weights, (int)rows, p->plain ? x : col, (int)pixels, 1,
             y, (int)pixels);
    }
}

static void backward(const VT_R(vt_call) *c) {
    const conv *p = c->n->with;
    const vt_windows *w = &p->w;
    const int64_t in = w->channels / p->groups, out = p->out / p->groups, rows = in * w->taps, pixels = w->pixels_out;
    if (!c->dx[0]) return;
    if (!c->add[0] && !p->plain) memset(c->dx[0], 0, (size_t)(w->n * w->channels * w->pixels_in) * sizeof(real));
    for (int64_t g = 0; g < w->n * p->groups; g++) {
        const real *dy = c->dy + g * out * pixels, *weights = c->x[1] + g % p->groups * out * rows;
        real *dx = c->dx[0] + g * in * w->pixels_in, *col = p->plain ? dx : c->work;
        GEMM(true, false, (int)rows, (int)pixels, (int)out, 1, weights, (int)rows, dy, (int)pixels,
             p->plain && c->add[0] ? 1 : 0, col, (int)pixels);
        for (int64_t i = 0; !p->plain && i < in; i++)
            copy_windows(w, dx + i * w->pixels_in, col + i * w->taps * pixels, true);
    }
}

static size_t work(const vt_graph *g, const vt_node *n, bool back) {
    const conv *p = n->with;
    (void)g, (void)back;
    return p->plain ? 0 : (size_t)(p->w.channels / p->groups * p->w.taps * p->w.pixels_out);
}

static double flops(const vt_graph *g, const vt_node *n) {
    const conv *p = n->with;
    return 2 * (double)g->values[n->out].n * (double)(p->w.channels / p->groups * p->w.taps);
}

#ifndef VT_DOUBLE
/* y = conv(x, weights) + bias (-1: none), by the attributes of the node at hand. */
vt_status vt_emit_conv(vt_import *im, int x, int weights, int bias, int *y, vt_err *e) {
    const int in[3] = {x, weights, bias};
    conv *p = vt_import_take(im, 1, sizeof *p);
    vt_dims d;
    if (!p) return vt_import_memory(im, e);
    const vt_value v = *vt_import_value(im, x), w = *vt_import_value(im, weights);
    if (!vt_value_is_constant(&w) || (bias >= 0 && !vt_value_is_constant(vt_import_value(im, bias))))
        return vt_import_fail(im, e, "has weights that follow the image");
    if (w.dims.rank != v.dims.rank || w.dims.rank < 3)
        return vt_import_fail(im, e, "has weights of %d sides for an input of %d", w.dims.rank, v.dims.rank);
    p->groups = vt_attr_int(im, "group", 1), p->out = w.dims.d[0];
    if (p->groups < 1 || v.dims.d[1] != w.dims.d[1] * p->groups || p->out % p->groups)
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
