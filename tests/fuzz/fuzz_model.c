/* SPDX-License-Identifier: MIT */
/* A checkpoint of any bytes, and behind the bytes ff fe a config.json beside it: refused with a sentence, or opened
 * with its weights and put to work. */
#include <stdint.h>
#include <unistd.h>
#include "network.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *file, *config;
    if (!file) file = scratch("m.bin"), config = scratch("config.json");
    const uint8_t *cut = n ? memmem(bytes, n, "\xff\xfe{", 3) : NULL;
    size_t first = cut ? (size_t)(cut - bytes) : n;
    scratch_write(file, bytes, first);
    unlink(config);
    if (cut) scratch_write(config, cut + 2, n - first - 2);
    network_try(file);
    return 0;
}
