/* SPDX-License-Identifier: MIT */
/* Numbers that another implementation computed, from a file of tests/fixtures. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "t.h"

#include "tensors/tensors.h"

static inline vt_tensors *reference_open(const char *path) {
    vt_tensors *st;
    vt_err e = {0};
    if (vt_tensors_open(&st, path, &e) != VT_OK) fail_msg("%s", e.text);
    return st;
}

/* The tensor of that name, of n numbers; the caller frees. */
__attribute__((format(printf, 3, 4))) static inline double *reference(const vt_tensors *st, size_t n,
                                                                      const char *format, ...) {
    char name[200];
    vt_err e = {0};
    va_list ap;
    va_start(ap, format);
    vsnprintf(name, sizeof name, format, ap);
    va_end(ap);
    const vt_tensor *t = vt_tensors_find(st, name);
    if (!t) fail_msg("%s has no %s", vt_tensors_path(st), name);
    double *v = malloc((n + 1) * sizeof *v);
    assert_non_null(v);
    if (vt_tensor_f64(st, t, v, n, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    return v;
}

#endif
