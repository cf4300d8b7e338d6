/* SPDX-License-Identifier: MIT */
/* Whole networks against what PyTorch computed. A fixture holds for each form, in double: FORM.x, images; FORM.cot, a
 * cotangent of the logits; FORM.logits, FORM.dx, and for each parameter FORM.w.NAME and FORM.grad.NAME. */
#ifndef JUDGE_H
#define JUDGE_H

#include "reference.h"

#include "session32.h"

enum { B = 2 }; /* images */

static vt_tensors *ref; /* the fixture */

static inline int close_ref(void **state) {
    (void)state;
    vt_tensors_close(ref);
    ref = NULL;
    return 0;
}

/* Weights of a model: the tensors PREFIX.NAME. */
static inline void judge_weights(vt_model *m, const char *prefix) {
    for (int i = 0; i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        double *w = reference(ref, p->numel, "%s.%s", prefix, p->name);
        for (size_t k = 0; k < p->numel; k++) m->w[p->offset + k] = (float)w[k];
        free(w);
    }
    vt_model_refresh(m);
}

/* Double against double: both round in other orders only, 1e-9 as test_golden.c has it. Of the tensor's largest value,
 * or of `least` where a gradient is zero by mathematics (what shifts all keys alike). */
static inline void judge_near(const char *form, const char *what, const double *got, size_t n, double least) {
    double *want = reference(ref, n, "%s.%s", form, what);
    t_le(t_max_diff(got, want, n) / fmax(t_max(want, n), least), 1e-9, "%s: %s", form, what);
    free(want);
}

static inline void judge_double(const vt_model *m, const char *form, vt_grad_mode mode) {
    size_t n = B * vt_config_input_pixels(&m->config), k = B * (size_t)m->config.classes, total = m->params.total;
    double *x = reference(ref, n, "%s.x", form), *cot = reference(ref, k, "%s.cot", form);
    double *dx = malloc(n * sizeof *dx), *grad = mode == VT_GRAD_PARAMS ? calloc(total, sizeof *grad) : NULL;
    vt_session_f64 *s;
    vt_err e = {0};
    if (vt_session_open_f64(&s, m, B, mode, &e) != VT_OK) fail_msg("%s", e.text);
    judge_near(form, "logits", vt_session_forward_f64(s, x, B, true), k, 0);
    vt_session_backward_f64(s, cot, dx, grad);
    judge_near(form, "dx", dx, n, 0);
    for (int i = 0; grad && i < m->params.count; i++) {
        const vt_param *p = &m->params.items[i];
        char what[100];
        snprintf(what, sizeof what, "grad.%s", p->name);
        if (!p->buffer) judge_near(form, what, grad + p->offset, p->numel, 1e-3 * t_max(grad, total));
    }
    vt_session_close_f64(s);
    free(x), free(cot), free(dx), free(grad);
}

/* By the gates of the golden files: logits 2e-5 (1 + max), dx 1e-4 of the largest value. */
static inline void judge_float(const vt_model *m, const char *form) {
    size_t n = B * vt_config_input_pixels(&m->config), k = B * (size_t)m->config.classes;
    double *x = reference(ref, n, "%s.x", form), *cot = reference(ref, k, "%s.cot", form);
    double *z = reference(ref, k, "%s.logits", form), *dx = reference(ref, n, "%s.dx", form);
    float *xf = malloc(n * sizeof *xf), *cotf = malloc(k * sizeof *cotf), *dxf = malloc(n * sizeof *dxf);
    for (size_t i = 0; i < n; i++) xf[i] = (float)x[i];
    for (size_t i = 0; i < k; i++) cotf[i] = (float)cot[i];
    vt_session_f32 *s;
    vt_err e = {0};
    if (vt_session_open_f32(&s, m, B, VT_GRAD_INPUT, &e) != VT_OK) fail_msg("%s", e.text);
    const float *zf = vt_session_forward_f32(s, xf, B, true);
    for (size_t i = 0; i < k; i++) t_le(fabs((double)zf[i] - z[i]), 2e-5 * (1 + t_max(z, k)), "%s: float logit", form);
    vt_session_backward_f32(s, cotf, dxf, NULL);
    for (size_t i = 0; i < n; i++) t_le(fabs((double)dxf[i] - dx[i]), 1e-4 * t_max(dx, n), "%s: float dx", form);
    vt_session_close_f32(s);
    free(x), free(cot), free(z), free(dx), free(xf), free(cotf), free(dxf);
}

/* Logits and dx in both precisions; with VT_GRAD_PARAMS the gradients of all parameters too. */
static inline void judge(const vt_model *m, const char *form, vt_grad_mode mode) {
    judge_double(m, form, mode);
    judge_float(m, form);
}

#endif
