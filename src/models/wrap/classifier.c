/* SPDX-License-Identifier: MIT */
#include "models/wrap/classifier.h"

#include <stdlib.h>
#include <string.h>
#include "models/net/session64.h"

typedef struct network {
    vt_engine f32;
    vt_session_f64 *f64; /* NULL: unjudged */
    double *x64;         /* [pixels] */
    float *z, *dz;       /* [classes]: logits of the last call, the loss's gradient there */
} network;

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    network *n = self;
    VT_TRY(vt_engine_forward(&n->f32, z, &x, 1, keep, e));
    if (keep) memcpy(n->z, z, (size_t)n->f32.classes * sizeof *z);
    return VT_OK;
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    network *n = self;
    (void)e;
    for (size_t i = 0; i < n->f32.pixels; i++) n->x64[i] = (double)x[i];
    memcpy(z, vt_session_forward_f64(n->f64, n->x64, 1, false), (size_t)n->f32.classes * sizeof *z);
    return VT_OK;
}

static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    network *n = self;
    const vt_attn_loss *a = loss->attention;
    bool alone = a && a->alone;
    float attention = 0;
    const vt_vjp_extra extra = {.open = loss->open, .attention = a, .attention_value = &attention};
    *value = alone ? 0 : vt_loss_eval_f32(n->dz, loss, n->z, n->f32.classes);
    VT_TRY(vt_engine_vjp(&n->f32, &dx, alone ? NULL : n->dz, &extra, e));
    *value += attention;
    return VT_OK;
}

static void close(void *self) {
    network *n = self;
    vt_engine_close(&n->f32);
    vt_session_close_f64(n->f64);
    free(n->x64), free(n->z), free(n->dz);
    free(n);
}

static vt_status open(vt_classifier *c, const vt_model *m, bool judged, vt_err *e) {
    memset(c, 0, sizeof *c);
    network *n = calloc(1, sizeof *n);
    if (!n) return vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    const vt_config *f = &m->config;
    size_t classes = (size_t)f->classes * sizeof(float), pixels = vt_config_input_pixels(f);
    vt_status st = vt_engine_open(&n->f32, m, 1, e);
    if (st == VT_OK && judged) st = vt_session_open_f64(&n->f64, m, 1, VT_GRAD_NONE, e);
    if (st == VT_OK &&
        (!(n->x64 = vt_alloc(pixels * sizeof(double))) || !(n->z = vt_alloc(classes)) || !(n->dz = vt_alloc(classes))))
        st = vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    if (st != VT_OK) {
        close(n);
        return st;
    }
    *c = (vt_classifier){.classes = f->classes,
                         .pixels = pixels,
                         .self = n,
                         .logits = logits,
                         .logits64 = judged ? logits64 : NULL,
                         .backward = backward,
                         .tokens = n->f32.tokens,
                         .close = close};
    for (int k = 0; k < 3; k++) {
        int inside = f->bgr ? 2 - k : k; /* the plane that is normalised is reversed before */
        c->mean[k] = f->mean[inside], c->std[k] = f->std[inside];
    }
    return VT_OK;
}

vt_status vt_classifier_open(vt_classifier *c, const vt_model *m, vt_err *e) { return open(c, m, true, e); }

vt_status vt_classifier_open_unjudged(vt_classifier *c, const vt_model *m, vt_err *e) { return open(c, m, false, e); }

void vt_classifier_close(vt_classifier *c) {
    if (c->close) c->close(c->self);
    memset(c, 0, sizeof *c);
}
