/* SPDX-License-Identifier: MIT */
/* A network as it answers for several images at once: logits, and the product of cotangents with its Jacobian (vjp). A
 * network of this process is one (vt_engine_open); a device or another process can be another. Losses are the caller's:
 * an engine is handed d loss / d logits and never hears of labels, margins or targets. Not thread-safe: one engine a
 * thread.
 */
#pragma once

#include <stddef.h>
#include "linalg/products.h"
#include "models/model.h"
#include "models/net/attention_loss.h"

/* A model's attention, as far as it can be looked at; all zero: it cannot. Of a kept forward of one row. Wrappers of a
 * classifier leave it as it is: `self` is the network's own. */
typedef struct vt_tokens {
    int layers, side, prefix; /* blocks; patches a side; tokens before the patches in the last block */
    void *self;
    /* After a kept call: out [side*side] = mean attention that heads and queries of a block pay to each patch. */
    void (*mean)(void *self, int layer, float *out);
    float (*loss)(void *self, const vt_attn_loss *a);
} vt_tokens;

enum { VT_VOTES_MOST = 32 };

/* One row's vjp: dx [pixels] = J^T dz, overwritten. */
typedef struct vt_vjp {
    float *dx;       /* NULL: this row is not wanted */
    const float *dz; /* [classes]; NULL: of `attention` alone */
    const unsigned char
        *open; /* [blocks] 0: no gradient through the block's attention branch (vt_loss.open); NULL: all */
    const vt_attn_loss *attention; /* whose gradient is added; NULL: none. Needs an engine that shows attention */
    float attention_value;         /* out: the value of that loss */
} vt_vjp;

/* A batch has `capacity` rows, wanted or not: a row that is not wanted holds NULL, and what stands in a row never
 * changes another row's answer. */
typedef struct vt_engine {
    int classes, capacity;
    size_t pixels; /* floats of one image */
    double mean[3],
        std[3]; /* of the normalisation inside, for each plane of x; std 0: there is none, or it is unknown */
    /* What forward64 gives of a row: one answer in double (0 says the same); or, where the model has no double copy,
     * this many repeated queries of the model as it is, one after another, [votes, classes]. random: each query draws.
     */
    int votes; /* at most VT_VOTES_MOST */
    bool random;
    bool finite; /* its gradients must be: no self-test will look at it */
    bool exact;  /* answers and gradients are functions of the pixels' bits */
    void *self;
    /* The next are called by the functions below. */
    vt_status (*forward)(void *self, float *const *z, const float *const *x, bool keep, vt_err *e);
    vt_status (*vjp)(void *self, vt_vjp *rows, vt_err *e);
    vt_status (*alone)(void *self, float *const *z, const float *const *x, vt_err *e); /* NULL: forward is as good */
    vt_status (*forward64)(void *self, double *const *z, const float *const *x, vt_err *e); /* NULL: it has no double */
    vt_tokens (*tokens)(void *self, int row);                                               /* NULL: no attention */
    void (*close)(void *self);
} vt_engine;

/* Where engines of a network come from that is not a vt_model: open(ctx, ...) as vt_engine_open below. */
typedef struct vt_engine_source {
    void *ctx;
    int batch;           /* images that it takes at once */
    bool differentiable; /* its engines have vjps */
    vt_status (*open)(void *ctx, vt_engine *n, int capacity, vt_err *e);
} vt_engine_source;

/* Opens float sessions with input gradients on m, which must outlive the engine; f64: and a double one. by: how it
 * forms products in float (linalg/products.h); NULL: float32. An image's answers have the same bits alone, in any batch
 * and at any row of it: the images of a batch are computed one by one (on a processor a product of many images is no
 * faster than one after the other). Memory: that of `capacity` sessions. */
vt_status vt_engine_open(vt_engine *n, const vt_model *m, int capacity, bool f64, const vt_products *by, vt_err *e);
void vt_engine_close(vt_engine *n); /* accepts a zeroed one */

/* Computes z[i] [classes] of the images x[i] [pixels] in [0,1], i < capacity, where x[i] is not NULL; keep: vjps of
 * this batch may follow. Whatever was kept before is forgotten. VT_E_MODEL: it failed, with the sentence in *e; then
 * nothing is kept. */
__attribute__((warn_unused_result)) static inline vt_status
vt_engine_forward(const vt_engine *n, float *const *z, const float *const *x, bool keep, vt_err *e) {
    return n->forward(n->self, z, x, keep, e);
}
/* Computes z[i] of the wanted rows, each in a batch of its own; only if n->alone is set. What is kept stays. */
__attribute__((warn_unused_result)) static inline vt_status vt_engine_alone(const vt_engine *n, float *const *z,
                                                                            const float *const *x, vt_err *e) {
    return n->alone(n->self, z, x, e);
}
/* Computes the vjps of rows [capacity] after a kept forward that had them, as often as wanted. */
__attribute__((warn_unused_result)) static inline vt_status vt_engine_vjp(const vt_engine *n, vt_vjp *rows, vt_err *e) {
    return n->vjp(n->self, rows, e);
}
/* Computes z[i] of the wanted rows in double (vt_engine.votes); what is kept stays. VT_E_FORBIDDEN: no double copy. */
__attribute__((warn_unused_result)) vt_status vt_engine_forward64(const vt_engine *n, double *const *z,
                                                                  const float *const *x, vt_err *e);
/* Returns through what a row's attention can be looked at after a kept forward. */
vt_tokens vt_engine_tokens(const vt_engine *n, int row);
