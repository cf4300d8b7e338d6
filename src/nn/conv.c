/* SPDX-License-Identifier: MIT */
#include "nn/conv.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The pixel of an h x w map under tap k of a 3 x 3 kernel around (y, x); -1 outside. */
static inline ptrdiff_t pixel_under_tap(int y, int x, int k, int h, int w) {
    y += k / 3 - 1, x += k % 3 - 1;
    return y < 0 || y >= h || x < 0 || x >= w ? -1 : (ptrdiff_t)y * w + x;
}

/* ---- 3 x 3 over all channels: patches as a matrix, then a product ---- */

enum { BAND = 1 << 18 }; /* reals of patches at a time */

/* Returns how many rows of the output are computed at a time. */
static int band_rows(const vt_conv_shape *s) {
    size_t row = (size_t)vt_conv_side(s->w, s->stride) * 9 * (size_t)s->in, n = BAND / row, h = (size_t)s->h;
    return n < 1 ? 1 : n > h ? s->h : (int)n;
}

size_t VT_R(vt_conv_col_len)(const vt_conv_shape *s) {
    return (size_t)band_rows(s) * (size_t)vt_conv_side(s->w, s->stride) * 9 * (size_t)s->in;
}

/* Sets col [(oy, ox), (channel, ky, kx)], oy in [from, to), to the patches of x, in the order of a weight [out, in, 3,
 * 3]; zero outside the map. */
static void gather_patches(real *col, const real *x, const vt_conv_shape *s, int from, int to) {
    int wo = vt_conv_side(s->w, s->stride), n = s->in;
    for (int oy = from; oy < to; oy++)
        for (int ox = 0; ox < wo; ox++, col += 9 * n)
            for (int k = 0; k < 9; k++) {
                ptrdiff_t q = pixel_under_tap(oy * s->stride, ox * s->stride, k, s->h, s->w);
                for (int c = 0; c < n; c++) col[c * 9 + k] = q < 0 ? 0 : x[q * n + c];
            }
}

/* The transpose of gather_patches: adds col, the patches of output rows [from, to), to the pixels of dx that they
 * cover. */
static void scatter_patches(real *dx, const real *col, const vt_conv_shape *s, int from, int to) {
    int wo = vt_conv_side(s->w, s->stride), n = s->in;
    for (int oy = from; oy < to; oy++)
        for (int ox = 0; ox < wo; ox++, col += 9 * n)
            for (int k = 0; k < 9; k++) {
                ptrdiff_t q = pixel_under_tap(oy * s->stride, ox * s->stride, k, s->h, s->w);
                if (q < 0) continue;
                for (int c = 0; c < n; c++) dx[q * n + c] += col[c * 9 + k];
            }
}

void VT_R(vt_conv_forward)(real *y, real *col, const real *x, VT_R(vt_linear) l, const vt_conv_shape *s, int images) {
    int ho = vt_conv_side(s->h, s->stride), wo = vt_conv_side(s->w, s->stride), step = band_rows(s);
    for (int i = 0; i < images; i++, x += s->h * s->w * s->in, y += ho * wo * s->out)
        for (int at = 0; at < ho; at += step) {
            int end = at + step < ho ? at + step : ho;
            gather_patches(col, x, s, at, end);
            VT_R(vt_linear_forward)(y + (size_t)at * (size_t)wo * (size_t)s->out, NULL, col, l, (end - at) * wo);
        }
}

/* y = col(x) w^T + b of one image:  dw += dy^T col,  db += the sum of dy (neither without x),  dx (or NULL) = the
 * transpose of col applied to dy w. col: scratch. */
static void image_backward(real *dx, real *col, const real *dy, const real *x, VT_R(vt_linear) l,
                           const vt_conv_shape *s) {
    int ho = vt_conv_side(s->h, s->stride), wo = vt_conv_side(s->w, s->stride), step = band_rows(s);
    if (dx) memset(dx, 0, (size_t)s->h * (size_t)s->w * (size_t)s->in * sizeof(real));
    for (int at = 0; at < ho; at += step) {
        int end = at + step < ho ? at + step : ho, m = (end - at) * wo;
        const real *g = dy + (size_t)at * (size_t)wo * (size_t)s->out;
        if (x) gather_patches(col, x, s, at, end);
        if (x) VT_R(vt_linear_backward)(NULL, NULL, g, col, l, m);
        if (!dx) continue;
        VT_R(vt_linear_backward)(col, NULL, g, NULL, l, m);
        scatter_patches(dx, col, s, at, end);
    }
}

void VT_R(vt_conv_backward)(real *dx, real *col, const real *dy, const real *x, VT_R(vt_linear) l,
                            const vt_conv_shape *s, int images) {
    const size_t in = (size_t)s->h * (size_t)s->w * (size_t)s->in,
                 out = (size_t)vt_conv_side(s->h, s->stride) * (size_t)vt_conv_side(s->w, s->stride) * (size_t)s->out;
    for (size_t i = 0; i < (size_t)images; i++)
        image_backward(dx ? dx + i * in : NULL, col, dy + i * out, x ? x + i * in : NULL, l, s);
}

/* ---- depthwise ---- */

/* w [c, 9] -> taps [9, c], so that channels are the inner loop; turned: the adjoint's kernel, by 180 degrees. */
static void transpose_taps(real *taps, const real *w, bool turned, int c) {
    for (int k = 0; k < 9; k++)
        for (int j = 0; j < c; j++) taps[k * c + j] = w[j * 9 + (turned ? 8 - k : k)];
}

/* y [images, h, wd, c] = b (or 0) + the nine shifted maps of x times their taps [9, c] */
static void correlate_depthwise(real *y, const real *taps, const real *x, const real *b, int images, int h, int wd,
                                int c) {
    for (int row = 0; row < images * h; row++)
        for (int px = 0; px < wd; px++, y += c) {
            const real *image = x + (size_t)(row / h * h) * (size_t)(wd * c);
            for (int j = 0; j < c; j++) y[j] = b ? b[j] : 0;
            for (int k = 0; k < 9; k++) {
                ptrdiff_t q = pixel_under_tap(row % h, px, k, h, wd);
                if (q < 0) continue;
                for (int j = 0; j < c; j++) y[j] += taps[k * c + j] * image[q * c + j];
            }
        }
}

void VT_R(vt_depthwise_forward)(real *y, real *taps, const real *x, VT_R(vt_linear) l, int images, int h, int wd) {
    transpose_taps(taps, l.w, false, l.n);
    correlate_depthwise(y, taps, x, l.b, images, h, wd, l.n);
}

/* dw [c, 9] += sums over pixels of one image of dy times the shifted map; taps [9, c]: scratch */
static void depthwise_dw(real *dw, real *taps, const real *dy, const real *x, int h, int wd, int c) {
    memset(taps, 0, 9 * (size_t)c * sizeof(real));
    for (int py = 0; py < h; py++)
        for (int px = 0; px < wd; px++, dy += c)
            for (int k = 0; k < 9; k++) {
                ptrdiff_t q = pixel_under_tap(py, px, k, h, wd);
                if (q < 0) continue;
                for (int j = 0; j < c; j++) taps[k * c + j] += dy[j] * x[q * c + j];
            }
    for (int j = 0; j < c; j++)
        for (int k = 0; k < 9; k++) dw[j * 9 + k] += taps[k * c + j];
}

void VT_R(vt_depthwise_backward)(real *dx, real *taps, const real *dy, const real *x, VT_R(vt_linear) l, int images,
                                 int h, int wd) {
    const int c = l.n, n = h * wd;
    for (int i = 0; x && l.dw && i < images; i++) depthwise_dw(l.dw, taps, dy + i * n * c, x + i * n * c, h, wd, c);
    for (int i = 0; x && l.db && i < images * n; i++) VT_R(vt_add_to)(l.db, dy + i * c, (size_t)c);
    if (!dx) return;
    transpose_taps(taps, l.w, true, c);
    correlate_depthwise(dx, taps, dy, NULL, images, h, wd, c);
}
