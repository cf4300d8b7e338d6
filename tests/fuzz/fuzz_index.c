/* SPDX-License-Identifier: MIT */
/* Any bytes as the index of two shards that lie beside it: refused with a sentence, or every tensor can be read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void shard(const char *file, const char *name) {
    vt_err e = {0};
    const vt_tensor t = {.name = name, .dtype = VT_F32, .ndim = 1, .shape = {2}, .numel = 2, .data = (float[2]){1, 2}};
    if (vt_tensors_write(scratch(file), &t, 1, (const char *[]){"of", name}, 1, &e) != VT_OK) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *index;
    vt_tensors *st;
    vt_err e = {0};
    if (!index) {
        index = scratch("model.safetensors.index.json");
        shard("a.safetensors", "a"), shard("b.safetensors", "b");
    }
    scratch_write(index, bytes, n);
    if (vt_weights_open(&st, index, NULL, &e) != VT_OK) {
        if (st || e.code == VT_OK || !strstr(e.text, scratch_folder)) abort();
        return 0;
    }
    char hex[65];
    for (int i = 0; i < vt_tensors_count(st); i++) {
        double v[2];
        const vt_tensor *t = vt_tensors_at(st, i);
        if (t->numel <= 2 && vt_tensor_f64(st, t, v, t->numel, &e) != VT_OK) abort();
    }
    vt_weights_sha(st, hex);
    if (vt_tensors_check(st, &e) != VT_OK) abort();
    vt_tensors_close(st);
    return 0;
}
