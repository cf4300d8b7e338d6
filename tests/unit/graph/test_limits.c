/* SPDX-License-Identifier: MIT */
/* What a file of a network may ask for: sides beside one of 0, memory for constants, external
 * data of another length or where a link leads. Files of all kinds: tests/fixtures/hostile. */
#include "t.h"
#include "scratch.h"

#include <sys/stat.h>
#include "graph/graph.h"
#include "graph/onnx.h"

static void test_sides(void **state) {
    (void)state;
    size_t n;
    assert_true(vt_dims_count(&(vt_dims){3, {0, 1 << 28, 5}}, &n) && n == 0);
    assert_true(vt_dims_count(&(vt_dims){2, {1 << 14, 1 << 14}}, &n) && n == VT_GRAPH_VALUES);
    static const vt_dims bad[] = {{2, {0, (1 << 28) + 1}},
                                  {2, {(int64_t)1 << 61, 0}},
                                  {2, {0, -1}},
                                  {3, {1 << 28, 1 << 28, 0}},
                                  {2, {(1 << 14) + 1, 1 << 14}}};
    for (size_t i = 0; i < T_COUNT(bad); i++) assert_false(vt_dims_count(&bad[i], &n));
}

static void test_heap(void **state) {
    (void)state;
    vt_heap h = {.most = 1000};
    assert_non_null(vt_heap_take(&h, 100, 1));
    assert_false(h.full);
    assert_true(vt_heap_fits(&h, 1000 - h.bytes));
    assert_null(vt_heap_take(&h, 1000 - h.bytes, 1)); /* the piece's own header is too much */
    assert_true(h.full);
    assert_null(vt_heap_take(&h, 1, 1)); /* what was refused once is not gone on with */
    vt_heap_free(&h);
    assert_non_null(vt_heap_take(&h, 100000, 1)); /* any number */
    vt_heap_free(&h);
}

/* Adds a field of bytes, fewer than 128, to a message. */
static size_t put(uint8_t *to, size_t at, int field, const void *bytes, size_t n) {
    to[at++] = (uint8_t)(field << 3 | 2), to[at++] = (uint8_t)n;
    memcpy(to + at, bytes, n);
    return at + n;
}

static size_t put_entry(uint8_t *to, size_t at, const char *key, const char *value) {
    uint8_t pair[64];
    size_t n = put(pair, 0, 1, key, strlen(key));
    n = put(pair, n, 2, value, strlen(value));
    return put(to, at, 13, pair, n);
}

/* Opens a model of one initializer W [4], whose data are where the entries say. */
static vt_status open_external_model(const char *location, const char *length, vt_err *e) {
    uint8_t tensor[120] = {0x08, 4, 0x10, 1, 0x42, 1, 'W', 0x70, 1}, graph[124], all[128] = {0x08, 8};
    size_t n = put_entry(tensor, 9, "location", location);
    if (length) n = put_entry(tensor, n, "length", length);
    n = put(graph, 0, 5, tensor, n);
    n = put(all, 2, 7, graph, n);
    n = put(all, n, 8, (const uint8_t[]){0x10, 13}, 2);
    FILE *f = fopen(at("in/m.onnx"), "wb");
    assert_true(f && fwrite(all, 1, n, f) == n && fclose(f) == 0);
    vt_onnx *m;
    vt_status s = vt_onnx_open(&m, at("in/m.onnx"), e);
    if (s == VT_OK) assert_int_equal(vt_onnx_bytes(m), n + 16);
    vt_onnx_close(m);
    return s;
}

static void test_external(void **state) {
    (void)state;
    static const char *const folders[] = {"in", "out"};
    vt_err e = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(mkdir(at("%s", folders[i]), 0777), 0);
        FILE *f = fopen(at("%s/data", folders[i]), "wb");
        assert_true(f && fwrite((const float[4]){1, 2, 3, 4}, 4, 4, f) == 4 && fclose(f) == 0);
    }
    assert_int_equal(symlink("../out/data", at("in/away")), 0);
    assert_int_equal(symlink("data", at("in/here")), 0);
    assert_int_equal(symlink("../out/m.onnx", at("in/linked.onnx")), 0);
    assert_int_equal(open_external_model("data", NULL, &e), VT_OK);
    assert_int_equal(open_external_model("data", "16", &e), VT_OK);
    assert_int_equal(open_external_model("here", "16", &e), VT_OK);
    static const char *const lengths[] =
        {"8", "17", "-16", "", "0x10", "18446744073709551632", "1600000000000000000000000000000000000016"};
    for (size_t i = 0; i < T_COUNT(lengths); i++)
        t_says(open_external_model("data", lengths[i], &e), VT_E_FORMAT, &e, "tensor W", "must be 16");
    t_says(open_external_model("away", NULL, &e), VT_E_FORMAT, &e, "'away'", "a link to another folder");
    t_says(open_external_model("../out/data", NULL, &e), VT_E_FORMAT, &e, "'../out/data'", "beside the model");
    /* a cache: the model is a link to a blob, its data one to another blob beside that */
    assert_int_equal(rename(at("in/m.onnx"), at("out/m.onnx")), 0);
    assert_int_equal(open_external_model("away", NULL, &e), VT_E_FORMAT);
    assert_int_equal(rename(at("in/m.onnx"), at("out/m.onnx")), 0);
    vt_onnx *m;
    e = (vt_err){0};
    if (vt_onnx_open(&m, at("in/linked.onnx"), &e) != VT_OK) fail_msg("%s", e.text);
    vt_onnx_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sides), cmocka_unit_test(test_heap),
                                       cmocka_unit_test(test_external)};
    return cmocka_run_group_tests_name("limits", tests, make_tmp, remove_tmp);
}
