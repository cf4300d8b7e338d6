/* SPDX-License-Identifier: MIT */
/* Certificates cover Winograd's convolutions: a network whose class in float32 is one that no sum of its windows has.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "t.h"
#include "base/mem.h"
#include "certify/lipschitz.h"
#include "graph/network.h"
#include "graph/run.h"
#include "graph/write.h"

/* Opens a network of [16,8,8] pixels: one tap of a 3 x 3 convolution of 16 maps, of which number 27 of the first map is
 * logit 1, 1e-9 being logit 0. */
static vt_network *open_one_tap(bool unfused) {
    static float taps[16 * 16 * 9], pick[16 * 64 * 2], low[2] = {1e-9f, 0};
    char path[] = "/tmp/vitrine-tap-XXXXXX";
    vt_network *n;
    vt_err e = {0};
    close(mkstemp(path));
    taps[0] = 1, pick[27 * 2 + 1] = 1;
    vt_put *p = vt_put_open();
    const int in[2] = {vt_put_input(p, "x", VT_DIMS(16, 8, 8)), vt_put_floats(p, "taps", VT_DIMS(16, 16, 3, 3), taps)};
    const vt_put_attr attr[] = {{"kernel_shape", 2, {3, 3}}, {"pads", 4, {1, 1, 1, 1}}, {0}};
    int v = vt_put_reshape(p, vt_put_node(p, "Conv", in, 2, attr), VT_DIMS(0, 16 * 64));
    v = vt_put_binary(p, "MatMul", v, vt_put_floats(p, "pick", VT_DIMS(16 * 64, 2), pick));
    v = vt_put_binary(p, "Add", v, vt_put_floats(p, "low", VT_DIMS(2), low));
    vt_put_output(p, v, "logits", 2);
    assert_int_equal(vt_put_file(p, "tap", path, &e), VT_OK);
    vt_put_close(p);
    assert_int_equal(vt_network_open(&n, path,
                                     &(vt_import_options){.classifier = true,
                                                          .fusion = unfused ? VT_FUSE_GELU : VT_FUSE_ALL},
                                     &e),
                     VT_OK);
    remove(path);
    return n;
}

/* Sets z [2] to the logits of x in float32, in the arithmetic of an evaluation. */
static void compute_in_float(const vt_network *n, float *z, const float *x) {
    vt_arena a = {0};
    vt_graph_run_f32 run;
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &a);
    vt_arena room = {.base = vt_alloc(a.used + 64), .size = a.used + 64};
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &room);
    vt_graph_forward_f32(&run, z, x);
    free(room.base);
}

/* Returns the class that float32 gives. */
static int class_in_float(const vt_network *n, const float *x) {
    float z[2];
    compute_in_float(n, z, x);
    return z[1] > z[0];
}

/* The tap's pixel is 0, and so is logit 1; Winograd's tiles add its neighbours and take them off again, which may leave
 * more than 1e-9: class 1. No certificate may say class 0. */
static void test_tiles(void **state) {
    (void)state;
    vt_network *fused = open_one_tap(false), *plain = open_one_tap(true);
    static float x[16 * 64];
    static double wide[16 * 64];
    vt_certify *c;
    vt_lipschitz *l;
    vt_certified got;
    vt_err e = {0};
    vt_certify_options how = {.unboxed = true, .seconds = 1, .threads = 1};
    int tries = 0;
    do
        for (int i = 0; i < 16 * 64; i++) x[i] = i == 18 ? 0 : (float)rand() / (float)RAND_MAX, wide[i] = (double)x[i];
    while (!class_in_float(fused, x) && tries++ < 1000);
    assert_true(tries < 1000);
    assert_int_equal(vt_certify_open(&c, plain->g, &how, &e), VT_OK);
    assert_int_equal(vt_certify_point(c, wide, 0, &got, &e), VT_OK);
    assert_true(got.radius == 0 && got.margin < 0);
    how.norm = VT_CERTIFY_L2;
    assert_int_equal(vt_lipschitz_open(&l, plain->g, &how, &e), VT_OK);
    assert_int_equal(vt_lipschitz_point(l, wide, 0, &got, &e), VT_OK);
    assert_true(got.radius == 0);
    vt_lipschitz_close(l), vt_certify_close(c), vt_network_close(fused), vt_network_close(plain);
}

/* ---- networks of four numbers, by hand ---- */

/* Writes the network of value v, [N, 2], and opens it, with the pixels of its file. */
static vt_network *open_small(vt_put *p, int v, bool own_pixels) {
    char path[] = "/tmp/vitrine-float32-XXXXXX";
    vt_network *n;
    vt_err e = {0};
    close(mkstemp(path));
    vt_put_output(p, v, "logits", 2);
    assert_int_equal(vt_put_file(p, "small", path, &e), VT_OK);
    vt_put_close(p);
    const vt_import_options how = {.classifier = true, .fusion = VT_FUSE_GELU, .own_pixels = own_pixels};
    if (vt_network_open(&n, path, &how, &e) != VT_OK) fail_msg("%s", e.text);
    remove(path);
    return n;
}

/* Neither method certifies label 0 at (0.75, 0.25, 0.5, 0.5). */
static void certifies_nothing(vt_network *n, const char *what) {
    static const double x[4] = {0.75, 0.25, 0.5, 0.5};
    vt_certify_options how = {.unboxed = true, .seconds = 1, .threads = 1};
    vt_certify *c;
    vt_lipschitz *l;
    vt_certified got;
    vt_err e = {0};
    assert_int_equal(vt_certify_open(&c, n->g, &how, &e), VT_OK);
    assert_int_equal(vt_certify_point(c, x, 0, &got, &e), VT_OK);
    if (got.radius != 0) fail_msg("%s: radius %g", what, got.radius);
    vt_certify_close(c);
    how.norm = VT_CERTIFY_L2;
    if (vt_lipschitz_open(&l, n->g, &how, &e) == VT_OK) { /* VT_E_NUMERIC is an answer too */
        assert_int_equal(vt_lipschitz_point(l, x, 0, &got, &e), VT_OK);
        if (got.radius != 0) fail_msg("%s: l2 radius %g", what, got.radius);
        vt_lipschitz_close(l);
    }
    vt_network_close(n);
}

/* Adds a product with each number of a list that ends at 0. */
static int scale_by(vt_put *p, int v, const double *by) {
    for (; *by; by++) v = vt_put_binary(p, "Mul", v, vt_put_real(p, *by));
    return v;
}

/* Adds logits (number 0 of v [4], the number `other`). */
static int versus(vt_put *p, int v, float other) {
    static const float pick[4 * 2] = {1};
    static float low[2];
    low[1] = other;
    v = vt_put_binary(p, "MatMul", v, vt_put_floats(p, "pick", VT_DIMS(4, 2), pick));
    return vt_put_binary(p, "Add", v, vt_put_floats(p, "low", VT_DIMS(2), low));
}

static int begin_small(vt_put *p) { return vt_put_reshape(p, vt_put_input(p, "x", VT_DIMS(1, 2, 2)), VT_DIMS(0, 4)); }

/* 1e51 on the way is infinite in float32, and so is logit 1 then; 1e-47, the product of two constants that are fused,
 * is 0, and so is logit 0 then. */
static void test_range(void **state) {
    (void)state;
    static const float small[4 * 4] = {1e-30f};
    vt_put *p = vt_put_open();
    int v = scale_by(p, begin_small(p), (double[]){1e17, 1e17, 1e17, 1e-17, 1e-17, 1e-17, 0});
    certifies_nothing(open_small(p, versus(p, v, 0.1f), false), "overflow");
    p = vt_put_open();
    v = vt_put_unary(p, "Log", vt_put_unary(p, "Exp", scale_by(p, begin_small(p), (double[]){200, 0})));
    certifies_nothing(open_small(p, versus(p, v, 100), false), "overflow of exp");
    p = vt_put_open();
    v = scale_by(p, begin_small(p), (double[]){1e15, 1e15, 0});
    v = vt_put_binary(p, "MatMul", v, vt_put_floats(p, "small", VT_DIMS(4, 4), small));
    v = scale_by(p, v, (double[]){1e-17, 1e17, 0});
    certifies_nothing(open_small(p, versus(p, v, 0.1f), false), "underflow");
    p = vt_put_open();
    v = scale_by(p, begin_small(p), (double[]){1e30, 1e-38, 0});
    certifies_nothing(open_small(p, versus(p, v, -1), false), "a factor beyond 1e18");
}

/* Squares of numbers of 1e26 are infinite in float32, where the standardised number is 0. */
static void test_variance(void **state) {
    (void)state;
    static const float ones[4] = {1, 1, 1, 1}, zeros[4] = {0};
    vt_put *p = vt_put_open();
    const int v = scale_by(p, begin_small(p), (double[]){1e13, 1e13, 0});
    const int in[3] = {v, vt_put_floats(p, "one", VT_DIMS(4), ones), vt_put_floats(p, "zero", VT_DIMS(4), zeros)};
    certifies_nothing(open_small(p, versus(p, vt_put_node(p, "LayerNormalization", in, 3, NULL), 0.5f), false),
                      "large variance");
}

/* Returns logit 0 of a network at x, all four numbers of which are the same. */
static double logit_at(vt_network *n, float x) {
    float z[2];
    compute_in_float(n, z, (float[4]){x, x, x, x});
    vt_network_close(n);
    return (double)z[0];
}

/* A first node that scales bytes is found for images of [0,1], and left alone for points of the file's own input. */
static void test_own_pixels(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        vt_put *p = vt_put_open();
        const int v = scale_by(p, begin_small(p), (double[]){1 / 255.0, 0});
        t_le(fabs(logit_at(open_small(p, versus(p, v, 0), own), 1) - (own ? 1 / 255.0 : 1)), 1e-6, "own pixels: %d",
             own);
    }
}

/* Integers among reals have no bounds; a Clip from 0.8 to 0.3 gives 0.3, as ONNX says. */
static void test_odd_operators(void **state) {
    (void)state;
    vt_put *p = vt_put_open();
    int v = vt_put_binary(p, "Add", begin_small(p), vt_put_integers(p, 4, (int64_t[4]){1, 2, 3, 4}));
    vt_network *n = open_small(p, versus(p, v, 0), false);
    vt_certify *c;
    vt_lipschitz *l;
    vt_err e = {0};
    assert_int_equal(vt_certify_open(&c, n->g, &(vt_certify_options){.threads = 1}, &e), VT_E_USAGE);
    assert_int_equal(vt_lipschitz_open(&l, n->g, &(vt_certify_options){.norm = VT_CERTIFY_L2}, &e), VT_E_USAGE);
    vt_network_close(n);
    p = vt_put_open();
    v = begin_small(p);
    v = vt_put_node(p, "Clip", (int[3]){v, vt_put_real(p, 0.75), vt_put_real(p, 0.25)}, 3, NULL);
    v = versus(p, v, 0);
    assert_true(logit_at(open_small(p, v, false), 0.5) == 0.25);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles), cmocka_unit_test(test_range),
                                       cmocka_unit_test(test_variance), cmocka_unit_test(test_own_pixels),
                                       cmocka_unit_test(test_odd_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
