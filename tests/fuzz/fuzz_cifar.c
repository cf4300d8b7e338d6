/* SPDX-License-Identifier: MIT */
/* Any bytes as CIFAR records of both kinds: accepted means whole records whose labels are in range, refused
 * comes with a sentence. Opening and reading data sets judge by the same function. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "io/dataset.h"

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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    one(bytes, n, VT_CIFAR10);
    one(bytes, n, VT_CIFAR100);
    return 0;
}
