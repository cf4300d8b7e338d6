/* SPDX-License-Identifier: MIT */
/* GELU and the other activations: values by definition, gradients in double against central differences. */
#include "nn_fixture.h"

#include "nn/nn.h"

/* ---- activations ---- */

typedef struct act {
    vt_act kind;
    int m, n;
    double *y, *x, *b, *dy;
} act;

static double act_scalar(void *ctx) {
    act *l = ctx;
    vt_act_forward_f64(l->kind, l->y, NULL, l->x, l->b, l->m, l->n);
    return t_dot(l->y, l->dy, (size_t)(l->m * l->n));
}

static double act_of(vt_act kind, double v) {
    double u = sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
    if (kind == VT_ACT_QUICK_GELU) return v / (1 + exp(-1.702 * v));
    return kind == VT_ACT_RELU ? fmax(v, 0) : 0.5 * v * (1 + (kind == VT_ACT_GELU ? erf(v / sqrt(2)) : tanh(u)));
}

static void act_case(vt_act kind, int m, int n, bool bias) {
    size_t mn = (size_t)(m * n);
    act l = {.kind = kind, .m = m, .n = n, .y = t_doubles(mn, 0, 0), .x = t_doubles(mn, 1, 2)};
    l.b = bias ? t_doubles((size_t)n, 2, 1) : NULL, l.dy = t_doubles(mn, 3, 1);
    double *slope = t_doubles(mn, 0, 0), *dx = t_doubles(mn, 0, 0), *y = t_doubles(mn, 0, 0);
    t_freeze(l.x), t_freeze(l.dy);
    vt_act_forward_f64(kind, y, slope, l.x, l.b, m, n);
    for (size_t i = 0; i < mn; i++) {
        double v = l.x[i] + (bias ? l.b[i % (size_t)n] : 0);
        t_le(fabs(y[i] - act_of(kind, v)), 2e-15 * (1 + fabs(v)), "activation %d of %g", kind, v);
    }
    act_scalar(&l); /* without a slope: the same values; and in place */
    assert_memory_equal(l.y, y, mn * sizeof *y);
    memcpy(y, l.x, mn * sizeof *y);
    vt_act_forward_f64(kind, y, slope, y, l.b, m, n);
    assert_memory_equal(l.y, y, mn * sizeof *y);
    vt_act_backward_f64(dx, l.dy, slope, mn);
    t_grad(act_scalar, &l, l.x, mn, dx, "activation dx");
    t_release("activations");
}

static void test_activations(void **state) {
    (void)state;
    for (int kind = VT_ACT_GELU; kind <= VT_ACT_QUICK_GELU; kind++) {
        act_case((vt_act)kind, 1, 1, false);
        act_case((vt_act)kind, 7, 5, true);
        act_case((vt_act)kind, 3, 65, false);
    }
    static const double ends[] = {0, -0.0, 60, -60, 1e4, -1e4, NAN}; /* PyTorch: ReLU's slope at 0 is 0 */
    static const double relu[] = {0, 0, 1, 0, 1, 0};
    double y[7], slope[7];
    vt_act_forward_f64(VT_ACT_RELU, y, slope, ends, NULL, 1, 7);
    for (int i = 0; i < 6; i++) assert_true(y[i] == fmax(ends[i], 0) && slope[i] == relu[i]);
    assert_true(isnan(y[6]));
    vt_act_forward_f64(VT_ACT_GELU_TANH, y, slope, ends, NULL, 1, 7);
    for (int i = 2; i < 6; i++)
        t_le(fabs(y[i] - fmax(ends[i], 0)) + fabs(slope[i] - relu[i]), 1e-20, "far out"); /* e^-88 v^3 */
    assert_true(y[0] == 0 && slope[0] == 0.5 && isnan(y[6]) && isnan(slope[6]));
    vt_act_forward_f64(VT_ACT_QUICK_GELU, y, slope, ends, NULL, 1, 7);
    for (int i = 2; i < 6; i++) /* 60 e^-88, for the exponent is held there; slope 103 e^-88; at 1e4: 1e4 e^-88 */
        t_le(fabs(y[i] - fmax(ends[i], 0)) + fabs(slope[i] - relu[i]), 1e-33, "far out");
    assert_true(y[0] == 0 && slope[0] == 0.5 && isnan(y[6]) && isnan(slope[6]));
}

/* ---- gelu ---- */

typedef struct gelu {
    int m, n;
    double *y, *x, *b, *dy;
} gelu;

static double gelu_scalar(void *ctx) {
    gelu *l = ctx;
    vt_act_forward_f64(VT_ACT_GELU, l->y, NULL, l->x, l->b, l->m, l->n);
    return t_dot(l->y, l->dy, (size_t)(l->m * l->n));
}

static void gelu_case(int m, int n, bool bias) {
    size_t mn = (size_t)(m * n);
    gelu l = {.m = m,
              .n = n,
              .y = t_doubles(mn, 0, 0),
              .x = t_doubles(mn, 1, 2),
              .b = bias ? t_doubles((size_t)n, 2, 1) : NULL,
              .dy = t_doubles(mn, 3, 1)};
    double *slope = t_doubles(mn, 0, 0), *dx = t_doubles(mn, 0, 0), *y = t_doubles(mn, 0, 0);
    t_freeze(l.x), t_freeze(l.dy);
    if (bias) t_freeze(l.b);
    vt_act_forward_f64(VT_ACT_GELU, y, slope, l.x, l.b, m, n);
    for (size_t i = 0; i < mn; i++) {
        double v = l.x[i] + (bias ? l.b[i % (size_t)n] : 0);
        t_le(fabs(y[i] - 0.5 * v * (1 + erf(v / sqrt(2)))), 1e-15 * (1 + fabs(v)), "gelu of %g", v);
    }
    gelu_scalar(&l); /* without a slope: the same values */
    assert_memory_equal(l.y, y, mn * sizeof *y);
    memcpy(y, l.x, mn * sizeof *y);
    vt_act_forward_f64(VT_ACT_GELU, y, slope, y, l.b, m, n); /* in place */
    assert_memory_equal(l.y, y, mn * sizeof *y);
    t_freeze(slope);
    vt_act_backward_f64(dx, l.dy, slope, mn);
    t_grad(gelu_scalar, &l, l.x, mn, dx, "gelu dx");
    memcpy(y, l.dy, mn * sizeof *y);
    vt_act_backward_f64(y, y, slope, mn);
    assert_memory_equal(y, dx, mn * sizeof *y);
    t_release("gelu");
}

static void test_gelu(void **state) {
    (void)state;
    gelu_case(1, 1, false);
    gelu_case(7, 5, true);
    gelu_case(3, 65, false);
    gelu_case(2, 197, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_gelu, t_drop),
        cmocka_unit_test_teardown(test_activations, t_drop),
    };
    return cmocka_run_group_tests_name("act", tests, NULL, NULL);
}
