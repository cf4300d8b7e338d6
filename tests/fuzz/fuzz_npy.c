/* SPDX-License-Identifier: MIT */
/* Any bytes are refused with a sentence or accepted, as an array and as a data set; every item of an array and every
 * picture of a set can be read, and an array that is written reads back the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "data/dataset.h"
#include "tensors/npy.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *file;

static void array(const uint8_t *bytes, size_t n) {
    vt_npy a, b;
    vt_err e = {0};
    if (vt_npy_parse(&a, bytes, n, "fuzz", &e) != VT_OK) {
        if (e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        return;
    }
    for (size_t i = 0; i < a.numel; i++) vt_npy_real(&a, i);
    vt_tensor t = {.name = "a", .dtype = a.dtype, .ndim = a.ndim, .numel = a.numel, .data = a.data};
    memcpy(t.shape, a.shape, sizeof t.shape);
    if (vt_npy_write(file, &t, &e) != VT_OK) abort();
    FILE *f = fopen(file, "rb");
    size_t size = 512 + a.numel * vt_dtype_size(a.dtype), got;
    uint8_t *back = malloc(size);
    if (!f || !back) abort();
    got = fread(back, 1, size, f);
    fclose(f);
    if (vt_npy_parse(&b, back, got, "back", &e) != VT_OK || b.dtype != a.dtype || b.numel != a.numel ||
        memcmp(b.shape, a.shape, sizeof a.shape) ||
        (a.numel && memcmp(b.data, a.data, a.numel * vt_dtype_size(a.dtype))))
        abort();
    free(back);
}

static void set(const uint8_t *bytes, size_t n, vt_split split) {
    vt_dataset *d;
    vt_err e = {0};
    scratch_write(file, bytes, n);
    if (vt_dataset_open(&d, file, split, &e) != VT_OK) {
        if (d || e.code == VT_OK || strncmp(e.text, file, strlen(file))) abort();
        return;
    }
    for (int64_t i = 0; i < 2 * d->count; i++) { /* then in the other layout, if there is one */
        vt_image im;
        int label;
        if (vt_dataset_read(d, i % d->count, &im, &label, &e) != VT_OK || label < 0 || label >= d->classes) abort();
        for (size_t k = 0; k < vt_shape_values(im.shape); k++)
            if (!(vt_image_at(&im, k) >= 0 && vt_image_at(&im, k) <= 1)) abort();
        vt_status s = vt_image_to_bytes(&im, "fuzz", &e);
        if (s == VT_OK ? !im.rgb || im.f : s != VT_E_SHAPE || im.rgb || !im.f) abort();
        const vt_shape is = im.shape;
        if (i == d->count - 1) vt_dataset_expect(d, (vt_shape){is.height, is.width, is.channels});
        if (i == d->count - 1) vt_dataset_expect(d, (vt_shape){is.width, is.channels, is.height});
        vt_image_free(&im);
    }
    vt_dataset_close(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (!file) file = scratch("w.npz");
    array(bytes, n);
    set(bytes, n, VT_SPLIT_TEST);
    set(bytes, n, VT_SPLIT_TRAIN);
    return 0;
}
