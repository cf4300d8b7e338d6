/* SPDX-License-Identifier: MIT */
/* nn/convolve: every kernel against the sum written out, backward as the adjoint, both again to the bit, and nothing
 * touched outside its buffers. */
#include "t.h"

#include "base/mem.h"
#include "linalg/gemm.h"
#include "nn/convolve.h"

static float *floats(size_t n, uint64_t seed) {
    double *d = calloc(n, sizeof *d);
    float *f = vt_alloc((n + 16) * sizeof *f);
    assert_true(d && f);
    t_normals(d, n, seed, 1);
    for (size_t i = 0; i < n; i++) f[i] = (float)d[i];
    free(d);
    return f;
}

/* Number `o` of pixel (oy, ox). */
static double naive(const vt_convolution *s, const float *x, const float *w, int oy, int ox, int o) {
    const int in = s->in / s->groups, taps = s->kernel[0] * s->kernel[1];
    double sum = 0;
    for (int i = 0; i < in; i++)
        for (int k = 0; k < taps; k++) {
            const int y = oy * s->stride[0] - s->before[0] + k / s->kernel[1] * s->step[0];
            const int px = ox * s->stride[1] - s->before[1] + k % s->kernel[1] * s->step[1];
            if (y < 0 || y >= s->h || px < 0 || px >= s->w) continue;
            sum += (double)w[(o * in + i) * taps + k] *
                   (double)x[(y * s->w + px) * s->in + o / (s->out / s->groups) * in + i];
        }
    return sum;
}

static double dot(const float *a, const float *b, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += (double)a[i] * (double)b[i];
    return s;
}

/* Sums of up to 5400 terms of size 1, of 24 bits. */
static void check_case(vt_convolution s) {
    const int reach[2] = {(s.kernel[0] - 1) * s.step[0], (s.kernel[1] - 1) * s.step[1]};
    s.ho = (s.h + 2 * s.before[0] - reach[0] - 1) / s.stride[0] + 1;
    s.wo = (s.w + 2 * s.before[1] - reach[1] - 1) / s.stride[1] + 1;
    const size_t nx = (size_t)(s.h * s.w * s.in), ny = (size_t)(s.ho * s.wo * s.out);
    const size_t nw = (size_t)(s.out * s.in / s.groups * s.kernel[0] * s.kernel[1]), work = vt_convolution_work(&s);
    float *x = floats(nx, 1), *w = floats(nw, 2), *b = floats((size_t)s.out, 3), *f = floats((size_t)s.out, 4);
    float *dy = floats(ny, 5), *y = floats(ny, 6), *dx = floats(nx, 7), *room = floats(work, 8);
    float *again = floats(ny, 9), *packed = floats(vt_convolution_packed(&s), 10);
    const float guard = room[work] = y[ny] = dx[nx] = 12345;
    assert_true(vt_convolution_fits(&s));
    vt_convolution_pack(packed, &s, w, f);
    vt_convolution_forward(y, room, x, packed, b, &s);
    double worst = 0;
    for (int o = 0; o < s.out; o++)
        for (int p = 0; p < s.ho * s.wo; p++) {
            const double want = (double)f[o] * naive(&s, x, w, p / s.wo, p % s.wo, o) + (double)b[o];
            worst = fmax(worst, fabs((double)y[p * s.out + o] - want));
        }
    t_le(worst, 2e-4, "%d x %d, %d to %d, kernel %d: forward", s.h, s.w, s.in, s.out, s.kernel[0]);
    vt_convolution_forward(again, room, x, packed, NULL, &s);
    vt_convolution_backward(dx, room, dy, packed, false, &s);
    const double sum = dot(dy, again, ny), size = sqrt(dot(dy, dy, ny) * dot(again, again, ny));
    t_le(fabs(dot(dx, x, nx) - sum), 1e-5 * size, "%d x %d, %d to %d: adjoint", s.h, s.w, s.in, s.out);
    vt_convolution_forward(again, room, x, packed, b, &s);
    assert_memory_equal(again, y, ny * sizeof *y);
    float *twice = floats(nx, 11);
    memcpy(twice, dx, nx * sizeof *dx);
    vt_convolution_backward(twice, room, dy, packed, true, &s);
    worst = 0;
    for (size_t i = 0; i < nx; i++) worst = fmax(worst, fabs((double)twice[i] - 2 * (double)dx[i]));
    t_le(worst, 2e-4, "added");
    assert_true(room[work] == guard && y[ny] == guard && dx[nx] == guard);
    free(x), free(w), free(b), free(f), free(dy), free(y), free(dx), free(room), free(again), free(packed), free(twice);
}

static void test_kernels(void **state) {
    (void)state;
    static const vt_convolution cases[] =
        {{16, 32, 1, 8, 8, 0, 0, {3, 3}, {1, 1}, {1, 1}, {1, 1}},     /* Winograd */
         {48, 80, 1, 11, 9, 0, 0, {3, 3}, {1, 1}, {1, 1}, {1, 1}},    /* tiles cut off, a stripe of 16 */
         {16, 16, 1, 21, 18, 0, 0, {3, 3}, {1, 1}, {1, 1}, {0, 2}},   /* more tiles than at a time, other padding */
         {32, 32, 32, 9, 15, 0, 0, {7, 5}, {1, 1}, {1, 1}, {3, 2}},   /* depthwise, blocks and single pixels */
         {3, 16, 1, 12, 12, 0, 0, {4, 4}, {4, 4}, {1, 1}, {0, 0}},    /* patches */
         {5, 7, 1, 9, 10, 0, 0, {3, 2}, {2, 1}, {2, 3}, {1, 2}},      /* steps of every kind */
         {40, 200, 1, 5, 6, 0, 0, {1, 1}, {1, 1}, {1, 1}, {0, 0}},    /* pointwise, a stripe of 8 */
         {528, 16, 1, 8, 8, 0, 0, {3, 3}, {1, 1}, {1, 1}, {1, 1}},    /* rows of B in parts */
         {600, 17, 1, 32, 32, 0, 0, {3, 3}, {2, 2}, {1, 1}, {1, 1}}}; /* windows in bands */
    for (size_t i = 0; i < T_COUNT(cases); i++) check_case(cases[i]);
    assert_false(vt_convolution_fits(&(vt_convolution){8, 8, 2, 8, 8, 8, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}}));
}

int main(void) {
    vt_blas_single_thread();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
