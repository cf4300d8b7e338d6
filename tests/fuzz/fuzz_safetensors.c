/* SPDX-License-Identifier: MIT */
/* Any bytes are refused with a sentence or accepted; what is accepted can be written and reads back the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *file;

static size_t bytes_of(const vt_tensor *t) { return t->numel * vt_dtype_size(t->dtype); }

static void check_same(const vt_tensors *a, const vt_tensors *b) {
    if (vt_tensors_count(a) != vt_tensors_count(b)) abort();
    for (int i = 0; i < vt_tensors_count(a); i++) {
        const vt_tensor *x = vt_tensors_at(a, i), *y = vt_tensors_find(b, x->name);
        if (!y || x->dtype != y->dtype || x->ndim != y->ndim || x->numel != y->numel) abort();
        if (memcmp(x->shape, y->shape, sizeof x->shape)) abort();
        if (bytes_of(x) && memcmp(x->data, y->data, bytes_of(x))) abort();
    }
    for (int i = 0; vt_tensors_meta_key(a, i); i++) {
        const char *key = vt_tensors_meta_key(a, i), *value = vt_tensors_meta(b, key);
        if (!value || strcmp(vt_tensors_meta(a, key), value)) abort();
    }
}

/* Each tensor as numbers: exactly one of the two readers takes it, U64 and F8 excepted. */
static void convert(const vt_tensors *st) {
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const vt_tensor *t = vt_tensors_at(st, i);
        if (t->numel > 1 << 16) continue;
        double *d = malloc(t->numel * sizeof *d + 1);
        int64_t *k = malloc(t->numel * sizeof *k + 1);
        float *f = malloc(t->numel * sizeof *f + 1);
        vt_status real = vt_tensor_f64(st, t, d, t->numel, NULL), whole = vt_tensor_i64(st, t, k, t->numel, NULL);
        if (real == VT_OK && whole == VT_OK) abort();
        if (vt_tensor_f32(st, t, f, t->numel, NULL) != real) abort();
        if (vt_tensor_f64(st, t, d, t->numel + 1, NULL) == VT_OK) abort();
        free(d);
        free(k);
        free(f);
    }
}

static void rewrite(const vt_tensors *st) {
    int n = vt_tensors_count(st), n_meta = 0;
    while (vt_tensors_meta_key(st, n_meta)) n_meta++;
    vt_tensor *t = calloc((size_t)n + 1, sizeof *t);
    const char **meta = calloc(2 * (size_t)n_meta + 1, sizeof *meta);
    vt_err e = {0};
    vt_tensors *back;
    for (int i = 0; i < n; i++) t[i] = *vt_tensors_at(st, i);
    for (int i = 0; i < n_meta; i++) {
        meta[2 * i] = vt_tensors_meta_key(st, i);
        meta[2 * i + 1] = vt_tensors_meta(st, meta[2 * i]);
    }
    if (vt_tensors_write(file, t, n, meta, n_meta, &e) != VT_OK) abort();
    if (vt_tensors_open(&back, file, &e) != VT_OK) abort();
    check_same(st, back);
    vt_tensors_close(back);
    free(t);
    free(meta);
}

/* Every byte behind the header belongs to exactly one tensor, in order. */
static void check_cover(const vt_tensors *st, const uint8_t *bytes, size_t n) {
    uint64_t header;
    memcpy(&header, bytes, 8);
    const uint8_t *end = bytes + 8 + header;
    for (int i = 0; i < vt_tensors_count(st); i++) {
        if (vt_tensors_at(st, i)->data != end) abort();
        end += bytes_of(vt_tensors_at(st, i));
    }
    if (end != bytes + n) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_tensors *st;
    vt_err e = {0};
    if (!file) file = scratch("w.st");
    if (vt_tensors_parse(&st, bytes, n, "fuzz", &e) != VT_OK) {
        if (st || e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        return 0;
    }
    check_cover(st, bytes, n);
    convert(st);
    rewrite(st);
    vt_tensors_close(st);
    return 0;
}
