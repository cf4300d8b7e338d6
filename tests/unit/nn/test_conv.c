/* SPDX-License-Identifier: MIT */
/* nn/conv in double: against sums written out, as adjoints of each other, with NULL and accumulating gradients, and
 * nothing touched outside its buffers. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "linalg/gemm.h"
#include "nn/conv.h"

/* A value of the map, zero beyond its edges. */
static double at(const double *x, int h, int w, int c, int y, int px, int j) {
    return y < 0 || y >= h || px < 0 || px >= w ? 0 : x[((size_t)y * (size_t)w + (size_t)px) * (size_t)c + (size_t)j];
}

/* The definition: y[o] = b[o] + sum over channels and taps of w[o, j, ky, kx] x[stride oy + ky - 1, stride ox + kx - 1,
 * j] */
static void naive(double *y, const double *x, const double *w, const double *b, const vt_conv_shape *s) {
    int ho = (s->h - 1) / s->stride + 1, wo = (s->w - 1) / s->stride + 1;
    for (int oy = 0; oy < ho; oy++)
        for (int ox = 0; ox < wo; ox++)
            for (int o = 0; o < s->out; o++, y++) {
                *y = b ? b[o] : 0;
                for (int j = 0; j < s->in; j++)
                    for (int k = 0; k < 9; k++)
                        *y += w[(o * s->in + j) * 9 + k] *
                              at(x, s->h, s->w, s->in, s->stride * oy + k / 3 - 1, s->stride * ox + k % 3 - 1, j);
            }
}

/* Sums of 9 in terms of size 1 round by less than 1e-14 times their number. */
static void conv_case(const vt_conv_shape s, bool bias) {
    size_t rows = (size_t)vt_conv_side(s.h, s.stride) * (size_t)vt_conv_side(s.w, s.stride), ny = rows * (size_t)s.out;
    size_t nx = (size_t)(s.h * s.w * s.in), nw = (size_t)(9 * s.in * s.out);
    double *x = t_doubles(nx, 1, 1), *w = t_doubles(nw, 2, 1), *wt = t_doubles(nw, 0, 0), *dy = t_doubles(ny, 3, 1);
    double *y = t_doubles(ny, 0, 0), *want = t_doubles(ny, 0, 0), *col = t_doubles(vt_conv_col_len_f64(&s), 0, 0);
    double *dx = t_doubles(nx, 0, 0), *dw = t_doubles(nw, 4, 1), *was = t_doubles(nw, 4, 1);
    double *b = bias ? t_doubles((size_t)s.out, 5, 1) : NULL, *db = bias ? t_doubles((size_t)s.out, 6, 1) : NULL;
    double tol = 9e-14 * s.in, constant = 0;
    for (int o = 0; o < s.out; o++)
        for (int k = 0; k < 9 * s.in; k++) wt[k * s.out + o] = w[o * 9 * s.in + k];
    t_freeze(x), t_freeze(w), t_freeze(wt), t_freeze(dy);
    naive(want, x, w, b, &s);
    for (int turn = 0; turn < 2; turn++) {
        vt_conv_forward_f64(y, col, x, (vt_linear_f64){w, turn ? wt : NULL, b, .n = s.out, .k = 9 * s.in}, &s, 1);
        t_le(t_max_diff(y, want, ny), tol, "%d x %d x %d, stride %d: forward", s.h, s.w, s.in, s.stride);
    }
    if (bias) t_freeze(b);
    double *start_b = bias ? t_doubles((size_t)s.out, 6, 1) : NULL; /* what db begins with */
    for (size_t i = 0; bias && i < ny; i++) constant += b[i % (size_t)s.out] * dy[i];
    /* y - b is linear in x and in w: <dy, y - b> = <dx, x> = <dw, w>, sums of ny terms of size sqrt(9 in) */
    double sum = t_dot(dy, y, ny) - constant, room = tol * sqrt((double)ny) * 10;
    vt_conv_backward_f64(dx, col, dy, x, (vt_linear_f64){w, .dw = dw, .db = db, .n = s.out, .k = 9 * s.in}, &s, 1);
    for (size_t i = 0; i < nw; i++) dw[i] -= was[i];
    t_le(fabs(t_dot(dx, x, nx) - sum), room, "%d x %d x %d, stride %d: adjoint in x", s.h, s.w, s.in, s.stride);
    t_le(fabs(t_dot(dw, w, nw) - sum), room, "%d x %d x %d, stride %d: adjoint in w", s.h, s.w, s.in, s.stride);
    assert_true(fabs(sum) > 1e3 * room);
    for (size_t o = 0; bias && o < (size_t)s.out; o++) {
        double want_b = start_b[o];
        for (size_t i = o; i < ny; i += (size_t)s.out) want_b += dy[i];
        t_le(fabs(db[o] - want_b), room, "%d x %d x %d, stride %d: db", s.h, s.w, s.in, s.stride);
    }
    double *other = t_doubles(nx, 0, 0);
    vt_conv_backward_f64(other, col, dy, NULL, (vt_linear_f64){w, .dw = dw, .db = db, .n = s.out, .k = 9 * s.in}, &s,
                         1);
    assert_memory_equal(other, dx, nx * sizeof *dx);
    double *start = t_doubles(nw, 4, 1);
    vt_conv_backward_f64(NULL, col, dy, x, (vt_linear_f64){w, .dw = was, .n = s.out, .k = 9 * s.in}, &s, 1);
    for (size_t i = 0; i < nw; i++) /* the difference above lost what `was` is larger than dw */
        t_le(fabs(was[i] - start[i] - dw[i]), 1e-15 * (10 + fabs(dw[i])), "dw accumulates");
    t_release("conv");
}

static void test_conv(void **state) {
    (void)state;
    static const vt_conv_shape shapes[] = {{5, 7, 3, 4, 1},    {5, 7, 3, 4, 2},    {6, 6, 2, 3, 2}, {6, 4, 2, 3, 1},
                                           {1, 1, 2, 2, 1},    {1, 1, 2, 2, 2},    {2, 1, 3, 1, 2}, {3, 3, 1, 1, 1},
                                           {8, 8, 3, 17, 2},   {23, 64, 64, 2, 1}, /* four bands of rows */
                                           {47, 128, 64, 2, 2}};
    for (size_t i = 0; i < T_COUNT(shapes); i++) conv_case(shapes[i], i % 2);
    assert_true(vt_conv_col_len_f64(&shapes[9]) < 23 * 64 * 9 * 64);
}

/* The derivative of every single weight and pixel at a small shape: adjointness alone would not see a permutation that
 * forward and backward share, which the definition does see, and one that only dw and dx share. */
static void test_each_weight(void **state) {
    (void)state;
    const vt_conv_shape s = {4, 5, 2, 3, 2};
    enum { NX = 4 * 5 * 2, NW = 9 * 2 * 3, NY = 2 * 3 * 3 };
    double x[NX], w[NW], dy[NY], y[NY], dx[NX], dw[NW] = {0}, *col = malloc(vt_conv_col_len_f64(&s) * sizeof *col);
    t_normals(x, NX, 1, 1), t_normals(w, NW, 2, 1), t_normals(dy, NY, 3, 1);
    vt_conv_backward_f64(dx, col, dy, x, (vt_linear_f64){w, .dw = dw, .n = s.out, .k = 9 * s.in}, &s, 1);
    for (int i = 0; i < NW; i++) {
        double unit[NW] = {0};
        unit[i] = 1;
        naive(y, x, unit, NULL, &s);
        t_le(fabs(dw[i] - t_dot(dy, y, NY)), 1e-13, "dw[%d]", i);
    }
    for (int i = 0; i < NX; i++) {
        double unit[NX] = {0};
        unit[i] = 1;
        naive(y, unit, w, NULL, &s);
        t_le(fabs(dx[i] - t_dot(dy, y, NY)), 1e-13, "dx[%d]", i);
    }
    free(col);
}

static void depthwise_case(int h, int wd, int c) {
    size_t n = (size_t)(h * wd * c), nw = (size_t)(9 * c);
    double *x = t_doubles(n, 1, 1), *w = t_doubles(nw, 2, 1), *b = t_doubles((size_t)c, 3, 1), *dy = t_doubles(n, 4, 1);
    double *y = t_doubles(n, 0, 0), *taps = t_doubles(nw, 0, 0), *dx = t_doubles(n, 0, 0);
    double *dw = t_doubles(nw, 0, 0), *db = t_doubles((size_t)c, 0, 0), *unit = t_doubles(n, 0, 0);
    memset(dw, 0, nw * sizeof *dw), memset(db, 0, (size_t)c * sizeof *db);
    t_freeze(x), t_freeze(w), t_freeze(b), t_freeze(dy);
    const vt_linear_f64 l = {w, NULL, b, .dw = dw, .db = db, .n = c, .k = 9};
    vt_depthwise_forward_f64(y, taps, x, l, 1, h, wd);
    vt_depthwise_backward_f64(dx, taps, dy, x, l, 1, h, wd);
    for (int py = 0; py < h; py++)
        for (int px = 0; px < wd; px++)
            for (int j = 0; j < c; j++) {
                size_t i = (size_t)((py * wd + px) * c + j);
                double v = b[j], g = 0;
                for (int k = 0; k < 9; k++) v += w[j * 9 + k] * at(x, h, wd, c, py + k / 3 - 1, px + k % 3 - 1, j);
                for (int k = 0; k < 9; k++) g += w[j * 9 + k] * at(dy, h, wd, c, py - k / 3 + 1, px - k % 3 + 1, j);
                t_le(fabs(y[i] - v), 1e-13, "depthwise %d x %d x %d", h, wd, c);
                t_le(fabs(dx[i] - g), 1e-13, "depthwise %d x %d x %d: dx", h, wd, c);
            }
    for (int j = 0; j < c; j++) {
        double sum = 0;
        for (int i = 0; i < h * wd; i++) sum += dy[i * c + j];
        t_le(fabs(db[j] - sum), 1e-13 * h * wd, "depthwise db");
        for (int k = 0; k < 9; k++) {
            sum = 0;
            for (int i = 0; i < h * wd; i++)
                sum += dy[i * c + j] * at(x, h, wd, c, i / wd + k / 3 - 1, i % wd + k % 3 - 1, j);
            t_le(fabs(dw[j * 9 + k] - sum), 1e-13 * h * wd, "depthwise dw");
        }
    }
    vt_depthwise_backward_f64(unit, taps, dy, NULL, l, 1, h, wd);
    assert_memory_equal(unit, dx, n * sizeof *dx);
    memcpy(unit, dw, (nw < n ? nw : n) * sizeof *dw);
    vt_depthwise_backward_f64(NULL, taps, dy, x, l, 1, h, wd);
    for (size_t i = 0; i < nw && i < n; i++)
        t_le(fabs(dw[i] - 2 * unit[i]), 1e-13 * (1 + fabs(unit[i])), "depthwise dw accumulates");
    t_release("depthwise");
}

static void test_depthwise(void **state) {
    (void)state;
    depthwise_case(1, 1, 3);
    depthwise_case(1, 4, 2);
    depthwise_case(5, 3, 7);
    depthwise_case(14, 14, 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_conv, t_drop),
        cmocka_unit_test(test_each_weight),
        cmocka_unit_test_teardown(test_depthwise, t_drop),
    };
    vt_blas_single_thread();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
