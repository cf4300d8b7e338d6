/* SPDX-License-Identifier: MIT */
/* nn/interpolate against PyTorch (tools/gen_interpolate_fixture.py), in the precision of the including program. */
#include "t.h"

#include "tensors/tensors.h"
#include "nn/interpolate.h"

#define REFERENCE "tests/fixtures/golden/interpolate.safetensors"

static vt_tensors *golden;

static double *tensor(const char *name, size_t n) {
    const vt_tensor *t = vt_tensors_find(golden, name);
    vt_err e = {0};
    double *p = t_take(n * sizeof *p);
    if (!t) fail_msg("no %s in " REFERENCE, name);
    if (vt_tensor_f64(golden, t, p, n, &e) != VT_OK) fail_msg("%s", e.text);
    return p;
}

static real *as_real(const double *p, size_t n) {
    real *r = t_take(n * sizeof *r);
    for (size_t i = 0; i < n; i++) r[i] = (real)p[i];
    t_freeze(r);
    return r;
}

static void close_to(const real *got, const double *want, size_t n, const char *what) {
    double largest = 1; /* inputs are of size 1 */
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(want[i]));
    for (size_t i = 0; i < n; i++) t_le(fabs((double)got[i] - want[i]), TOL * largest, "%s [%zu]", what, i);
}

static void *planned(VT_R(vt_interp) *p, vt_interp_kind kind, bool antialias, int h, int w, int oh, int ow) {
    vt_arena a = {0};
    VT_R(vt_interp_plan)(p, &a, kind, antialias, h, w, oh, ow, 0);
    a.size = a.used, a.used = 0;
    a.base = vt_alloc(a.size);
    assert_non_null(a.base);
    VT_R(vt_interp_plan)(p, &a, kind, antialias, h, w, oh, ow, 0);
    assert_int_equal(a.used, a.size);
    return a.base;
}

static const struct {
    const char *name;
    vt_interp_kind kind;
    bool antialias;
} kinds[] = {{"nearest", VT_INTERP_NEAREST, false},
             {"bilinear", VT_INTERP_BILINEAR, false},
             {"bicubic", VT_INTERP_BICUBIC, false},
             {"bilinear_aa", VT_INTERP_BILINEAR, true},
             {"bicubic_aa", VT_INTERP_BICUBIC, true}};

static const int sizes[][4] = {{4, 4, 28, 28}, {5, 7, 13, 9}, {13, 9, 5, 7}, {12, 10, 3, 10}, {6, 6, 6, 17},
                               {1, 3, 4, 1},   {9, 8, 1, 1},  {5, 5, 5, 5},  {3, 11, 17, 4}};

static void one_case(size_t k, const int s[4]) {
    size_t n = 2 * (size_t)s[0] * (size_t)s[1], m = 2 * (size_t)s[2] * (size_t)s[3];
    char name[64], what[80];
    VT_R(vt_interp) p;
    void *block = planned(&p, kinds[k].kind, kinds[k].antialias, s[0], s[1], s[2], s[3]);
    snprintf(name, sizeof name, "x.%dx%d", s[0], s[1]);
    real *x = as_real(tensor(name, n), n);
    snprintf(name, sizeof name, "dy.%dx%d", s[2], s[3]);
    real *dy = as_real(tensor(name, m), m), *y = t_take(m * sizeof *y), *dx = t_take(n * sizeof *dx);
    snprintf(name, sizeof name, "%s.%dx%d.%dx%d", kinds[k].name, s[0], s[1], s[2], s[3]);
    for (int round = 0; round < 2; round++) { /* results overwrite, scratch carries nothing over */
        VT_R(vt_interp_forward)(y, &p, x, 2);
        VT_R(vt_interp_backward)(dx, &p, dy, 2);
        snprintf(what, sizeof what, "%s.y", name);
        close_to(y, tensor(what, m), m, what);
        snprintf(what, sizeof what, "%s.dx", name);
        close_to(dx, tensor(what, n), n, what);
    }
    free(block);
    t_release(name);
}

static void test_pytorch(void **state) {
    (void)state;
    for (size_t k = 0; k < T_COUNT(kinds); k++)
        for (size_t i = 0; i < T_COUNT(sizes); i++) one_case(k, sizes[i]);
}

/* <forward(x), dy> = <x, backward(dy)> at the sizes models use, 3 channels. */
static void test_adjoint(void **state) {
    (void)state;
    static const int sides[][2] = {{32, 224}, {224, 32}, {33, 100}};
    for (size_t k = 0; k < T_COUNT(kinds); k++)
        for (size_t i = 0; i < T_COUNT(sides); i++) {
            int in = sides[i][0], out = sides[i][1];
            size_t n = 3 * (size_t)in * (size_t)in, m = 3 * (size_t)out * (size_t)out;
            VT_R(vt_interp) p;
            void *block = planned(&p, kinds[k].kind, kinds[k].antialias, in, in, out, out);
            real *x = as_real(t_doubles(n, 1, 1), n), *dy = as_real(t_doubles(m, 2, 1), m);
            real *y = t_take(m * sizeof *y), *dx = t_take(n * sizeof *dx);
            VT_R(vt_interp_forward)(y, &p, x, 3);
            VT_R(vt_interp_backward)(dx, &p, dy, 3);
            double a = 0, b = 0, size = 0;
            for (size_t j = 0; j < m; j++)
                a += (double)y[j] * (double)dy[j], size += fabs((double)y[j] * (double)dy[j]);
            for (size_t j = 0; j < n; j++) b += (double)x[j] * (double)dx[j];
            t_le(fabs(a - b), TOL * size, "%s, %d to %d", kinds[k].name, in, out);
            free(block);
            t_release(kinds[k].name);
        }
}

static int open_golden(void **state) {
    (void)state;
    vt_err e = {0};
    if (vt_tensors_open(&golden, REFERENCE, &e) == VT_OK) return 0;
    print_error("%s\n", e.text);
    return -1;
}

static int close_golden(void **state) {
    (void)state;
    vt_tensors_close(golden);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_pytorch, t_drop),
                                       cmocka_unit_test_teardown(test_adjoint, t_drop)};
    return cmocka_run_group_tests_name("interpolate", tests, open_golden, close_golden);
}
