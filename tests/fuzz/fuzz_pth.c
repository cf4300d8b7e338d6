/* SPDX-License-Identifier: MIT */
/* Any bytes are refused with a sentence or accepted; every byte of what is accepted can be read, its names are sorted
 * and unique, and no input of at most a megabyte takes more memory than the limits that st.h and zip.h state. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "tensors/tensors.h"

#define MEMORY ((rlim_t)1 << 30) /* of the process; a sanitizer needs more, and watches by itself */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
/* Present when a sanitizer is linked in, of gcc or of clang, which says so by other macros. */
extern void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void start(void) {
    struct rlimit r;
    if (__sanitizer_set_death_callback || getrlimit(RLIMIT_AS, &r) || r.rlim_cur == MEMORY) return;
    r.rlim_cur = MEMORY;
    setrlimit(RLIMIT_AS, &r);
}

static volatile uint64_t sink; /* so that the reads happen */

static void look(const vt_tensors *st) {
    uint64_t sum = 0;
    for (int i = 0; i < vt_tensors_count(st); i++) {
        const vt_tensor *t = vt_tensors_at(st, i);
        const uint8_t *p = t->data;
        size_t bytes = t->numel * vt_dtype_size(t->dtype), numel = 1;
        for (int k = 0; k < t->ndim; k++) {
            if (t->shape[k] < 0) abort();
            numel *= (size_t)t->shape[k];
        }
        if (numel != t->numel || !vt_tensors_origin(st, i) || vt_tensors_find(st, t->name) != t) abort();
        for (size_t k = 0; k < bytes && k < 1 << 20; k++) sum += p[k];
        if (bytes) sum += p[bytes - 1];
    }
    for (int i = 0; vt_tensors_note(st, i); i++)
        sum += strlen(vt_tensors_note(st, i)->name) + strlen(vt_tensors_note(st, i)->text);
    for (int i = 0; vt_tensors_meta_key(st, i); i++) sum += strlen(vt_tensors_meta(st, vt_tensors_meta_key(st, i)));
    sink += sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *const wants[] = {NULL, "model_ema", "ema.module"};
    start();
    for (size_t k = 0; k < sizeof wants / sizeof *wants; k++) {
        vt_tensors *st;
        vt_err e = {0};
        if (vt_weights_parse(&st, bytes, n, "fuzz", wants[k], &e) != VT_OK) {
            if (st || e.code == VT_OK || e.code == VT_E_MEMORY || strncmp(e.text, "fuzz: ", 6)) abort();
            continue;
        }
        look(st);
        vt_tensors_close(st);
    }
    return 0;
}
