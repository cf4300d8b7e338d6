/* SPDX-License-Identifier: MIT */
/* NumPy's arrays and archives against NumPy (tests/fixtures/gen_npy.py). Runs from the repository root. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "tensors/npy.h"
#include "tensors/zip.h"
#include "scratch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define COUNT(a) (sizeof(a) / sizeof *(a))
#define CORPUS "tests/fuzz/corpus/npy/"

static vt_tensors *judge;

static uint8_t *get(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    uint8_t *b = malloc(1 << 20);
    *n = fread(b, 1, 1 << 20, f);
    fclose(f);
    return b;
}

static uint8_t *get_array(const char *name, vt_npy *a, size_t *n) {
    char path[200];
    vt_err e = {0};
    snprintf(path, sizeof path, CORPUS "%s.npy", name);
    uint8_t *b = get(path, n);
    if (vt_npy_parse(a, b, *n, path, &e) != VT_OK) fail_msg("%s", e.text);
    return b;
}

static void test_arrays(void **state) {
    (void)state;
    int seen = 0;
    for (int i = 0; i < vt_tensors_count(judge); i++) {
        const vt_tensor *t = vt_tensors_at(judge, i);
        if (!strncmp(t->name, "pixels", 6)) continue; /* of data sets */
        vt_npy a;
        size_t n;
        uint8_t *bytes = get_array(t->name, &a, &n);
        const double *want = t->data; /* not aligned */
        assert_int_equal(a.ndim, t->ndim);
        assert_memory_equal(a.shape, t->shape, sizeof a.shape);
        for (size_t k = 0, rest; k < a.numel; k++) { /* row-major k -> index -> place */
            size_t at = 0;
            rest = k;
            for (int d = a.ndim - 1; d >= 0; d--)
                at += rest % (size_t)a.shape[d] * a.stride[d], rest /= (size_t)a.shape[d];
            double v = vt_npy_real(&a, at), w;
            memcpy(&w, want + k, 8);
            if (memcmp(&v, &w, 8)) fail_msg("%s: item %zu is %g, must be %g", t->name, k, v, w);
            if (!vt_npy_is_real(&a)) assert_int_equal(vt_npy_whole(&a, at), (int64_t)w);
        }
        free(bytes);
        seen++;
    }
    assert_int_equal(seen, 22 + 9); /* eleven types in two byte orders, and nine forms */
}

static void test_arrays_refused(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
    } cases[] = {
        {"object", "Python objects"},
        {"text", "its type is '<U1'"},
        {"record", "records of several fields"},
        {"complex", "its type is '<c8'"},
        {"cut", "[9] F32 does not take the 35 bytes"},
        {"long", "does not take the 37 bytes"},
        {"claim", "[536870912] F32 does not take the 0 bytes"},
        {"overflow", "[4294967296,4294967296] F32 does not take"},
        {"digits", "not one that NumPy writes"},
        {"negative", "no shape"},
        {"comma", "no shape"},
        {"dims", "more than 8 dimensions"},
        {"twice", "not one that NumPy writes"},
        {"missing", "not one that NumPy writes"},
        {"call", "not one that NumPy writes"},
        {"open", "not one that NumPy writes"},
        {"order", "not one that NumPy writes"},
        {"behind", "not one that NumPy writes"},
        {"version", "npy version 4.0"},
        {"header", "claims a header of 4294967295 bytes, but only 1 bytes follow"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char path[200];
        size_t n;
        vt_npy a;
        vt_err e = {0};
        snprintf(path, sizeof path, CORPUS "bad_%s.npy", cases[i].file);
        uint8_t *b = get(path, &n);
        if (vt_npy_parse(&a, b, n, path, &e) == VT_OK) fail_msg("%s is accepted", path);
        if (!strstr(e.text, cases[i].text) || strncmp(e.text, path, strlen(path)))
            fail_msg("'%s' does not mention '%s'", e.text, cases[i].text);
        free(b);
    }
    size_t n;
    uint8_t *b = get(CORPUS "version2.npy", &n);
    for (size_t k = 0; k < n; k++) { /* every cut */
        uint8_t *cut = malloc(k + 1);
        memcpy(cut, b, k);
        vt_npy a;
        assert_int_not_equal(vt_npy_parse(&a, cut, k, "cut", NULL), VT_OK);
        free(cut);
    }
    free(b);
}

/* What we write is, byte for byte, what NumPy wrote. */
static void test_writers(void **state) {
    (void)state;
    static const char *const names[] = {"f4", "f8", "f2", "i1", "u1", "i8", "bool", "scalar", "empty", "special"};
    vt_tensor t[COUNT(names)];
    uint8_t *bytes[COUNT(names)];
    char path[300];
    vt_err e = {0};
    for (size_t i = 0; i < COUNT(names); i++) {
        vt_npy a;
        size_t n, m;
        bytes[i] = get_array(names[i], &a, &n);
        t[i] = (vt_tensor){.name = names[i], .dtype = a.dtype, .ndim = a.ndim, .numel = a.numel, .data = a.data};
        memcpy(t[i].shape, a.shape, sizeof a.shape);
        snprintf(path, sizeof path, "%s/a.npy", tmp);
        assert_int_equal(vt_npy_write(path, &t[i], &e), VT_OK);
        uint8_t *back = get(path, &m);
        assert_int_equal(m, n);
        assert_memory_equal(back, bytes[i], n);
        free(back);
    }
    snprintf(path, sizeof path, "%s/a.npz", tmp);
    assert_int_equal(vt_npz_write(path, t, COUNT(names), &e), VT_OK);
    size_t size;
    uint8_t *all = get(path, &size);
    vt_zip *z;
    assert_int_equal(vt_zip_open(&z, all, size, path, &e), VT_OK);
    assert_int_equal(vt_zip_count(z), COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++) {
        char name[40];
        const uint8_t *in;
        size_t n;
        vt_npy a;
        snprintf(name, sizeof name, "%s.npy", names[i]);
        assert_int_equal(vt_zip_entry(z, vt_zip_find(z, name), &in, &n, &e), VT_OK);
        assert_true(in >= all && in + n <= all + size); /* stored: in place */
        assert_int_equal(vt_npy_parse(&a, in, n, name, &e), VT_OK);
        assert_memory_equal(a.data, t[i].data, t[i].numel * vt_dtype_size(t[i].dtype));
        free(bytes[i]);
    }
    vt_zip_close(z);
    free(all);
    for (size_t i = 0; i < COUNT(names); i++) t[i].numel = 0, t[i].ndim = 1, t[i].shape[0] = 0;
    assert_int_equal(vt_npz_write(path, t, 1, &e), VT_OK); /* replaces */
    all = get(path, &size);
    assert_true(size < 400);
    free(all);
    t[0].dtype = VT_BF16;
    assert_int_equal(vt_npz_write(path, t, 1, &e), VT_E_FORMAT);
    assert_non_null(strstr(e.text, "is BF16"));
    snprintf(path, sizeof path, "%s/no/a.npz", tmp);
    t[0].dtype = VT_F32;
    assert_int_equal(vt_npz_write(path, t, 1, &e), VT_E_IO);
}

static int start(void **state) {
    vt_err e;
    return make_tmp(state) == 0 && vt_tensors_open(&judge, "tests/fixtures/npy.safetensors", &e) == VT_OK ? 0 : -1;
}

static int end(void **state) {
    vt_tensors_close(judge);
    return remove_tmp(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_arrays_refused),
        cmocka_unit_test(test_writers),
    };
    return cmocka_run_group_tests(tests, start, end);
}
