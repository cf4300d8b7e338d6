/* SPDX-License-Identifier: MIT */
/* Any bytes as a file of targets: refused with a sentence that names it, or each of its rows is an image's class. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "eval/targets.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *path;
    enum { CLASSES = 4, LABEL = 1 };
    const float z[CLASSES] = {3, 2, 1, 0};
    vt_targets t;
    vt_err e = {0};
    if (!path) path = scratch("targets");
    scratch_write(path, bytes, n);
    if (vt_targets_open(&t, path, &e) != VT_OK) {
        if (t.rows || !strstr(e.text, path)) abort();
        return 0;
    }
    if (!t.n || strlen(t.sha256) != 64) abort();
    for (size_t i = 0; i < t.n; i++) {
        int32_t image = t.rows[i].image;
        vt_status s = vt_targets_fit(&t, image, LABEL, CLASSES, &e);
        int k = s == VT_OK ? vt_targets_class(&t, 0, image, LABEL, z, CLASSES) : -1;
        if (s == VT_OK ? k < 0 || k == LABEL || k >= CLASSES : !strstr(e.text, path)) abort();
        if (i && t.rows[i - 1].image >= image) abort();
    }
    if (vt_targets_fit(&t, INT32_MAX - 1, LABEL, CLASSES, &e) == VT_OK && t.rows[t.n - 1].image < INT32_MAX - 1)
        abort();
    vt_targets_close(&t);
    return 0;
}
