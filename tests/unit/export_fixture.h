/* SPDX-License-Identifier: MIT */
/* A network written as ONNX and read again is the same network: logits and gradient in double. */
#ifndef EXPORT_FIXTURE_H
#define EXPORT_FIXTURE_H

#define VT_DOUBLE
#include "base/real.h"
#include "t.h"

#include "models/export/export.h"
#include "models/net/session.h"

/* Logits z [B, classes] and gradient dx of images x [B, pixels] and cotangents cot. */
static inline void export_compute(double *z, double *dx, const vt_model *m, const double *x, const double *cot, int b,
                                  const char *name) {
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, b, VT_GRAD_INPUT, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    memcpy(z, vt_session_forward_f64(s, x, b, true), (size_t)(b * m->config.classes) * sizeof *z);
    vt_session_backward_f64(s, cot, dx, NULL);
    vt_session_close_f64(s);
}

/* Largest difference over the largest number. */
static inline double export_error(const double *a, const double *ref, size_t n) {
    return t_max_diff(a, ref, n) / t_max(ref, n);
}

/* pixels: numbers of x that are random already; file: where the graph may be written. */
static inline void export_check(const vt_model *m, const char *file, const double *x, int b, const char *name) {
    const size_t outputs = (size_t)(b * m->config.classes), n = (size_t)b * vt_config_input_pixels(&m->config);
    double *z[2], *dx[2], *cot = malloc(outputs * sizeof *cot);
    vt_export_size size;
    vt_model *again;
    vt_err e = {0};
    for (int k = 0; k < 2; k++) z[k] = malloc(outputs * sizeof **z), dx[k] = malloc(n * sizeof **dx);
    t_normals(cot, outputs, 4, 1);
    if (vt_model_export(m, VT_NORMALISE_INSIDE, file, &size, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    if (vt_model_open(&again, file, &(vt_overrides){.onnx = true}, &e) != VT_OK) fail_msg("%s: %s", name, e.text);
    assert_int_equal(again->config.classes, m->config.classes);
    assert_int_equal(vt_config_input_pixels(&again->config), vt_config_input_pixels(&m->config));
    export_compute(z[0], dx[0], m, x, cot, b, name), export_compute(z[1], dx[1], again, x, cot, b, name);
    t_le(export_error(z[1], z[0], outputs), 1e-12, "%s: logits of its ONNX file", name);
    t_le(export_error(dx[1], dx[0], n), 1e-12, "%s: gradient of its ONNX file", name);
    vt_model_close(again);
    for (int k = 0; k < 2; k++) free(z[k]), free(dx[k]);
    free(cot);
}

#endif
