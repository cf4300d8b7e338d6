/* SPDX-License-Identifier: MIT */
/* The writer of ONNX files: what it writes is read again; doubles in float32 initializers; limits. Whole networks:
 * tests/unit/models/test_forms.c and test_combinations.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "t.h"
#include "base/files.h"
#include "graph/network.h"
#include "graph/write.h"
#include "scratch.h"

static const double hard[] = {1e-6, 1e-5, 1.702, 0.1, M_PI, 1e-12, 1e-24, 0.25, 3, -1.0 / 3, 0x1.fffffffffffffp0};
enum { HARD = sizeof hard / sizeof *hard };

/* pixels [3,2,2] times a matrix of doubles, as one list, plus a scalar: logits [2]. */
static vt_status write_small(const char *path, const double *m, double plus, vt_err *e) {
    vt_put *p = vt_put_open();
    int v = vt_put_input(p, "pixels", VT_DIMS(3, 2, 2));
    v = vt_put_reshape(p, v, VT_DIMS(0, 12));
    v = vt_put_binary(p, "MatMul", v, vt_put_reals(p, VT_DIMS(12, 2), m));
    v = vt_put_binary(p, "Add", v, vt_put_real(p, plus));
    vt_put_output(p, v, "logits", 2);
    vt_put_note(p, "key", "value");
    vt_status s = vt_put_file(p, "small", path, e);
    vt_put_close(p);
    return s;
}

/* Constants are the doubles that they were made of, and float32 copies are these rounded once. */
static void test_reals(void **state) {
    (void)state;
    vt_put *p = vt_put_open();
    vt_network *n;
    vt_err e = {0};
    int v = vt_put_input(p, "pixels", VT_DIMS(3, 2, 2)), sum = -1;
    v = vt_put_slice(p, vt_put_reshape(p, v, VT_DIMS(0, 12)), 1, 0, 1);
    for (int i = 0; i < HARD; i++) {
        const int u = vt_put_binary(p, "Mul", v, vt_put_real(p, hard[i]));
        sum = sum < 0 ? u : vt_put_concat(p, sum, u, 1);
        assert_int_equal(vt_put_real(p, hard[i]), vt_put_real(p, hard[i])); /* written once */
    }
    vt_put_output(p, sum, "logits", HARD);
    if (vt_put_file(p, "reals", at("r.onnx"), &e) != VT_OK) fail_msg("%s", e.text);
    vt_put_close(p);
    if (vt_network_open(&n, at("r.onnx"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    bool there[HARD] = {false};
    for (int i = 0; i < n->g->n_values; i++) {
        const vt_value *x = &n->g->values[i];
        for (int k = 0; k < HARD && vt_value_is_constant(x) && x->uses && x->n == 1; k++)
            if (vt_value_real(x, 0) == hard[k]) there[k] = !x->floats || x->floats[0] == (float)hard[k];
    }
    for (int k = 0; k < HARD; k++)
        if (!there[k]) fail_msg("constant %.17g is not in the graph", hard[k]);
    vt_network_close(n);
}

static void test_reading_back(void **state) {
    (void)state;
    vt_network *n;
    vt_err e = {0};
    double m[24];
    char *bytes[2];
    size_t size[2];
    t_normals(m, 24, 1, 1);
    for (int k = 0; k < 2; k++) {
        if (write_small(at("%d.onnx", k), m, 1e-6, &e) != VT_OK) fail_msg("%s", e.text);
        assert_int_equal(vt_file_load(at("%d.onnx", k), 1 << 20, &bytes[k], &size[k], &e), VT_OK);
    }
    assert_true(size[0] == size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    free(bytes[0]), free(bytes[1]);
    if (vt_network_open(&n, at("0.onnx"), NULL, &e) != VT_OK) fail_msg("%s", e.text);
    assert_string_equal(n->file->producer, "vitrine");
    assert_int_equal(n->file->opset, 17);
    assert_int_equal(n->classes, 2);
    assert_true(n->file->inputs[0].dims.d[0] == -1 && n->file->outputs[0].dims.d[1] == 2);
    assert_string_equal(n->file->inputs[0].name, "pixels");
    assert_string_equal(n->file->outputs[0].name, "logits");
    vt_network_close(n);
}

static void test_refusals(void **state) {
    (void)state;
    static const float none[1];
    vt_err e = {0};
    vt_put *p = vt_put_open();
    int v = vt_put_input(p, "pixels", VT_DIMS(3, 2, 2));
    assert_int_equal(vt_put_floats(p, "w", VT_DIMS(2, 2), none), vt_put_floats(p, "w", VT_DIMS(2, 2), none));
    for (int k = 0; k < 3; k++) /* 2^28 numbers each, of which none is read */
        v = vt_put_binary(p, "Add", v, vt_put_floats(p, (const char *[]){"a", "b", "c"}[k], VT_DIMS(1 << 28), none));
    vt_put_output(p, v, "logits", 2);
    t_says(vt_put_file(p, "large", at("large.onnx"), &e), VT_E_RANGE, &e, "large.onnx: would have 32212", "2147483647");
    vt_put_close(p);
    p = vt_put_open();
    assert_int_equal(vt_put_binary(p, "Add", vt_put_failed(p), 0), -1);
    assert_int_equal(vt_put_real(p, 1), -1);
    assert_int_equal(vt_put_file(p, "failed", at("failed.onnx"), &e), VT_E_MEMORY);
    vt_put_close(p);
    double m[24] = {0};
    assert_int_equal(write_small(at("none/x.onnx"), m, 0, &e), VT_E_IO);
    assert_true(access(at("large.onnx"), F_OK) && access(at("failed.onnx"), F_OK));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_reals), cmocka_unit_test(test_reading_back),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("write", tests, make_tmp, remove_tmp);
}
