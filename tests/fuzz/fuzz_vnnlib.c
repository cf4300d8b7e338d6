/* SPDX-License-Identifier: MIT */
/* Any bytes as a VNN-LIB file are refused with one sentence, or are cases: boxes that hold a point, and conditions on
 * outputs that are there. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_box(const vt_spec *s, const vt_spec_box *b) {
    int between = 0;
    for (int i = 0; i < s->inputs; i++) {
        if (!(b->lo[i] <= b->hi[i]) || !(b->near[i] <= b->far[i]) || !isfinite(b->near[i]) || !isfinite(b->far[i]))
            abort();
        const double x = vt_spec_input(b, i, b->near[i]), y = vt_spec_input(b, i, b->far[i]);
        if (x < b->lo[i] || y > b->hi[i]) abort();
        between += x != (double)b->near[i];
    }
    if (between != b->between) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_spec *s;
    vt_err e = {0};
    char *text = malloc(n + 1); /* of its own, so that a look beyond it is found */
    if (!text) abort();
    memcpy(text, bytes, n);
    vt_status st = vt_spec_parse(&s, text, n, "f", &e);
    free(text);
    if ((st == VT_OK) != (s != NULL) || (st != VT_OK && (strncmp(e.text, "f: ", 3) || strchr(e.text, '\n')))) abort();
    if (!s) return 0;
    double *y = calloc((size_t)s->outputs, sizeof *y);
    if (!y || s->n_cases < 1 || s->n_boxes < 1 || s->n_boxes > s->n_cases) abort();
    for (int b = 0; b < s->n_boxes; b++) check_box(s, &s->boxes[b]);
    for (int c = 0; c < s->n_cases; c++) {
        int worst = -1;
        const double v = vt_spec_violation(s, &s->cases[c], y, &worst);
        if (s->cases[c].n < 1 || s->cases[c].box < 0 || s->cases[c].box >= s->n_boxes || worst < 0 || v != v) abort();
    }
    free(y);
    vt_spec_close(s);
    return 0;
}
