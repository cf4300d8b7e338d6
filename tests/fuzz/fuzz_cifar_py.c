/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of CIFAR's Python version: refused with a sentence, or accepted; then every record can be read,
 * and the check of records says of it what it says of a binary file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "data/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_cifar_py b;
    vt_err e = {0};
    if (vt_cifar_py_open(&b, bytes, n, "fuzz", &e) != VT_OK) {
        if (e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        vt_cifar_py_close(&b);
        return 0;
    }
    int record = b.record;
    int64_t count = b.count;
    uint8_t out[VT_CIFAR100];
    if ((record != VT_CIFAR10 && record != VT_CIFAR100) || count < 1 || (size_t)count > n / VT_CIFAR_PIXELS) abort();
    for (int64_t i = 0; i < count; i++) {
        vt_cifar_py_read(&b, i, out);
        bool good = record == VT_CIFAR10 ? out[0] < 10 : out[0] < 20 && out[1] < 100;
        e = (vt_err){0};
        if ((vt_cifar_check(out, (size_t)record, record, i, "fuzz", &e) == VT_OK) != good) abort();
    }
    vt_cifar_py_close(&b);
    return 0;
}
