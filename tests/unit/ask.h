/* SPDX-License-Identifier: MIT */
/* A classifier asked by a test whose networks cannot fail. */
#ifndef VT_TESTS_ASK_H
#define VT_TESTS_ASK_H

#include <stdio.h>
#include <stdlib.h>
#include "inference/classifier.h"

static inline void ask_must(vt_status s, const vt_err *e) {
    if (!s) return;
    fprintf(stderr, "a classifier failed: %s\n", e->text);
    abort();
}

static inline void ask_logits(const vt_classifier *c, const float *x, float *z, bool keep) {
    vt_err e = {0};
    ask_must(vt_classifier_logits(c, x, z, keep, &e), &e);
}

static inline void ask_logits64(const vt_classifier *c, const float *x, double *z) {
    vt_err e = {0};
    ask_must(vt_classifier_logits64(c, x, z, &e), &e);
}

static inline void ask_backward(const vt_classifier *c, const vt_loss *loss, float *value, float *dx) {
    vt_err e = {0};
    ask_must(vt_classifier_backward(c, loss, value, dx, &e), &e);
}

#endif
