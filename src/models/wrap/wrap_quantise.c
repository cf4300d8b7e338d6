/* SPDX-License-Identifier: MIT */
/* Few grey levels before the network: x' = round((levels - 1) x) / (levels - 1). The derivative is zero wherever it
 * exists, which is what automatic differentiation hands to an attack; `through` passes the network's own (BPDA). */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "core/mem.h"
#include "models/wrap/wrap.h"

typedef struct params {
    int levels, gradient;
} params;

static const vt_opt opts[] = {
    VT_OPT_I("levels", params, levels, "grey levels of each channel", 8, 2, 65536),
    VT_OPT_C("gradient", params, gradient, "what backward claims of the rounding", "zero|through", 0),
    VT_OPT_END,
};

typedef struct cover_state {
    vt_classifier all;
    params p;
    float *q; /* [pixels] */
} state;

static const float *quantised_image(state *s, const float *x) {
    float top = (float)(s->p.levels - 1);
    for (size_t i = 0; i < s->all.pixels; i++) s->q[i] = nearbyintf(x[i] * top) / top;
    return s->q;
}

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    state *s = self;
    return vt_classifier_logits(&s->all, quantised_image(s, x), z, keep, e);
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    state *s = self;
    return vt_classifier_logits64(&s->all, quantised_image(s, x), z, e);
}

static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    state *s = self;
    VT_TRY(vt_classifier_backward(&s->all, loss, value, dx, e));
    if (s->p.gradient == 0) memset(dx, 0, s->all.pixels * sizeof *dx);
    return VT_OK;
}

static void begin(void *self, const vt_rng *rng) { vt_classifier_begin(&((state *)self)->all, rng); }

static void close(void *self) {
    state *s = self;
    vt_classifier_close(&s->all);
    free(s->q);
    free(s);
}

static vt_status cover(vt_classifier *c, const void *p, vt_err *e) {
    state *s = calloc(1, sizeof *s);
    float *q = vt_alloc(c->pixels * sizeof *q);
    if (!s || !q) {
        free(s), free(q);
        return vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    }
    *s = (state){.all = *c, .p = *(const params *)p, .q = q};
    c->self = s;
    c->logits = logits, c->logits64 = logits64, c->backward = backward, c->begin = begin, c->close = close;
    return VT_OK;
}

const vt_wrap_def vt_wrap_def_quantise = {
    .name = "quantise",
    .summary = "pixels rounded to a few grey levels before the network",
    .reference = "Buckman et al. 2018; broken by Athalye et al. 2018, section 5.3",
    .params_size = sizeof(params),
    .opts = opts,
    .cover = cover,
};
