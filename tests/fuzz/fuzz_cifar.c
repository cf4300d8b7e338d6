/* SPDX-License-Identifier: MIT */
/* Any bytes as CIFAR records of both kinds and as idx files of both: accepted means whole records whose labels are in
 * range, and values that end with the bytes; refused comes with a sentence. Opening and reading data sets judge by the
 * same functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "data/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void one(const uint8_t *bytes, size_t n, int record) {
    vt_err e = {0};
    size_t size = (size_t)record;
    bool good = n % size == 0;
    for (size_t i = 0; i + size <= n; i += size) {
        if (record == VT_CIFAR10 && bytes[i] > 9) good = false;
        if (record == VT_CIFAR100 && (bytes[i] > 19 || bytes[i + 1] > 99)) good = false;
    }
    vt_status s = vt_cifar_check(bytes, n, record, 0, "fuzz", &e);
    if ((s == VT_OK) != good) abort();
    if (s != VT_OK && (e.code != s || strncmp(e.text, "fuzz: record ", 13))) abort();
}

static void idx(const uint8_t *bytes, size_t n, unsigned magic) {
    vt_idx x;
    vt_err e = {0};
    vt_status s = vt_idx_parse(&x, bytes, n, magic, "fuzz", &e);
    if (s != VT_OK && (s != VT_E_USAGE || e.code != s || strncmp(e.text, "fuzz: ", 6))) abort();
    if (s == VT_OK && (x.n < 0 || x.data + (size_t)x.n * (size_t)x.height * (size_t)x.width != bytes + n)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    idx(bytes, n, VT_IDX_IMAGES);
    idx(bytes, n, VT_IDX_LABELS);
    one(bytes, n, VT_CIFAR10);
    one(bytes, n, VT_CIFAR100);
    return 0;
}
