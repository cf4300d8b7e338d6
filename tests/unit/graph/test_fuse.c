/* SPDX-License-Identifier: MIT */
/* What the fusion joins, and that it computes the same numbers in double, up to the order of sums. */
#define VT_DOUBLE
#include <math.h>
#include <unistd.h>
#include "t.h"

#include "base/mem.h"
#include "graph/network.h"
#include "graph/run.h"
#include "graph/write.h"

/* z [classes], and dx [pixels] of a weighted sum of logits. */
static void run_network(vt_network *n, double *z, double *dx, const double *x) {
    vt_graph_run_f64 r;
    vt_arena a = {0};
    double dz[100];
    for (int i = 0; i < n->classes; i++) dz[i] = 1 + i;
    vt_graph_run_plan_f64(&r, n->g, &n->plan[1], &a);
    void *block = vt_alloc(a.used);
    assert_non_null(block);
    vt_graph_run_plan_f64(&r, n->g, &n->plan[1], &(vt_arena){.base = block, .size = a.used});
    vt_graph_forward_f64(&r, z, x);
    vt_graph_backward_f64(&r, dx, dz, x);
    free(block);
}

static void test_same_numbers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int nodes, fused[VT_FUSED_KINDS]; /* nodes that are left */
    } nets[] = {{"conv", 14, {1, 0, 0, 1}},
                {"attention", 22, {0, 2, 1, 5}},
                {"moves", 25, {0}},
                {"fused", 27, {2, 1, 1, 4}}};
    for (size_t i = 0; i < T_COUNT(nets); i++) {
        char path[200];
        vt_network *n[2];
        double *z[2], *dx[2], x[2000];
        snprintf(path, sizeof path, "tests/fixtures/onnx/%s.onnx", nets[i].name);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(vt_network_open(&n[k], path,
                                             &(vt_import_options){.fusion = k ? VT_FUSE_NONE : VT_FUSE_ALL}, NULL),
                             VT_OK);
            const size_t pixels = vt_shape_values(n[k]->shape);
            assert_true(pixels <= T_COUNT(x) && n[k]->classes <= 100);
            for (size_t j = 0; j < pixels; j++) x[j] = (double)(j * 37 % 101) / 101;
            z[k] = calloc((size_t)n[k]->classes, sizeof *z[k]), dx[k] = calloc(pixels, sizeof *dx[k]);
            run_network(n[k], z[k], dx[k], x);
        }
        const size_t classes = (size_t)n[0]->classes, pixels = vt_shape_values(n[0]->shape);
        t_le(t_max_diff(z[0], z[1], classes), 1e-12 * t_max(z[1], classes), "%s: logits", nets[i].name);
        t_le(t_max_diff(dx[0], dx[1], pixels), 1e-12 * t_max(dx[1], pixels), "%s: gradient", nets[i].name);
        assert_int_equal(n[0]->g->n_nodes, nets[i].nodes);
        assert_memory_equal(n[0]->g->fused, nets[i].fused, sizeof nets[i].fused);
        for (int k = 0; k < 2; k++) free(z[k]), free(dx[k]), vt_network_close(n[k]);
    }
}

/* ---- nodes that look like what is joined, but stretch one of their inputs ---- */

enum { GELU, LINEAR, NORM, CONV, COLUMNS, LOOK_ALIKES };

/* Adds x - mean(x) over the last of its `rank` sides, over its deviation; COLUMNS: that of a row over a column. */
static int put_standardised(vt_put *p, int x, int rank, bool columns) {
    const int d = vt_put_binary(p, "Sub", x, vt_put_reduce(p, "ReduceMean", x, rank - 1));
    const int mean = vt_put_reduce(p, "ReduceMean", vt_put_binary(p, "Pow", d, vt_put_real(p, 2)), rank - 1);
    int root = vt_put_unary(p, "Sqrt", vt_put_binary(p, "Add", mean, vt_put_real(p, 1e-3)));
    if (columns) root = vt_put_reshape(p, root, VT_DIMS(0, 1, 2));
    return vt_put_binary(p, "Div", d, root);
}

/* Writes to path a network of images [1,2,2] whose logits are 16 numbers, or four. */
static void write_look_alike(int kind, const char *path) {
    static float numbers[16];
    static const float sqrt_2[] = {1.41421356f};
    vt_err e = {0};
    for (int i = 0; i < 16; i++) numbers[i] = (float)(i * 7 % 11) / 8 - 0.5f;
    vt_put *p = vt_put_open();
    const int x = vt_put_input(p, "x", VT_DIMS(1, 2, 2)), flat = vt_put_reshape(p, x, VT_DIMS(0, 4));
    const int row = vt_put_floats(p, "row", VT_DIMS(1, 1, 4), numbers);
    int y = flat;
    if (kind == GELU) {
        const int root = vt_put_floats(p, "root", VT_DIMS(1), sqrt_2);
        const int half = vt_put_unary(p, "Erf", vt_put_binary(p, "Div", flat, root));
        const int gate = vt_put_reshape(p, vt_put_binary(p, "Add", half, vt_put_real(p, 1)), VT_DIMS(0, 1, 4));
        y = vt_put_binary(p, "Mul", vt_put_reshape(p, flat, VT_DIMS(0, 4, 1)), gate);
        y = vt_put_binary(p, "Mul", y, vt_put_real(p, 0.5));
    } else if (kind == LINEAR) {
        y = vt_put_binary(p, "MatMul", flat, vt_put_floats(p, "w", VT_DIMS(4, 4), numbers));
        y = vt_put_binary(p, "Add", vt_put_reshape(p, y, VT_DIMS(0, 4, 1)), row);
    } else if (kind == NORM) {
        y = vt_put_reshape(p, put_standardised(p, flat, 2, false), VT_DIMS(0, 4, 1));
        y = vt_put_binary(p, "Add", vt_put_binary(p, "Mul", y, row), row);
    } else if (kind == CONV) {
        const int in[2] = {vt_put_reshape(p, x, VT_DIMS(0, 4, 1, 1)),
                           vt_put_floats(p, "w", VT_DIMS(4, 4, 1, 1), numbers)};
        const vt_put_attr attr[] = {{"kernel_shape", 2, {1, 1}}, {0}};
        y = vt_put_reshape(p, vt_put_node(p, "Conv", in, 2, attr), VT_DIMS(0, 1, 4));
        y = vt_put_binary(p, "Mul", y, vt_put_floats(p, "column", VT_DIMS(1, 4, 1), numbers));
    } else
        y = put_standardised(p, vt_put_reshape(p, x, VT_DIMS(0, 2, 2)), 3, true);
    const int classes = kind == COLUMNS ? 4 : 16;
    vt_put_output(p, vt_put_reshape(p, y, VT_DIMS(0, classes)), "logits", classes);
    assert_int_equal(vt_put_file(p, "look_alike", path, &e), VT_OK);
    vt_put_close(p);
}

static void test_stretched(void **state) {
    (void)state;
    const double x[] = {0.9, 0.1, 0.4, 0.7};
    for (int kind = 0; kind < LOOK_ALIKES; kind++) {
        char path[] = "/tmp/vitrine-fuse-XXXXXX";
        double z[3][16], dx[3][4];
        close(mkstemp(path));
        write_look_alike(kind, path);
        for (int k = 0; k < 3; k++) {
            vt_network *n;
            vt_err e = {0};
            if (vt_network_open(&n, path, &(vt_import_options){.fusion = (vt_fusion)k}, &e) != VT_OK)
                fail_msg("%d: %s", kind, e.text);
            assert_int_equal(n->classes, kind == COLUMNS ? 4 : 16);
            run_network(n, z[k], dx[k], x);
            vt_network_close(n);
        }
        for (int k = 0; k < 2; k++) {
            const size_t classes = kind == COLUMNS ? 4 : 16;
            t_le(t_max_diff(z[k], z[2], classes), 1e-12 * t_max(z[2], classes), "look-alike %d: logits", kind);
            t_le(t_max_diff(dx[k], dx[2], 4), 1e-12 * t_max(dx[2], 4), "look-alike %d: gradient", kind);
        }
        remove(path);
    }
}

/* Numbers of x, a stack of four, times x as a stack of two rows: the gradients of both sides meet in the same numbers.
 * By central differences, which are exact for a square but for rounding, some 1e-16 / 1e-3. */
static void test_product_with_itself(void **state) {
    (void)state;
    char path[] = "/tmp/vitrine-fuse-XXXXXX";
    double x[] = {0.9, 0.1, 0.4, 0.7}, z[2][8], dx[4], no[4];
    vt_network *n;
    vt_err e = {0};
    close(mkstemp(path));
    vt_put *p = vt_put_open();
    const int v = vt_put_input(p, "x", VT_DIMS(1, 2, 2));
    const int y = vt_put_binary(p, "MatMul", vt_put_reshape(p, v, VT_DIMS(0, 2, 2, 1, 1)),
                                vt_put_reshape(p, v, VT_DIMS(0, 2, 1, 1, 2)));
    vt_put_output(p, vt_put_reshape(p, y, VT_DIMS(0, 8)), "logits", 8);
    assert_int_equal(vt_put_file(p, "itself", path, &e), VT_OK);
    if (vt_network_open(&n, path, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    run_network(n, z[0], dx, x);
    for (int i = 0; i < 4; i++) {
        double rise = 0;
        for (int side = 0; side < 2; side++) {
            const double here = x[i];
            x[i] += side ? 1e-3 : -1e-3;
            run_network(n, z[side], no, x);
            x[i] = here;
        }
        for (int k = 0; k < 8; k++) rise += (1 + k) * (z[1][k] - z[0][k]) / 2e-3;
        t_le(fabs(rise - dx[i]), 1e-11, "number %d", i);
    }
    vt_network_close(n), vt_put_close(p), remove(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_numbers), cmocka_unit_test(test_stretched),
                                       cmocka_unit_test(test_product_with_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
