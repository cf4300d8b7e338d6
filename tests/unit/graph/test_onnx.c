/* SPDX-License-Identifier: MIT */
/* Networks of ONNX files: logits and vjps against PyTorch's autograd (tests/fixtures/gen_onnx.py), bad files refused by
 * name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "t.h"
#include "graph/network.h"
#include "models/model.h"
#include "models/net/batch_gradients.h"
#include "scratch.h"
#include "tensors/tensors.h"

enum { IMAGES = 2 };

static double *read_doubles(const vt_tensors *st, const char *name, size_t *n) {
    const vt_tensor *t = vt_tensors_find(st, name);
    assert_non_null(t);
    double *out = calloc(t->numel, sizeof *out);
    assert_int_equal(vt_tensor_f64(st, t, out, t->numel, NULL), VT_OK);
    *n = t->numel;
    return out;
}

/* Largest difference over the largest reference value. */
static double error_of(const double *got, const double *want, size_t n) {
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(got[i] - want[i])), top = fmax(top, fabs(want[i]));
    return worst / top;
}

/* Double: sums of some hundred terms, 1e-12; `attention` has sqrt 2 as float32 in the file, 3e-8 of GELU's argument.
 * Float: 24 bits of such sums. */
static void test_against_autograd(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double tol64;
    } nets[] = {{"conv", 1e-12},      {"attention", 5e-9}, {"moves", 1e-12}, {"resample", 1e-12},
                {"quantised", 1e-12}, {"newer", 1e-12},    {"fused", 1e-12}, {"views", 1e-12}};
    for (size_t i = 0; i < T_COUNT(nets); i++)
        for (int f64 = 0; f64 < 2; f64++) {
            char path[200];
            vt_model *m;
            vt_tensors *st;
            vt_batch_gradients p;
            vt_err e = {0};
            size_t n, k;
            snprintf(path, sizeof path, "tests/fixtures/onnx/%s.onnx", nets[i].name);
            assert_int_equal(vt_model_open(&m, path, &(vt_overrides){.onnx = true}, &e), VT_OK);
            snprintf(path, sizeof path, "tests/fixtures/onnx/%s.safetensors", nets[i].name);
            assert_int_equal(vt_tensors_open(&st, path, &e), VT_OK);
            double *x = read_doubles(st, "x", &n), *dz = read_doubles(st, "dz", &k);
            const int64_t labels[IMAGES] = {0};
            assert_int_equal(n, IMAGES * vt_config_input_pixels(&m->config));
            assert_int_equal((f64 ? vt_batch_gradients_run_f64 : vt_batch_gradients_run_f32)(&p, m, x, IMAGES, labels,
                                                                                             NULL, dz, VT_LOSS_LINEAR,
                                                                                             false, &e),
                             VT_OK);
            double *logits = read_doubles(st, "logits", &k), *vjp = read_doubles(st, "vjp", &n);
            const double tol = f64 ? nets[i].tol64 : 2e-6;
            assert_true(error_of(p.logits, logits, k) <= tol);
            assert_true(error_of(p.dx, vjp, n) <= tol);
            free(x), free(dz), free(logits), free(vjp);
            vt_batch_gradients_free(&p);
            vt_tensors_close(st);
            vt_model_close(m);
        }
}

/* Three activations are rounded; the weights' roundings are constants. */
static void test_roundings_are_counted(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int roundings;
    } rows[] = {{"tests/fixtures/onnx/quantised.onnx", 3}, {"tests/fixtures/onnx/newer.onnx", 0}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        vt_network *n;
        assert_int_equal(vt_network_open(&n, rows[i].path, NULL, NULL), VT_OK);
        assert_int_equal(vt_graph_straight_through(n->g), rows[i].roundings);
        vt_network_close(n);
    }
}

/* ---- files made here ---- */

typedef struct bytes {
    unsigned char b[4096];
    size_t n;
} bytes;

static void put(bytes *o, const void *p, size_t n) {
    assert_true(o->n + n <= sizeof o->b);
    memcpy(o->b + o->n, p, n), o->n += n;
}

static void put_varint(bytes *o, uint64_t v) {
    for (; v > 127; v >>= 7) put(o, &(unsigned char){(unsigned char)(v | 128)}, 1);
    put(o, &(unsigned char){(unsigned char)v}, 1);
}

static void put_int(bytes *o, int field, uint64_t v) { put_varint(o, (uint64_t)field << 3), put_varint(o, v); }

static void put_bytes(bytes *o, int field, const void *p, size_t n) {
    put_varint(o, (uint64_t)field << 3 | 2), put_varint(o, n), put(o, p, n);
}

static void put_text(bytes *o, int field, const char *t) { put_bytes(o, field, t, strlen(t)); }

/* A value [1,3,4,4] or so: -1 a side without a number. */
static void put_value(bytes *graph, int field, const char *name, const int *sides, int n) {
    bytes shape = {.n = 0}, tensor = {.n = 0}, type = {.n = 0}, value = {.n = 0};
    for (int i = 0; i < n; i++) {
        bytes d = {.n = 0};
        if (sides[i] >= 0) put_int(&d, 1, (uint64_t)sides[i]);
        put_bytes(&shape, 1, d.b, d.n);
    }
    put_int(&tensor, 1, VT_ONNX_FLOAT), put_bytes(&tensor, 2, shape.b, shape.n);
    put_bytes(&type, 1, tensor.b, tensor.n);
    put_text(&value, 1, name), put_bytes(&value, 2, type.b, type.n);
    put_bytes(graph, field, value.b, value.n);
}

/* An attribute of a node: an integer, which a file without zeros leaves out, or (text) a text. kind: its type. */
typedef struct attribute {
    const char *name;
    int kind;
    int64_t number;
    const char *text;
} attribute;

/* A node of one or two inputs, with one attribute, or (no name) none. */
static void put_node_with(bytes *graph, const char *op, const char *in, const char *in2, const char *out, attribute a) {
    bytes n = {.n = 0}, of = {.n = 0};
    put_text(&n, 1, in);
    if (in2) put_text(&n, 1, in2);
    put_text(&n, 2, out), put_text(&n, 4, op);
    if (a.name) put_text(&of, 1, a.name), put_int(&of, 20, (uint64_t)a.kind);
    if (a.text) put_text(&of, 4, a.text);
    if (a.number) put_int(&of, 3, (uint64_t)a.number);
    if (a.name) put_bytes(&n, 5, of.b, of.n);
    put_bytes(graph, 1, n.b, n.n);
}

static void put_node(bytes *graph, const char *op, const char *in, const char *in2, const char *out) {
    put_node_with(graph, op, in, in2, out, (attribute){0});
}

/* A list of integers as an initializer. */
static void put_list(bytes *graph, const char *name, const int64_t *v, int n) {
    bytes t = {.n = 0};
    put_int(&t, 1, (uint64_t)n), put_int(&t, 2, VT_ONNX_INT64);
    put_text(&t, 8, name), put_bytes(&t, 9, v, (size_t)n * sizeof *v);
    put_bytes(graph, 5, t.b, t.n);
}

static vt_status open_graph(const bytes *graph, int opset, vt_err *e) {
    bytes model = {.n = 0}, set = {.n = 0};
    vt_network *n;
    char path[300];
    put_int(&model, 1, 8), put_bytes(&model, 7, graph->b, graph->n);
    if (opset) put_int(&set, 2, (uint64_t)opset), put_bytes(&model, 8, set.b, set.n);
    snprintf(path, sizeof path, "%s", at("net.onnx"));
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(model.b, 1, model.n, f) == model.n && !fclose(f));
    vt_status s = vt_network_open(&n, path, NULL, e);
    vt_network_close(n);
    remove(path);
    return s;
}

static const int image[] = {1, 3, 4, 4};

/* x -> flatten -> z, with one thing changed. */
static void refuse(const char *op, const char *in, const char *out, int opset, const char *says) {
    bytes g = {.n = 0};
    vt_err e = {0};
    put_value(&g, 11, "x", image, 4);
    put_node(&g, op, in, NULL, out);
    put_value(&g, 12, "z", (const int[]){1, 48}, 2);
    t_says(open_graph(&g, opset, &e), VT_E_FORMAT, &e, says, "");
}

static void test_refusals(void **state) {
    (void)state;
    vt_err e = {0};
    bytes good = {.n = 0};
    put_value(&good, 11, "x", image, 4), put_node(&good, "Flatten", "x", NULL, "z");
    put_value(&good, 12, "z", (const int[]){1, 48}, 2);
    assert_int_equal(open_graph(&good, 13, &e), VT_OK);
    refuse("Flatten", "x", "z", 0, "does not say the opset");
    refuse("Flatten", "x", "z", 99, "opset 99");
    refuse("Flatten", "y", "z", 13, "reads y, which nothing before it writes");
    refuse("Flatten", "x", "y", 13, "output z is written by no node");
    refuse("Flatten", "x", "x", 13, "writes x, which is there already");
    refuse("Flatly", "x", "z", 13, "node z (Flatly) is an operator that is not read");
    refuse("If", "x", "z", 13, "(If)");
    refuse("Relu", "x", "z", 13, "output z has sides [1,3,4,4]");
    refuse("Mish", "x", "z", 13, "from opset 18");
    refuse("Relu", "", "z", 13, "node z (Relu) has no input 1");
    refuse("ArgMax", "x", "z", 13, "has an input 1 that follows the image, must be a constant");
    refuse("NonZero", "x", "z", 13, "has an input 1 that follows the image");
    refuse("LRN", "x", "z", 13, "has size 0");
    refuse("Resize", "x", "z", 13, "has neither scales nor sizes");
    refuse("Einsum", "x", "z", 13, "has no equation");
    refuse("Upsample", "x", "z", 9, "has no input 2");
    refuse("RandomNormalLike", "x", "z", 13, "is an operator that is not read");
}

static void test_shapes_are_checked(void **state) {
    (void)state;
    static const struct {
        int64_t sides[3];
        const char *says;
    } rows[] = {{{1, 5, -1}, "48 numbers"},
                {{1, -1, -1}, "two that are open"},
                {{1, INT64_MIN, 48}, "has a side"},
                {{1, (int64_t)1 << 40, -1}, "2^28"},
                {{1, 47, 1}, "47 numbers of 48"}};
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        bytes g = {.n = 0};
        vt_err e = {0};
        put_value(&g, 11, "x", image, 4);
        put_list(&g, "s", rows[i].sides, 3);
        put_node(&g, "Reshape", "x", "s", "z");
        put_value(&g, 12, "z", (const int[]){1, 48}, 2);
        t_says(open_graph(&g, 13, &e), VT_E_FORMAT, &e, rows[i].says, "");
    }
}

enum { FLOAT = 1, INT, TEXT };

static void test_attributes(void **state) {
    (void)state;
    static const struct {
        const char *op;
        attribute a;
        const char *says;
    } rows[] = {{"LeakyRelu", {"alpha", INT, 1, NULL}, "an attribute alpha of another type"},
                {"Softmax", {"axis", FLOAT, 0, NULL}, "an attribute axis of another type"},
                {"Einsum", {"equation", TEXT, 0, "bcij->bcii"}, "a label twice in its result"},
                {"DepthToSpace", {"mode", TEXT, 0, "RDC"}, "has a mode that is not read"},
                {"ReduceMean", {"keepdims", INT, 0, NULL}, "output z has sides []"}}; /* a zero that is left out */
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        bytes g = {.n = 0};
        vt_err e = {0};
        put_value(&g, 11, "x", image, 4);
        put_node_with(&g, rows[i].op, "x", NULL, "z", rows[i].a);
        put_value(&g, 12, "z", (const int[]){1, 48}, 2);
        t_says(open_graph(&g, 13, &e), VT_E_FORMAT, &e, rows[i].says, "");
    }
}

/* x -> reshape by what the nodes make of list s -> z: the graph can be read if they make [1,48]. */
static void test_constants(void **state) {
    (void)state;
    static const struct {
        int64_t s[2];
        int type; /* of a Cast; 0: none, but a sum of squares over no axes */
        vt_status status;
    } rows[] = {{{257, 304}, VT_ONNX_UINT8, VT_OK},
                {{257, -208}, VT_ONNX_INT8, VT_OK}, /* -208 keeps 48 */
                {{1, 48}, VT_ONNX_INT8, VT_OK},
                {{1, ((int64_t)1 << 32) + 48}, VT_ONNX_INT32, VT_OK},
                {{1, ((int64_t)1 << 32) - 1}, VT_ONNX_INT32, VT_OK}, /* -1: what is left */
                {{1, ((int64_t)1 << 32) - 1}, VT_ONNX_UINT32, VT_E_FORMAT},
                {{1, -1}, VT_ONNX_UINT64, VT_E_FORMAT},
                {{1, -1}, VT_ONNX_INT64, VT_OK},
                {{1, 4}, 0, VT_OK}}; /* [1,16] of [1,1,4,4] */
    for (size_t i = 0; i < T_COUNT(rows); i++) {
        bytes g = {.n = 0};
        vt_err e = {0};
        put_value(&g, 11, "x", rows[i].type ? image : (const int[]){1, 1, 4, 4}, 4);
        put_list(&g, "s", rows[i].s, 2);
        if (rows[i].type)
            put_node_with(&g, "Cast", "s", NULL, "t", (attribute){"to", INT, rows[i].type, NULL});
        else {
            put_node_with(&g, "Cast", "s", NULL, "r", (attribute){"to", INT, VT_ONNX_FLOAT, NULL});
            put_node_with(&g, "ReduceSumSquare", "r", NULL, "q", (attribute){"noop_with_empty_axes", INT, 1, NULL});
            put_node_with(&g, "Cast", "q", NULL, "t", (attribute){"to", INT, VT_ONNX_INT64, NULL});
        }
        put_node(&g, "Reshape", "x", "t", "z");
        put_value(&g, 12, "z", (const int[]){1, rows[i].type ? 48 : 16}, 2);
        const vt_status s = open_graph(&g, 18, &e);
        if (s != rows[i].status) fail_msg("row %zu: %s", i, e.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_autograd),
                                       cmocka_unit_test(test_roundings_are_counted),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_shapes_are_checked),
                                       cmocka_unit_test(test_attributes),
                                       cmocka_unit_test(test_constants)};
    return cmocka_run_group_tests(tests, make_tmp, remove_tmp);
}
