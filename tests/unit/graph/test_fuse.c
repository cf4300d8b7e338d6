/* SPDX-License-Identifier: MIT */
/* What the fusion joins, and that it computes the same numbers in double, up to the order of sums. */
#define VT_DOUBLE
#include "t.h"

#include "base/mem.h"
#include "graph/network.h"
#include "graph/run.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
