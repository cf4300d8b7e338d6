/* SPDX-License-Identifier: MIT */
#include "models/net/batch_gradients.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "models/net/session.h"

#ifdef VT_DOUBLE
void vt_batch_gradients_free(vt_batch_gradients *p) {
    free(p->logits), free(p->loss), free(p->dx), free(p->dparams);
    memset(p, 0, sizeof *p);
}
#endif

/* VT_E_RANGE for a class that the model does not have; what: "label" or "target". */
static vt_status check_class(const vt_model *m, const char *what, int64_t k, int image, vt_err *e) {
    if (k >= 0 && k < m->config.classes) return VT_OK;
    return vt_fail(e, VT_E_RANGE, "%s %lld of image %d is outside the model's %d classes", what, (long long)k, image,
                   m->config.classes);
}

/* Sets p's logits, loss, dx and (if it has room) dparams, one image after the other, so that its numbers do not depend
 * on its neighbours. room: an image and its gradient, dz, the parameters' gradients; target [classes]: scratch. */
static vt_status run_images(vt_batch_gradients *p, const vt_model *m, const double *x, const int64_t *labels,
                            const int64_t *targets, const double *dz_given, vt_loss_kind kind, real *room,
                            float *target, vt_err *e) {
    real *xi = room, *dx = xi + p->pixels, *dz = dx + p->pixels, *grad = p->dparams ? dz + p->classes : NULL;
    VT_R(vt_session) *s;
    VT_TRY(VT_R(vt_session_open)(&s, m, 1, grad ? VT_GRAD_PARAMS : VT_GRAD_INPUT, e));
    for (int i = 0; i < p->n; i++) {
        const size_t at = (size_t)i * p->pixels;
        memset(target, 0, (size_t)p->classes * sizeof *target);
        target[labels[i]] = 1;
        const vt_loss loss = {.kind = kind, .target = target, .other = targets ? (int)targets[i] : 0};
        for (size_t k = 0; k < p->pixels; k++) xi[k] = (real)x[at + k];
        const real *z = VT_R(vt_session_forward)(s, xi, 1, true);
        for (int k = 0; k < p->classes; k++) p->logits[i * p->classes + k] = (double)z[k];
        p->loss[i] = dz_given ? 0 : (double)VT_R(vt_loss_eval)(dz, &loss, z, p->classes);
        for (int k = 0; dz_given && k < p->classes; k++) {
            dz[k] = (real)dz_given[i * p->classes + k];
            p->loss[i] += (double)(dz[k] * z[k]);
        }
        VT_R(vt_session_backward)(s, dz, dx, grad);
        for (size_t k = 0; k < p->pixels; k++) p->dx[at + k] = (double)dx[k];
    }
    for (size_t k = 0; grad && k < m->params.total; k++) p->dparams[k] = (double)grad[k] / p->n;
    VT_R(vt_session_close)(s);
    return VT_OK;
}

vt_status VT_R(vt_batch_gradients_run)(vt_batch_gradients *out, const vt_model *m, const double *x, int n,
                                       const int64_t *labels, const int64_t *targets, const double *dz,
                                       vt_loss_kind kind, bool param_grads, vt_err *e) {
    const size_t classes = (size_t)m->config.classes, pixels = vt_config_input_pixels(&m->config);
    const size_t params = param_grads ? m->params.total : 0;
    size_t images;
    *out = (vt_batch_gradients){.n = n, .classes = m->config.classes, .pixels = pixels};
    for (int i = 0; i < n; i++) {
        VT_TRY(check_class(m, "label", labels[i], i, e));
        if (targets) VT_TRY(check_class(m, "target", targets[i], i, e));
    }
    if (!vt_mul((size_t)n, pixels * 8, &images)) return vt_fail(e, VT_E_RANGE, "%d images are too many", n);
    real *room = vt_alloc((2 * pixels + classes + params) * sizeof *room);
    float *target = vt_alloc(classes * sizeof *target);
    out->logits = vt_alloc((size_t)n * classes * 8), out->loss = vt_alloc((size_t)n * 8);
    out->dx = vt_alloc(images), out->dparams = param_grads ? vt_alloc(params * 8) : NULL;
    const bool good = room && target && out->logits && out->loss && out->dx && (out->dparams || !param_grads);
    vt_status st = good ? run_images(out, m, x, labels, targets, dz, kind, room, target, e)
                        : vt_fail(e, VT_E_MEMORY, "no memory for a probe of %d images", n);
    free(room), free(target);
    if (st != VT_OK) vt_batch_gradients_free(out);
    return st;
}
