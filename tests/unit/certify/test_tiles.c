/* SPDX-License-Identifier: MIT */
/* Certificates cover Winograd's convolutions: a network whose class in float32 is one that no sum of its windows has.
 */
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
    assert_int_equal(vt_network_open(&n, path, &(vt_import_options){.classifier = true, .unfused = unfused}, &e),
                     VT_OK);
    remove(path);
    return n;
}

/* Returns the class that float32 gives, in the arithmetic of an evaluation. */
static int class_in_float(const vt_network *n, const float *x) {
    float z[2];
    vt_arena a = {0};
    vt_graph_run_f32 run;
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &a);
    vt_arena room = {.base = vt_alloc(a.used + 64), .size = a.used + 64};
    vt_graph_run_plan_f32(&run, n->g, &n->plan[1], &room);
    vt_graph_forward_f32(&run, z, x);
    free(room.base);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
