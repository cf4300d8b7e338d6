/* SPDX-License-Identifier: MIT */
/* What an attack needs of a model, and nothing else: logits, and the gradient of a loss, of one image. A session-backed
 * network is one; a planted linear model in a test is another. Not thread-safe: one classifier a thread. */
#pragma once

#include <stddef.h>
#include "base/rand.h"
#include "inference/engine.h"
#include "nn/loss.h"

typedef struct vt_classifier {
    int classes;
    size_t pixels;              /* floats of one image */
    int votes;                  /* rows of logits64 (vt_engine.votes); 0 and 1: one, in double */
    bool random, finite, exact; /* as vt_engine's; a wrap is not exact */
    void *self;
    /* The three are called by vt_classifier_logits, _logits64 and _backward below. A network in this process cannot
     * fail; a device or another process can: VT_E_MODEL, with the sentence in *e. */
    vt_status (*logits)(void *self, const float *x, float *z, bool keep, vt_err *e);
    vt_status (*logits64)(void *self, const float *x, double *z, vt_err *e);
    vt_status (*backward)(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e);
    vt_status (*alone)(void *self, const float *x, float *z, vt_err *e); /* NULL: logits is as good */
    double mean[3], std[3]; /* of the normalisation inside the model, for each plane of x; std 0: there is none */
    vt_tokens tokens;
    /* Set by the last answer: its class is uncertain (a smoothed classifier abstains). NULL: it never is. */
    const bool *unsure;
    /* A new image begins, with this key: a classifier that draws random numbers (wrap_noise) starts anew. [may be NULL]
     */
    void (*begin)(void *self, const vt_rng *rng);
    void (*close)(void *self);
} vt_classifier;

#define VT_MUST_LOOK __attribute__((warn_unused_result))

/* Computes z [classes] of x [pixels] in [0,1]; keep: a backward may follow. VT_E_MODEL: the model failed. */
VT_MUST_LOOK static inline vt_status vt_classifier_logits(const vt_classifier *c, const float *x, float *z, bool keep,
                                                          vt_err *e) {
    return c->logits(c->self, x, z, keep, e);
}
/* Computes z [classes] of x [pixels] for verdicts: in a batch of its own, whatever the pool does meanwhile. */
VT_MUST_LOOK static inline vt_status vt_classifier_alone(const vt_classifier *c, const float *x, float *z, vt_err *e) {
    return c->alone ? c->alone(c->self, x, z, e) : c->logits(c->self, x, z, false, e);
}
/* Returns the rows of z that vt_classifier_logits64 writes. */
static inline int vt_classifier_votes(const vt_classifier *c) { return c->votes > 1 ? c->votes : 1; }
/* Computes z [classes] of x [pixels] in double, for verdicts on the stored floats x. Of a model without a double copy
 * z [votes, classes]: the answers to repeated queries. */
VT_MUST_LOOK static inline vt_status vt_classifier_logits64(const vt_classifier *c, const float *x, double *z,
                                                            vt_err *e) {
    return c->logits64(c->self, x, z, e);
}
/* Computes, after a kept call: *value = loss, dx [pixels] = d loss / dx, as often as wanted. */
VT_MUST_LOOK static inline vt_status vt_classifier_backward(const vt_classifier *c, const vt_loss *loss, float *value,
                                                            float *dx, vt_err *e) {
    return c->backward(c->self, loss, value, dx, e);
}

/* Tells a classifier that draws random numbers that a new image begins, with this key. */
static inline void vt_classifier_begin(const vt_classifier *c, const vt_rng *rng) {
    if (c->begin) c->begin(c->self, rng);
}

/* Opens a float session with input gradients and a forward-only double session on m (which must outlive it). */
vt_status vt_classifier_open(vt_classifier *c, const vt_model *m, vt_err *e);
/* Opens a float session alone, without the double copy: for training, which needs no verdicts. */
vt_status vt_classifier_open_f32(vt_classifier *c, const vt_model *m, vt_err *e);
void vt_classifier_close(vt_classifier *c); /* accepts a zeroed one */

/* Wraps *c, which it then owns, as a head of fewer classes: output k is output head[k], n of them (head must outlive
 * it). Loss, arg-max and margins are those of a network whose head has only these rows. On failure *c is as it was. */
vt_status vt_classifier_restrict(vt_classifier *c, const int *head, int n, vt_err *e);
