/* SPDX-License-Identifier: MIT */
#include "models/wrap/classifier.h"

#include <stdlib.h>
#include <string.h>

/* Both precisions are needed side by side: the header is read once for each. */
#include "models/net/session.h"
#include "models/net/session64.h"

typedef struct vit {
    vt_session_f32 *s;
    vt_session_f64 *s64;
    double *x64; /* [pixels] */
    float *dz;   /* [classes] */
    size_t pixels;
    int classes;
} vit;

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    vit *v = self;
    (void)e;
    memcpy(z, vt_session_forward_f32(v->s, x, 1, keep), (size_t)v->classes * sizeof *z);
    return VT_OK;
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    vit *v = self;
    (void)e;
    for (size_t i = 0; i < v->pixels; i++) v->x64[i] = (double)x[i];
    memcpy(z, vt_session_forward_f64(v->s64, v->x64, 1, false), (size_t)v->classes * sizeof *z);
    return VT_OK;
}

static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    vit *v = self;
    (void)e;
    const vt_attn_loss *a = loss->attention;
    bool alone = a && a->alone;
    *value = alone ? 0 : vt_loss_eval_f32(v->dz, loss, vt_session_logits_f32(v->s), v->classes);
    if (a) *value += (float)vt_session_attention_loss_f32(v->s, a);
    v->s->branch_open = loss->open;
    vt_session_backward_f32(v->s, alone ? NULL : v->dz, dx, NULL);
    return VT_OK;
}

static void attention_mean(void *self, int layer, float *out) {
    vit *v = self;
    vt_session_attention_mean_f32(v->s, layer, out);
}

static float attention_loss(void *self, const vt_attn_loss *a) {
    vit *v = self;
    return (float)vt_session_attention_loss_f32(v->s, a);
}

static vt_tokens tokens(vit *v) {
    const vt_config *c = &v->s->model->config;
    if (!v->s->ops->view) return (vt_tokens){0};
    return (vt_tokens){.layers = v->s->pull_blocks,
                       .side = vt_config_side(c),
                       .prefix = vt_config_prefix(c),
                       .self = v,
                       .mean = attention_mean,
                       .loss = attention_loss};
}

static void close(void *self) {
    vit *v = self;
    vt_session_close_f32(v->s);
    vt_session_close_f64(v->s64);
    free(v->x64);
    free(v->dz);
    free(v);
}

static vt_status open(vt_classifier *c, const vt_model *m, bool twin, vt_err *e) {
    memset(c, 0, sizeof *c);
    vit *v = calloc(1, sizeof *v);
    if (!v) return vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    v->classes = m->config.classes;
    v->pixels = vt_config_input_pixels(&m->config);
    vt_status st = vt_session_open_f32(&v->s, m, 1, VT_GRAD_INPUT, e);
    if (st == VT_OK && twin) st = vt_session_open_f64(&v->s64, m, 1, VT_GRAD_NONE, e);
    if (st == VT_OK &&
        (!(v->x64 = vt_alloc(v->pixels * sizeof(double))) || !(v->dz = vt_alloc((size_t)v->classes * sizeof(float)))))
        st = vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    if (st != VT_OK) {
        close(v);
        return st;
    }
    const vt_config *f = &m->config;
    *c = (vt_classifier){.classes = v->classes,
                         .pixels = v->pixels,
                         .self = v,
                         .logits = logits,
                         .logits64 = twin ? logits64 : NULL,
                         .backward = backward,
                         .tokens = tokens(v),
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
