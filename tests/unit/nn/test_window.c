/* SPDX-License-Identifier: MIT */
/* Windows: their order, masks, biases and merging, by hand. */
#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "nn/window.h"

enum { B = 2 };

#define X -1

static void test_window_order(void **state) {
    (void)state;
    /* 3 x 3 tokens, windows of 2: rolled by one to the upper left, then padded to 4 x 4 */
    static const int shifted[16] = {4, 5, 7, 8, 3, X, 6, X, 1, 2, X, X, 0, X, X, X};
    static const int still[16] = {0, 1, 3, 4, 2, X, 5, X, 6, 7, X, X, 8, X, X, X};
    static const int whole[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
    int got[16];
    vt_window_order_f64(got, 3, 2, 1);
    assert_memory_equal(got, shifted, sizeof got);
    vt_window_order_f64(got, 3, 2, 0);
    assert_memory_equal(got, still, sizeof got);
    vt_window_order_f64(got, 4, 2, 0);
    assert_memory_equal(got, whole, sizeof got);
}

static void test_merge_order(void **state) {
    (void)state;
    static const int want[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
    int got[16];
    vt_merge_order_f64(got, 4);
    assert_memory_equal(got, want, sizeof got);
}

/* 5 tokens a side, windows of 3, shift 1: six after padding, slices of 3, 2 and 1. */
static void test_mask(void **state) {
    (void)state;
    enum { SIDE = 6, W = 3, AREA = 9, LD = 16 };
    static const int slice[SIDE] = {0, 0, 0, 1, 1, 2};
    double *mask = t_doubles(4 * AREA * LD, 1, 1);
    vt_window_mask_f64(mask, 5, W, 1, LD);
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < AREA; i++)
            for (int j = 0; j < AREA; j++) {
                int top = n / 2 * W, left = n % 2 * W;
                bool same = slice[top + i / W] == slice[top + j / W] && slice[left + i % W] == slice[left + j % W];
                assert_true(mask[(n * AREA + i) * LD + j] == (same ? 0 : -100));
            }
    t_release("mask");
}

/* Taking and putting back is the identity, padding is zero, and the two are each other's adjoint. */
static void test_rows(void **state) {
    (void)state;
    enum { SIDE = 3, ROWS = 9, N = 16, C = 5 };
    int from[N];
    vt_window_order_f64(from, SIDE, 2, 1);
    double *x = t_doubles(B * ROWS * C, 1, 1), *out = t_doubles(B * N * C, 0, 0), *back = t_doubles(B * ROWS * C, 0, 0);
    double *g = t_doubles(B * N * C, 2, 1);
    t_freeze(x), t_freeze(g);
    vt_rows_take_f64(out, x, from, B, N, ROWS, C);
    for (int i = 0; i < B * N; i++)
        for (int j = 0; j < C; j++) {
            double want = from[i % N] < 0 ? 0 : x[(i / N * ROWS + from[i % N]) * C + j];
            assert_true(out[i * C + j] == want);
        }
    vt_rows_put_f64(back, out, from, B, N, ROWS, C);
    assert_memory_equal(back, x, B * ROWS * C * sizeof *x);
    vt_rows_put_f64(back, g, from, B, N, ROWS, C);
    t_le(fabs(t_dot(out, g, B * N * C) - t_dot(x, back, B * ROWS * C)), 1e-13, "<take x, g> = <x, put g>");
    t_release("rows");
}

/* Query minus key: rows of the table by hand for a window of 2, and the adjoint. */
static void test_bias(void **state) {
    (void)state;
    enum { W = 2, AREA = 4, HEADS = 3, LD = 16, ROWS = 9 };
    static const int row[AREA][AREA] = {{4, 3, 1, 0}, {5, 4, 2, 1}, {7, 6, 4, 3}, {8, 7, 5, 4}};
    double *table = t_doubles(ROWS * HEADS, 1, 1), *bias = t_doubles(HEADS * AREA * LD, 2, 1);
    double *g = t_doubles(HEADS * AREA * LD, 3, 1), *dtable = t_doubles(ROWS * HEADS, 4, 1), before, inner = 0;
    t_freeze(table), t_freeze(g);
    vt_window_bias_f64(bias, table, W, HEADS, LD);
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < AREA; i++)
            for (int j = 0; j < AREA; j++) {
                size_t at = (size_t)((h * AREA + i) * LD + j);
                assert_true(bias[at] == table[row[i][j] * HEADS + h]);
                inner += bias[at] * g[at];
            }
    before = t_dot(dtable, table, ROWS * HEADS); /* it accumulates */
    vt_window_bias_backward_f64(dtable, g, W, HEADS, LD);
    t_le(fabs(t_dot(dtable, table, ROWS * HEADS) - before - inner), 1e-13, "<bias table, g> = <table, bias' g>");
    t_release("bias");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_order),          cmocka_unit_test(test_merge_order),
        cmocka_unit_test_teardown(test_mask, t_drop), cmocka_unit_test_teardown(test_rows, t_drop),
        cmocka_unit_test_teardown(test_bias, t_drop),
    };
    return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
