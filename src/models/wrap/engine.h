/* SPDX-License-Identifier: MIT */
/* A network as it answers for several images at once: logits, and the product of cotangents with its Jacobian (vjp). A
 * network of this process is one (vt_engine_open); a device or another process can be another. Losses are the caller's:
 * an engine is handed d loss / d logits and never hears of labels, margins or targets. Not thread-safe: one engine a
 * thread.
 */
#ifndef VT_MODELS_WRAP_ENGINE_H
#define VT_MODELS_WRAP_ENGINE_H

#include <stddef.h>
#include "models/model.h"
#include "models/net/attention_loss.h"

/* A model's attention, as far as it can be looked at; all zero: it cannot. Of a kept forward of one image. Wrappers of
 * a classifier leave it as it is: `self` is the network's own. */
typedef struct vt_tokens {
    int layers, side, prefix; /* blocks; patches a side; tokens before the patches in the last block */
    void *self;
    /* After a kept call: out [side*side] = mean attention that heads and queries of a block pay to each patch. */
    void (*mean)(void *self, int layer, float *out);
    float (*loss)(void *self, const vt_attn_loss *a);
} vt_tokens;

/* What else a vjp takes into account; all zero: nothing. */
typedef struct vt_vjp_extra {
    const unsigned char
        *open; /* [blocks] 0: no gradient through the block's attention branch (vt_loss.open); NULL: all */
    const vt_attn_loss *attention; /* whose gradient is added, in a batch of one image; NULL: none */
    float *attention_value;        /* and here the value of that loss */
} vt_vjp_extra;

typedef struct vt_engine {
    int classes, capacity; /* capacity: most images of one call */
    size_t pixels;         /* floats of one image */
    vt_tokens tokens;
    void *self;
    /* The two are called by vt_engine_forward and vt_engine_vjp below. */
    vt_status (*forward)(void *self, float *z, const float *const *x, int n, bool keep, vt_err *e);
    vt_status (*vjp)(void *self, float *const *dx, const float *dz, const vt_vjp_extra *extra, vt_err *e);
    void (*close)(void *self);
} vt_engine;

/* Float sessions with input gradients on m, which must outlive the engine. An image's answers have the same bits alone,
 * in any batch and at any place of it: the images of a batch are computed one by one (on a processor a product of many
 * images is no faster than one after the other). Memory: that of `capacity` sessions. */
vt_status vt_engine_open(vt_engine *n, const vt_model *m, int capacity, vt_err *e);
void vt_engine_close(vt_engine *n); /* accepts a zeroed one */

/* z [b, classes] of the images x[i] [pixels] in [0,1], 1 <= b <= capacity; keep: vjps of this batch may follow.
 * VT_E_MODEL: it failed, with the sentence in *e; then nothing is kept. */
__attribute__((warn_unused_result)) static inline vt_status
vt_engine_forward(const vt_engine *n, float *z, const float *const *x, int b, bool keep, vt_err *e) {
    return n->forward(n->self, z, x, b, keep, e);
}
/* After a kept forward of b images, as often as wanted: dx[i] [pixels] = J_i^T dz_i, overwritten, of dz [b, classes];
 * dx[i] NULL: not wanted. dz NULL: of extra->attention alone. */
__attribute__((warn_unused_result)) static inline vt_status
vt_engine_vjp(const vt_engine *n, float *const *dx, const float *dz, const vt_vjp_extra *extra, vt_err *e) {
    return n->vjp(n->self, dx, dz, extra, e);
}

#endif
