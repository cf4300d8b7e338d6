/* SPDX-License-Identifier: MIT */
#include "models/wrap/batch_gradients.h"

#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "models/net/session.h"
#include "models/net/session64.h"

void vt_batch_gradients_free(vt_batch_gradients *p) {
    free(p->logits);
    free(p->loss);
    free(p->dx);
    free(p->dparams);
    memset(p, 0, sizeof *p);
}

static vt_status check_labels(const vt_model *m, int n, const int64_t *labels, const int64_t *targets, vt_err *e) {
    for (int i = 0; i < n; i++) {
        if (labels[i] < 0 || labels[i] >= m->config.classes)
            return vt_fail(e, VT_E_RANGE, "label %lld of image %d is outside the model's %d classes",
                           (long long)labels[i], i, m->config.classes);
        if (targets && (targets[i] < 0 || targets[i] >= m->config.classes))
            return vt_fail(e, VT_E_RANGE, "target %lld of image %d is outside the model's %d classes",
                           (long long)targets[i], i, m->config.classes);
    }
    return VT_OK;
}

/* One image after the other, so that its numbers do not depend on its neighbours. */
static void run_image_f64(vt_batch_gradients *p, vt_session_f64 *s, const double *x, int i, const vt_loss *loss,
                          double *dz, double *grad) {
    const double *z = vt_session_forward_f64(s, x + (size_t)i * p->pixels, 1, true);
    memcpy(p->logits + (size_t)i * (size_t)p->classes, z, (size_t)p->classes * sizeof *z);
    p->loss[i] = vt_loss_eval_f64(dz, loss, z, p->classes);
    vt_session_backward_f64(s, dz, p->dx + (size_t)i * p->pixels, grad);
}

typedef struct buffers32 {
    float *x, *dx, *dz, *grad;
} buffers32;

static void run_image_f32(vt_batch_gradients *p, vt_session_f32 *s, const double *x, int i, const vt_loss *loss,
                          buffers32 *b) {
    for (size_t k = 0; k < p->pixels; k++) b->x[k] = (float)x[(size_t)i * p->pixels + k];
    const float *z = vt_session_forward_f32(s, b->x, 1, true);
    for (int k = 0; k < p->classes; k++) p->logits[i * p->classes + k] = (double)z[k];
    p->loss[i] = (double)vt_loss_eval_f32(b->dz, loss, z, p->classes);
    vt_session_backward_f32(s, b->dz, b->dx, b->grad);
    for (size_t k = 0; k < p->pixels; k++) p->dx[(size_t)i * p->pixels + k] = (double)b->dx[k];
}

static vt_status run_all(vt_batch_gradients *p, const vt_model *m, const double *x, const int64_t *labels,
                         const int64_t *targets, vt_loss_kind kind, bool f64, vt_err *e) {
    vt_grad_mode mode = p->dparams ? VT_GRAD_PARAMS : VT_GRAD_INPUT;
    size_t total = m->params.total;
    vt_session_f64 *s64 = NULL;
    vt_session_f32 *s32 = NULL;
    buffers32 b = {vt_alloc(p->pixels * 4), vt_alloc(p->pixels * 4), vt_alloc((size_t)p->classes * 4),
                   p->dparams && !f64 ? vt_alloc(total * 4) : NULL};
    float *target = vt_alloc((size_t)p->classes * 4);
    double *dz = vt_alloc((size_t)p->classes * 8);
    vt_status st = VT_OK;
    if (!b.x || !b.dx || !b.dz || !target || !dz || (p->dparams && !f64 && !b.grad))
        st = vt_fail(e, VT_E_MEMORY, "no memory for a probe");
    if (st == VT_OK) st = f64 ? vt_session_open_f64(&s64, m, 1, mode, e) : vt_session_open_f32(&s32, m, 1, mode, e);
    for (int i = 0; i < p->n && st == VT_OK; i++) {
        memset(target, 0, (size_t)p->classes * 4);
        target[labels[i]] = 1;
        vt_loss loss = {.kind = kind, .target = target, .other = targets ? (int)targets[i] : 0};
        if (f64)
            run_image_f64(p, s64, x, i, &loss, dz, p->dparams);
        else
            run_image_f32(p, s32, x, i, &loss, &b);
    }
    if (st == VT_OK && p->dparams)
        for (size_t k = 0; k < total; k++) p->dparams[k] = (f64 ? p->dparams[k] : (double)b.grad[k]) / p->n;
    vt_session_close_f64(s64);
    vt_session_close_f32(s32);
    free(b.x), free(b.dx), free(b.dz), free(b.grad), free(target), free(dz);
    return st;
}

vt_status vt_batch_gradients_run(vt_batch_gradients *out, const vt_model *m, const double *x, int n,
                                 const int64_t *labels, const int64_t *targets, vt_loss_kind kind, bool f64,
                                 bool param_grads, vt_err *e) {
    memset(out, 0, sizeof *out);
    VT_TRY(check_labels(m, n, labels, targets, e));
    out->n = n, out->classes = m->config.classes;
    out->pixels = vt_config_input_pixels(&m->config);
    size_t images;
    if (!vt_mul((size_t)n, out->pixels * 8, &images)) return vt_fail(e, VT_E_RANGE, "%d images are too many", n);
    out->logits = vt_alloc((size_t)n * (size_t)out->classes * 8);
    out->loss = vt_alloc((size_t)n * 8);
    out->dx = vt_alloc(images);
    out->dparams = param_grads ? vt_alloc(m->params.total * 8) : NULL;
    vt_status st = VT_OK;
    if (!out->logits || !out->loss || !out->dx || (param_grads && !out->dparams))
        st = vt_fail(e, VT_E_MEMORY, "no memory for a probe of %d images", n);
    if (st == VT_OK) st = run_all(out, m, x, labels, targets, kind, f64, e);
    if (st != VT_OK) vt_batch_gradients_free(out);
    return st;
}
