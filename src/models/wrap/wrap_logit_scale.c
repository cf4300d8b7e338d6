/* SPDX-License-Identifier: MIT */
/* Logits times a large number: no prediction changes, but softmax rounds to one-hot and the gradient of cross-entropy
 * to zero. */
#include <stddef.h>
#include <stdlib.h>
#include "core/mem.h"
#include "models/wrap/wrap.h"

typedef struct params {
    double factor;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("factor", params, factor, "multiplies every logit", 1000, 1, 1e9),
    VT_OPT_END,
};

typedef struct cover_state {
    vt_classifier all;
    double factor;
    float *z, *dz; /* [classes]: scaled logits of the last kept call, cotangent */
} state;

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    state *s = self;
    VT_TRY(vt_classifier_logits(&s->all, x, z, keep, e));
    for (int k = 0; k < s->all.classes; k++) z[k] = (float)(s->factor * (double)z[k]);
    for (int k = 0; keep && k < s->all.classes; k++) s->z[k] = z[k];
    return VT_OK;
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    state *s = self;
    VT_TRY(vt_classifier_logits64(&s->all, x, z, e));
    for (int k = 0; k < s->all.classes; k++) z[k] *= s->factor;
    return VT_OK;
}

/* z = factor u:  du = factor dz */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    state *s = self;
    float linear;
    *value = vt_loss_eval_f32(s->dz, loss, s->z, s->all.classes);
    for (int k = 0; k < s->all.classes; k++) s->dz[k] = (float)(s->factor * (double)s->dz[k]);
    const vt_loss cotangent = {.kind = VT_LOSS_LINEAR, .target = s->dz, .open = loss->open};
    return vt_classifier_backward(&s->all, &cotangent, &linear, dx, e);
}

static void begin(void *self, const vt_rng *rng) { vt_classifier_begin(&((state *)self)->all, rng); }

static void close(void *self) {
    state *s = self;
    vt_classifier_close(&s->all);
    free(s->z), free(s->dz);
    free(s);
}

static vt_status cover(vt_classifier *c, const void *p, vt_err *e) {
    state *s = calloc(1, sizeof *s);
    size_t bytes = (size_t)c->classes * sizeof(float);
    float *z = vt_alloc(bytes), *dz = vt_alloc(bytes);
    if (!s || !z || !dz) {
        free(s), free(z), free(dz);
        return vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    }
    *s = (state){.all = *c, .factor = ((const params *)p)->factor, .z = z, .dz = dz};
    c->self = s;
    c->logits = logits, c->logits64 = logits64, c->backward = backward, c->begin = begin, c->close = close;
    return VT_OK;
}

const vt_wrap_def vt_wrap_def_logit_scale = {
    .name = "logit-scale",
    .summary = "logits times a large number: softmax saturates at the end",
    .reference = "Papernot et al. 2016 (distillation); broken by Carlini and Wagner 2017, section VIII",
    .params_size = sizeof(params),
    .opts = opts,
    .cover = cover,
    .after_head = true,
};
