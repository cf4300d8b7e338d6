/* SPDX-License-Identifier: MIT */
/* What tests of src/io share: files as bytes, data sets that are refused. */
#ifndef IO_BENCH_H
#define IO_BENCH_H

#include "scratch.h"
#include "t.h"

#include "data/dataset.h"

static inline void put(const char *path, const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline uint8_t *get(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    uint8_t *b = malloc(1 << 20);
    *n = fread(b, 1, 1 << 20, f);
    fclose(f);
    return b;
}

static inline void refuse_set(const char *path, vt_split split, vt_status want, const char *a, const char *b) {
    vt_dataset *d;
    vt_err e = {0};
    t_says(vt_dataset_open(&d, path, split, &e), want, &e, a, b);
    assert_null(d);
}

#endif
