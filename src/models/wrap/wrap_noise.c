/* SPDX-License-Identifier: MIT */
/* Noise on the pixels, new at every call: x' = x + sigma N(0, 1). The draws are keyed by the image's key and the number
 * of the call since it began, so that a run repeats itself to the bit for any number of threads, while two calls at one
 * point differ, as a cheat's would. */
#include <stddef.h>
#include <stdlib.h>
#include "core/mem.h"
#include "models/wrap/wrap.h"

typedef struct params {
    double sigma;
} params;

static const vt_opt opts[] = {
    VT_OPT_R("sigma", params, sigma, "standard deviation in pixel units", 0.05, 1e-6, 1),
    VT_OPT_END,
};

typedef struct cover_state {
    vt_classifier all;
    float sigma;
    vt_rng key; /* step counts the calls */
    float *y;   /* [pixels] */
} state;

static const float *noisy_image(state *s, const float *x) {
    vt_rng_normals(&s->key, s->y, s->all.pixels);
    s->key.step++;
    for (size_t i = 0; i < s->all.pixels; i++) s->y[i] = x[i] + s->sigma * s->y[i];
    return s->y;
}

static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    state *s = self;
    return vt_classifier_logits(&s->all, noisy_image(s, x), z, keep, e);
}

static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    state *s = self;
    return vt_classifier_logits64(&s->all, noisy_image(s, x), z, e);
}

static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    state *s = self;
    return vt_classifier_backward(&s->all, loss, value, dx, e);
}

static void begin(void *self, const vt_rng *rng) {
    state *s = self;
    s->key = *rng;
    s->key.purpose ^= vt_rng_purpose("wrap noise");
    s->key.step = 0;
    vt_classifier_begin(&s->all, rng);
}

static void close(void *self) {
    state *s = self;
    vt_classifier_close(&s->all);
    free(s->y);
    free(s);
}

static vt_status cover(vt_classifier *c, const void *p, vt_err *e) {
    state *s = calloc(1, sizeof *s);
    float *y = vt_alloc(c->pixels * sizeof *y);
    if (!s || !y) {
        free(s), free(y);
        return vt_fail(e, VT_E_MEMORY, "no memory for a wrap");
    }
    *s = (state){.all = *c, .sigma = (float)((const params *)p)->sigma, .y = y};
    c->self = s;
    c->logits = logits, c->logits64 = logits64, c->backward = backward, c->begin = begin, c->close = close;
    return VT_OK;
}

const vt_wrap_def vt_wrap_def_noise = {
    .name = "noise",
    .summary = "Gaussian noise on the pixels, new at every call",
    .reference = "Athalye et al. 2018, section 5.4 (stochastic gradients)",
    .params_size = sizeof(params),
    .opts = opts,
    .cover = cover,
};
