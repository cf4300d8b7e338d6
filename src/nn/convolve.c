/* SPDX-License-Identifier: MIT */
#include "nn/convolve.h"

#ifndef VT_DOUBLE
#include <string.h>
#include "linalg/gemm.h"
#include "linalg/kernels.h"
#include "nn/lanes.h"

typedef enum way { NONE, WINOGRAD, DEPTHWISE, WINDOWS } way;

enum { POINTS = 16 }; /* of a tile: 4 x 4 numbers in, 2 x 2 out */

/* Returns whether stride and dilation are 1. */
static bool has_plain_steps(const vt_convolution *s) {
    return s->stride[0] == 1 && s->stride[1] == 1 && s->step[0] == 1 && s->step[1] == 1;
}

/* Returns how a convolution is computed; NONE: not at all. Of maps below 8 x 8 Winograd's transformed weights, 16 / 9
 * as large, would be read for too few tiles; every map has room for a whole window, there and back (certify/relax.h).
 */
static way way_of(const vt_convolution *s) {
    const bool wide = s->in % 16 == 0 && s->out % 16 == 0;
    if (s->groups == 1 && wide && has_plain_steps(s) && s->kernel[0] == 3 && s->kernel[1] == 3 && s->before[0] <= 2 &&
        s->before[1] <= 2 && s->ho * s->wo >= 64 && s->h > 2 && s->w > 2 && s->ho > 2 && s->wo > 2)
        return WINOGRAD;
    if (s->groups == 1) return WINDOWS;
    return s->groups == s->in && s->in == s->out && wide && has_plain_steps(s) && s->before[0] < s->kernel[0] &&
                   s->before[1] < s->kernel[1]
               ? DEPTHWISE
               : NONE;
}

/* The adjoint of a convolution of stride 1: one of the turned kernel. */
static vt_convolution adjoint_of(const vt_convolution *s) {
    vt_convolution t = *s;
    t.in = s->out, t.out = s->in, t.h = s->ho, t.w = s->wo, t.ho = s->h, t.wo = s->w;
    for (int k = 0; k < 2; k++) t.before[k] = s->kernel[k] - 1 - s->before[k];
    return t;
}

bool vt_convolution_fits(const vt_convolution *s) { return way_of(s) != NONE; }

/* ---- products with matrices in stripes of columns, each [k, width] ---- */

/* Columns of a stripe: NARROW ones of up to LONGEST rows are for linalg/small, which takes few rows of pixels, as
 * Winograd's tiles are, and with AVX-512 many; WIDE ones for oneDNN, which with AVX2 is up to a seventh faster so. */
enum { NARROW = 64, WIDE = 192, LONGEST = 512 };

/* Returns the columns of a stripe of a matrix that many pixels are multiplied by. */
static int stripe_of_many(void) { return vt_small_here() == VT_SMALL_AVX512 ? NARROW : WIDE; }

/* c [m, n] = a [m, k] b, or += with add; b [k, n] in such stripes (place_in_stripes) */
static void multiply_stripes(float *c, int ldc, const float *a, int lda, const float *b, int m, int k, int n,
                             int stripe, bool add) {
    const int parts = stripe == NARROW ? (k + LONGEST - 1) / LONGEST : 1;
    for (int j = 0; j < n; j += stripe) {
        const int width = n - j < stripe ? n - j : stripe;
        for (int i = 0, from = 0; i < parts; i++) {
            const int to = (int)((long)k * (i + 1) / parts);
            vt_gemm_f32(false, false, m, width, to - from, 1, a + from, lda, b + (size_t)j * (size_t)k + from * width,
                        width, add || i ? 1 : 0, c + j, ldc);
            from = to;
        }
    }
}

/* Returns where element (p, j) of a matrix [k, n] in stripes lies. */
static size_t place_in_stripes(int p, int j, int k, int n, int stripe) {
    const int first = j / stripe * stripe, width = n - first < stripe ? n - first : stripe;
    return (size_t)first * (size_t)k + (size_t)p * (size_t)width + (size_t)(j - first);
}

/* ---- Winograd ---- */

/* Tiles at a time: their numbers stay in the second cache. */
enum { TILES = 64 };

typedef struct tiles {
    const vt_convolution *s;
    int across, count;
    float *v, *m, *zeros; /* [POINTS, TILES, in], [POINTS, TILES, out], [in] */
} tiles;

/* Returns the tiles of a map and where their numbers lie in work. */
static tiles tiles_of(const vt_convolution *s, float *work) {
    tiles t = {.s = s, .across = (s->wo + 1) / 2};
    t.count = (s->ho + 1) / 2 * t.across;
    t.v = work, t.m = t.v + POINTS * TILES * (size_t)s->in, t.zeros = t.m + POINTS * TILES * (size_t)s->out;
    return t;
}

/* v = B^T d B for each of c channels, POINTS planes ld apart; d[4 i + j]: a tile's pixels. */
static void transform_tile(float *restrict v, size_t ld, const float *const *d, int c) {
#pragma GCC ivdep
    for (int k = 0; k < c; k++) {
        float t[POINTS];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const float a = d[j][k], b = d[4 + j][k], e = d[8 + j][k], f = d[12 + j][k];
            t[j] = a - e, t[4 + j] = b + e, t[8 + j] = e - b, t[12 + j] = b - f;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 16; i += 4) {
            v[(size_t)(i + 0) * ld + (size_t)k] = t[i] - t[i + 2];
            v[(size_t)(i + 1) * ld + (size_t)k] = t[i + 1] + t[i + 2];
            v[(size_t)(i + 2) * ld + (size_t)k] = t[i + 2] - t[i + 1];
            v[(size_t)(i + 3) * ld + (size_t)k] = t[i + 1] - t[i + 3];
        }
    }
}

/* y [2, 2] = A^T m A for each channel. */
static void gather_tile(float *restrict y, const float *restrict m, size_t ld, int c) {
#pragma GCC ivdep
    for (int k = 0; k < c; k++) {
        float t[8];
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            const float a = m[(size_t)j * ld + (size_t)k], b = m[(size_t)(4 + j) * ld + (size_t)k],
                        e = m[(size_t)(8 + j) * ld + (size_t)k], f = m[(size_t)(12 + j) * ld + (size_t)k];
            t[j] = a + b + e, t[4 + j] = b - e - f;
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            y[(2 * i) * c + k] = t[4 * i] + t[4 * i + 1] + t[4 * i + 2];
            y[(2 * i + 1) * c + k] = t[4 * i + 1] - t[4 * i + 2] - t[4 * i + 3];
        }
    }
}

/* Sets t->v [POINTS, n, in] to the transforms of n tiles of x from tile `from` on, with zeros outside the map. */
static void read_tiles(const tiles *t, const float *x, int from, int n) {
    const vt_convolution *s = t->s;
    for (int i = 0; i < n; i++) {
        const int top = (from + i) / t->across * 2 - s->before[0], left = (from + i) % t->across * 2 - s->before[1];
        const float *d[POINTS];
        for (int k = 0; k < POINTS; k++) {
            const int y = top + k / 4, px = left + k % 4;
            const bool inside = y >= 0 && y < s->h && px >= 0 && px < s->w;
            d[k] = inside ? x + ((size_t)y * (size_t)s->w + (size_t)px) * (size_t)s->in : t->zeros;
        }
        transform_tile(t->v + (size_t)i * (size_t)s->in, (size_t)n * (size_t)s->in, d, s->in);
    }
}

/* Writes the outputs of n tiles from tile `from` on, by t->m [POINTS, n, out], to y: plus bias (or NULL), or added to
 * it. Overwrites t->v. */
static void write_tiles(const tiles *t, float *y, const float *bias, bool add, int from, int n) {
    const vt_convolution *s = t->s;
    const int c = s->out;
    float *out = t->v; /* whose numbers were read */
    for (int i = 0; i < n; i++) {
        const int top = (from + i) / t->across * 2, left = (from + i) % t->across * 2;
        gather_tile(out, t->m + (size_t)i * (size_t)c, (size_t)n * (size_t)c, c);
        for (int k = 0; k < 4; k++) {
            if (top + k / 2 >= s->ho || left + k % 2 >= s->wo) continue;
            float *to = y + ((size_t)(top + k / 2) * (size_t)s->wo + (size_t)(left + k % 2)) * (size_t)c;
            const float *of = out + k * c;
            if (add)
                for (int j = 0; j < c; j++) to[j] += of[j];
            else if (bias)
                for (int j = 0; j < c; j++) to[j] = of[j] + bias[j];
            else
                memcpy(to, of, (size_t)c * sizeof *to);
        }
    }
}

/* y = the convolution s of x by Winograd's transforms, plus bias (or NULL), or += with add; packed: one of
 * pack_winograd's. */
static void run_winograd(float *y, float *work, const float *x, const float *packed, const float *bias, bool add,
                         const vt_convolution *s) {
    const tiles t = tiles_of(s, work);
    const size_t matrix = (size_t)s->in * (size_t)s->out;
    memset(t.zeros, 0, (size_t)s->in * sizeof *t.zeros);
    for (int from = 0; from < t.count; from += TILES) {
        const int n = t.count - from < TILES ? t.count - from : TILES;
        read_tiles(&t, x, from, n);
        for (int k = 0; k < POINTS; k++)
            multiply_stripes(t.m + (size_t)k * (size_t)(n * s->out), s->out, t.v + (size_t)k * (size_t)(n * s->in),
                             s->in, packed + (size_t)k * matrix, n, s->in, s->out, NARROW, false);
        write_tiles(&t, y, bias, add, from, n);
    }
}

/* G g G^T of a 3 x 3 kernel */
static void transform_kernel(double u[POINTS], const double g[9]) {
    double t[12];
    for (int j = 0; j < 3; j++) {
        const double a = g[j], b = g[3 + j], c = g[6 + j];
        t[j] = a, t[3 + j] = (a + b + c) / 2, t[6 + j] = (a - b + c) / 2, t[9 + j] = c;
    }
    for (int i = 0; i < 4; i++) {
        const double a = t[3 * i], b = t[3 * i + 1], c = t[3 * i + 2];
        u[4 * i] = a, u[4 * i + 1] = (a + b + c) / 2, u[4 * i + 2] = (a - b + c) / 2, u[4 * i + 3] = c;
    }
}

/* Sets to [POINTS, matrix in stripes] to the transformed kernels of w, times scale (or NULL); turned: of the adjoint,
 * whose inputs are s's outputs. */
static void pack_winograd(float *to, const vt_convolution *s, const float *w, const float *scale, bool turned) {
    const size_t matrix = (size_t)s->in * (size_t)s->out;
    for (int o = 0; o < s->out; o++)
        for (int i = 0; i < s->in; i++) {
            double g[9], u[POINTS];
            for (int k = 0; k < 9; k++)
                g[k] = (scale ? (double)scale[o] : 1) *
                       (double)w[((size_t)o * (size_t)s->in + (size_t)i) * 9 + (size_t)(turned ? 8 - k : k)];
            transform_kernel(u, g);
            const size_t at =
                turned ? place_in_stripes(o, i, s->out, s->in, NARROW) : place_in_stripes(i, o, s->in, s->out, NARROW);
            for (int k = 0; k < POINTS; k++) to[(size_t)k * matrix + at] = (float)u[k];
        }
}

/* ---- depthwise ---- */

/* y = bias (or 0) + the kernel w over x, or += with add, of n pixels of a row and sixteen channels; x is padded, [..,
 * ld, c]. */
static inline __attribute__((always_inline)) void correlate(float *y, const float *x, const float *w, const float *bias,
                                                            bool add, int ld, const vt_convolution *s, const int n) {
    const size_t c = (size_t)s->in;
    vt_lanes sum[7];
#pragma GCC unroll 7
    for (int i = 0; i < n; i++) sum[i] = bias ? vt_lanes_load(bias) : vt_lanes_all(0);
    for (int ky = 0; ky < s->kernel[0]; ky++)
        for (int kx = 0; kx < s->kernel[1]; kx++, w += c) {
            const float *at = x + ((size_t)ky * (size_t)ld + (size_t)kx) * c;
            const vt_lanes f = vt_lanes_load(w);
#pragma GCC unroll 7
            for (int i = 0; i < n; i++) sum[i] = vt_lanes_product_add(f, vt_lanes_load(at + (size_t)i * c), sum[i]);
        }
#pragma GCC unroll 7
    for (int i = 0; i < n; i++) {
        float *to = y + (size_t)i * c;
        vt_lanes_store(to, add ? vt_lanes_add(sum[i], vt_lanes_load(to)) : sum[i]);
    }
}

/* y = the depthwise convolution s of x, plus bias (or NULL), or += with add. work: x with its padding. */
static void run_depthwise(float *y, float *work, const float *x, const float *packed, const float *bias, bool add,
                          const vt_convolution *s) {
    const int ld = s->wo + s->kernel[1] - 1, tall = s->ho + s->kernel[0] - 1;
    const size_t c = (size_t)s->in;
    memset(work, 0, (size_t)ld * (size_t)tall * c * sizeof *work);
    for (int i = 0; i < s->h && i + s->before[0] < tall; i++) {
        const int n = s->w < ld - s->before[1] ? s->w : ld - s->before[1];
        memcpy(work + ((size_t)(i + s->before[0]) * (size_t)ld + (size_t)s->before[1]) * c,
               x + (size_t)i * (size_t)s->w * c, (size_t)n * c * sizeof *work);
    }
    for (int oy = 0; oy < s->ho; oy++)
        for (size_t k = 0; k < c; k += 16)
            for (int ox = 0; ox < s->wo;) {
                float *to = y + ((size_t)oy * (size_t)s->wo + (size_t)ox) * c + k;
                const float *from = work + ((size_t)oy * (size_t)ld + (size_t)ox) * c + k;
                const float *b = bias ? bias + k : NULL;
                if (s->wo - ox >= 7)
                    correlate(to, from, packed + k, b, add, ld, s, 7), ox += 7;
                else
                    correlate(to, from, packed + k, b, add, ld, s, 1), ox++;
            }
}

/* ---- windows as a matrix ---- */

/* Is the map itself the matrix of windows: 1 x 1, stride 1, no border? Asked of one group alone. */
static bool is_pointwise(const vt_convolution *s) {
    return has_plain_steps(s) && s->kernel[0] * s->kernel[1] == 1 && s->h == s->ho && s->w == s->wo && !s->before[0] &&
           !s->before[1];
}

enum { BAND = 1 << 18 }; /* floats of windows at a time */

/* Returns how many numbers one window has, of all input channels. */
static int taps_of(const vt_convolution *s) { return s->kernel[0] * s->kernel[1] * s->in; }

/* Rows of out pixels at a time. */
static int band_of(const vt_convolution *s) {
    const int n = BAND / (taps_of(s) * s->wo);
    return n < 1 ? 1 : n > s->ho ? s->ho : n;
}

/* Sets col [pixels of out rows [from, to), ky, kx, in] to the windows of x, zero outside; back: adds col to the pixels
 * of x instead. */
static void copy_windows(float *col, float *x, const vt_convolution *s, int from, int to, bool back) {
    const size_t c = (size_t)s->in;
    for (int oy = from; oy < to; oy++)
        for (int ox = 0; ox < s->wo; ox++)
            for (int k = 0; k < s->kernel[0] * s->kernel[1]; k++, col += c) {
                const int y = oy * s->stride[0] - s->before[0] + k / s->kernel[1] * s->step[0];
                const int px = ox * s->stride[1] - s->before[1] + k % s->kernel[1] * s->step[1];
                const bool inside = y >= 0 && y < s->h && px >= 0 && px < s->w;
                float *at = inside ? x + ((size_t)y * (size_t)s->w + (size_t)px) * c : NULL;
                if (!back && !inside) memset(col, 0, c * sizeof *col);
                if (!back && inside) memcpy(col, at, c * sizeof *col);
                for (size_t j = 0; back && inside && j < c; j++) at[j] += col[j];
            }
}

/* y = the windows of x, a band of rows at a time in work, times packed, plus bias (or NULL). */
static void forward_windows(float *y, float *work, const float *x, const float *packed, const float *bias,
                            const vt_convolution *s) {
    const int step = band_of(s), k = taps_of(s);
    for (int from = 0; from < s->ho; from += step) {
        const int to = from + step < s->ho ? from + step : s->ho, m = (to - from) * s->wo;
        float *out = y + (size_t)from * (size_t)s->wo * (size_t)s->out;
        const float *a = is_pointwise(s) ? x + (size_t)from * (size_t)s->wo * (size_t)s->in : work;
        if (a == work) copy_windows(work, (float *)(size_t)x, s, from, to, false);
        for (int i = 0; bias && i < m; i++)
            memcpy(out + (size_t)i * (size_t)s->out, bias, (size_t)s->out * sizeof *out);
        multiply_stripes(out, s->out, a, k, packed, m, k, s->out, stripe_of_many(), bias != NULL);
    }
}

/* dx = the adjoint of forward_windows at dy, or += with add; packed: the weights' other order. */
static void backward_windows(float *dx, float *work, const float *dy, const float *packed, bool add,
                             const vt_convolution *s) {
    const int step = band_of(s), k = taps_of(s);
    const bool whole = is_pointwise(s);
    if (!add && !whole) memset(dx, 0, (size_t)s->h * (size_t)s->w * (size_t)s->in * sizeof *dx);
    for (int from = 0; from < s->ho; from += step) {
        const int to = from + step < s->ho ? from + step : s->ho, m = (to - from) * s->wo;
        float *col = whole ? dx + (size_t)from * (size_t)s->wo * (size_t)s->in : work;
        multiply_stripes(col, k, dy + (size_t)from * (size_t)s->wo * (size_t)s->out, s->out, packed, m, s->out, k,
                         stripe_of_many(), whole && add);
        if (!whole) copy_windows(work, dx, s, from, to, true);
    }
}

/* ---- any of them ---- */

/* Returns the floats of the weights in one of their two orders, forward's or backward's. */
static size_t packed_half(const vt_convolution *s) {
    const size_t matrix = (size_t)s->in / (size_t)s->groups * (size_t)s->out;
    const size_t n = matrix * (way_of(s) == WINOGRAD ? POINTS : (size_t)(s->kernel[0] * s->kernel[1]));
    return (n + 15) / 16 * 16;
}

size_t vt_convolution_packed(const vt_convolution *s) { return 2 * packed_half(s); }

size_t vt_convolution_work(const vt_convolution *s) {
    const size_t c = (size_t)(s->in > s->out ? s->in : s->out);
    const size_t tall = (size_t)((s->h > s->ho ? s->h : s->ho) + s->kernel[0]),
                 wide = (size_t)((s->w > s->wo ? s->w : s->wo) + s->kernel[1]);
    switch (way_of(s)) {
    case WINOGRAD:
        return POINTS * TILES * (size_t)(s->in + s->out) + c;
    case DEPTHWISE:
        return tall * wide * c;
    default:
        return is_pointwise(s) ? 0 : (size_t)(band_of(s) * s->wo) * (size_t)taps_of(s);
    }
}

void vt_convolution_pack(float *to, const vt_convolution *s, const float *w, const float *scale) {
    const int taps = s->kernel[0] * s->kernel[1], in = s->in / s->groups, rows = taps * in;
    float *back = to + packed_half(s);
    if (way_of(s) == WINOGRAD) {
        pack_winograd(to, s, w, scale, false), pack_winograd(back, s, w, scale, true);
        return;
    }
    for (int o = 0; o < s->out; o++)
        for (int i = 0; i < in; i++)
            for (int k = 0; k < taps; k++, w++) {
                const float v = scale ? *w * scale[o] : *w;
                if (way_of(s) == DEPTHWISE) {
                    to[k * s->out + o] = back[(taps - 1 - k) * s->out + o] = v;
                } else {
                    to[place_in_stripes(k * in + i, o, rows, s->out, stripe_of_many())] = v;
                    back[place_in_stripes(o, k * in + i, s->out, rows, stripe_of_many())] = v;
                }
            }
}

void vt_convolution_forward(float *y, float *work, const float *x, const float *packed, const float *bias,
                            const vt_convolution *s) {
    if (way_of(s) == WINOGRAD) run_winograd(y, work, x, packed, bias, false, s);
    if (way_of(s) == DEPTHWISE) run_depthwise(y, work, x, packed, bias, false, s);
    if (way_of(s) == WINDOWS) forward_windows(y, work, x, packed, bias, s);
}

void vt_convolution_backward(float *dx, float *work, const float *dy, const float *packed, bool add,
                             const vt_convolution *s) {
    const vt_convolution t = adjoint_of(s);
    const float *back = packed + packed_half(s);
    if (way_of(s) == WINOGRAD) run_winograd(dx, work, dy, back, NULL, add, &t);
    if (way_of(s) == DEPTHWISE) run_depthwise(dx, work, dy, back, NULL, add, &t);
    if (way_of(s) == WINDOWS) backward_windows(dx, work, dy, back, add, s);
}
#endif
