/* SPDX-License-Identifier: MIT */
/* Any bytes are refused as a map with a sentence, or accepted; an accepted map is put to work on a small state dict,
 * and then every tensor it made holds as many numbers as its shape says. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checkpoint/rename.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

#define TENSOR(name, shape, at, bytes)                                                                                 \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" at "," bytes "]}"
static const char header[] =
    "{" TENSOR("a.0.w", "[2,3]", "0", "24") "," TENSOR("a.1.w", "[2,3]", "24", "48") "," TENSOR("layers.0.q.weight", "[4]", "48", "64") "," TENSOR(
        "layers.0.k.weight", "[4]", "64",
        "80") "," TENSOR("layers.0.v.weight", "[4]", "80",
                         "96") "," TENSOR("tok", "[4]", "96",
                                          "112") "," TENSOR("pos", "[2,2]", "112",
                                                            "128") "," TENSOR("pe", "[2,12]", "128",
                                                                              "224") "," TENSOR("s", "[]", "224",
                                                                                                "228") "," TENSOR("bn."
                                                                                                                  "num_"
                                                                                                                  "batc"
                                                                                                                  "hes_"
                                                                                                                  "trac"
                                                                                                                  "ked",
                                                                                                                  "[0]",
                                                                                                                  "228",
                                                                                                                  "228") "}";

static uint8_t file[8 + sizeof header - 1 + 228];

static vt_tensors *state_dict(void) {
    const uint64_t size = sizeof header - 1;
    vt_tensors *st;
    vt_err e = {0};
    memcpy(file, &size, 8);
    memcpy(file + 8, header, size);
    if (vt_weights_parse(&st, file, sizeof file, "st", NULL, &e) != VT_OK) abort();
    return st;
}

static void check_made(const vt_tensors *st) {
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const vt_tensor *t = vt_tensors_at(st, i);
        size_t numel = 1;
        double v[1024];
        for (int d = 0; d < t->ndim; d++) numel *= (size_t)t->shape[d];
        if (numel != t->numel || numel > 1024 || !*t->name || !vt_tensors_origin(st, i)) abort();
        if (vt_tensor_f64(st, t, v, numel, NULL) != VT_OK || vt_tensors_find(st, t->name) != t) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_rename *m;
    vt_err e = {0};
    if (vt_rename_parse(&m, (const char *)bytes, n, "fuzz", &e) != VT_OK) {
        if (m || e.code == VT_OK || strncmp(e.text, "fuzz: ", 6)) abort();
        return 0;
    }
    for (int all = 0; all < 2; all++) {
        vt_tensors *st = state_dict();
        vt_names_row *rows;
        int count;
        bool covers = vt_rename_covers(m, st);
        e = (vt_err){0};
        vt_status s = vt_rename_apply(m, st, all, &rows, &count, &e);
        if ((s == VT_OK) != (e.code == VT_OK) || count != 10) abort();
        if (s == VT_OK) check_made(st);
        if (s == VT_OK && all && !covers) abort(); /* all lines were used, and all tensors taken */
        for (int i = 0; i < count; i++) {
            char theirs[100];
            if (rows[i].became) vt_rename_theirs(m, rows[i].became, theirs, sizeof theirs);
            if (s == VT_OK && !rows[i].became == !rows[i].why) abort();
        }
        vt_tensors_close(st);
    }
    free(m);
    return 0;
}
