/* SPDX-License-Identifier: MIT */
/* State dicts for the tests of names: fixtures of tests/fixtures/gen_names.py. */
#ifndef NAMES_BENCH_H
#define NAMES_BENCH_H

#include "core/real.h"
#include "scratch.h"
#include "t.h"

#include "models/checkpoint/names.h"

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

#endif
