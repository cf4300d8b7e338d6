/* SPDX-License-Identifier: MIT */
/* State dicts for the tests of names: fixtures of tests/fixtures/gen_names.py. */
#ifndef NAMES_BENCH_H
#define NAMES_BENCH_H

#include "base/real.h"
#include "scratch.h"
#include "t.h"

#include "checkpoint/names.h"

static inline vt_tensors *open_file(const char *path) {
    vt_tensors *st;
    vt_err e = {0};
    if (vt_weights_open(&st, path, NULL, &e) != VT_OK) fail_msg("%s", e.text);
    return st;
}

typedef struct item {
    const char *name;
    int ndim;
    int64_t shape[4];
    vt_dtype dtype;
} item;

static inline vt_tensors *made(const item *items, int n) {
    vt_tensor *t = calloc((size_t)n + 1, sizeof *t);
    double *all = t_take(100000 * sizeof *all);
    size_t used = 0;
    vt_err e = {0};
    for (int i = 0; i < n; i++) {
        vt_dtype type = items[i].dtype ? items[i].dtype : VT_F64;
        t[i] = (vt_tensor){.name = items[i].name, .dtype = type, .ndim = items[i].ndim, .numel = 1, .data = all + used};
        memcpy(t[i].shape, items[i].shape, sizeof items[i].shape);
        for (int d = 0; d < items[i].ndim; d++) t[i].numel *= (size_t)items[i].shape[d];
        for (size_t j = 0; j < t[i].numel; j++, used++) all[used] = type == VT_F64 ? (double)used : 0;
    }
    assert_true(used <= 100000);
    if (vt_tensors_write(at("made.safetensors"), t, n, NULL, 0, &e) != VT_OK) fail_msg("%s", e.text);
    free(t);
    t_release("made");
    return open_file(at("made.safetensors"));
}

static inline vt_rename *map_of(const char *text) {
    vt_rename *m;
    vt_err e = {0};
    if (vt_rename_parse(&m, text, strlen(text), "x.map", &e) != VT_OK) fail_msg("%s", e.text);
    return m;
}

#define FOLDER "tests/fixtures/names/"

static inline vt_tensors *fixture(const char *name) {
    char path[200];
    snprintf(path, sizeof path, FOLDER "%s.safetensors", name);
    return open_file(path);
}

/* Same tensors, same shapes, same bits. */
static inline void same_tensors(const vt_tensors *a, const vt_tensors *b, const char *who) {
    if (vt_tensors_count(a) != vt_tensors_count(b))
        fail_msg("%s: %d tensors, not %d", who, vt_tensors_count(a), vt_tensors_count(b));
    for (int i = 0; i < vt_tensors_count(b); i++) {
        const vt_tensor *y = vt_tensors_at(b, i), *x = vt_tensors_find(a, y->name);
        float *p = t_take(y->numel * sizeof *p), *q = t_take(y->numel * sizeof *q);
        if (!x) fail_msg("%s: no tensor %s", who, y->name);
        if (x->ndim != y->ndim || memcmp(x->shape, y->shape, (size_t)y->ndim * sizeof *y->shape))
            fail_msg("%s: %s has another shape", who, y->name);
        assert_int_equal(vt_tensor_f32(a, x, p, x->numel, NULL), VT_OK);
        assert_int_equal(vt_tensor_f32(b, y, q, y->numel, NULL), VT_OK);
        if (memcmp(p, q, y->numel * sizeof *p)) fail_msg("%s: %s has other numbers", who, y->name);
        t_release(y->name);
    }
}

#endif
