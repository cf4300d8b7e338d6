/* SPDX-License-Identifier: MIT */
/* Adversarial images of any tool, as .npy, .npz or safetensors: refused with a sentence, or every point can be read. */
#include <stdint.h>
#include <stdlib.h>
#include "data/adv_file.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void read_all(const vt_adv_file *p, const char *file) {
    const double mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    vt_err e = {0};
    if (vt_shape_values(p->shape) < 3 << 16 && p->n < 1000) { /* larger ones only make fuzzing slow */
        float *x = malloc(vt_shape_values(p->shape) * sizeof *x + 1);
        for (int64_t i = 0; x && i < p->n; i++) vt_adv_file_read(p, i, x);
        free(x);
    }
    const vt_shape models[] = {p->shape, vt_shape_rgb(p->shape.width), {p->shape.width, p->shape.channels, 1}};
    for (int i = 0; i < 3; i++)
        if (vt_adv_file_fit(p, file, models[i], mean, std, &e) != VT_OK && !e.text[0]) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *const names[] = {NULL, "x_adv", "a.x"}, *file;
    if (!file) file = scratch("p.bin");
    scratch_write(file, bytes, n);
    for (int k = 0; k < 3; k++) {
        vt_adv_file p;
        vt_err e = {0};
        if (vt_adv_file_open(&p, file, names[k], &e) == VT_OK)
            read_all(&p, file);
        else if (e.code == VT_OK || !e.text[0])
            abort();
        vt_adv_file_close(&p);
    }
    return 0;
}
