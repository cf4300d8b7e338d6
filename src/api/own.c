/* SPDX-License-Identifier: MIT */
/* A classifier of the caller's as engines (inference/engine.h). It keeps no state between calls: what a kept forward
 * saw is stored here, and its vjp is asked with the images again. */
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "base/mem.h"

typedef struct engine {
    vt_own *own;
    const vitrine_classifier *c; /* own's */
    int capacity, votes;
    size_t pixels, classes;
    float *kept;       /* [capacity, pixels] */
    bool *has;         /* [capacity] */
    int *rows;         /* [capacity] of the caller's batch, whose row is it? */
    float *x, *dx, *z; /* [capacity, pixels], the same, [capacity, classes]: one call */
} engine;

/* Calls the caller's logits (to n->z) or vjp (of n->z, to n->dx) on n->x [rows, pixels], a batch at a time; VT_E_MODEL
 * names its return value if that is not 0. */
static vt_status call_classifier(const engine *n, int rows, bool vjp, vt_err *e) {
    for (int from = 0; from < rows; from += n->c->batch) {
        int k = rows - from < n->c->batch ? rows - from : n->c->batch;
        float *x = n->x + (size_t)from * n->pixels, *z = n->z + (size_t)from * n->classes;
        if (!n->c->parallel) pthread_mutex_lock(&n->own->lock);
        int failed =
            vjp ? n->c->vjp(n->c->self, k, x, z, n->dx + (size_t)from * n->pixels) : n->c->logits(n->c->self, k, x, z);
        if (!n->c->parallel) pthread_mutex_unlock(&n->own->lock);
        if (failed)
            return vt_fail(e, VT_E_MODEL, "the model %.300s: its %s returned %d for %d image%s", n->c->name,
                           vjp ? "vjp" : "logits", failed, k, k == 1 ? "" : "s");
    }
    return VT_OK;
}

/* Copies the images that are there into n->x and their slots into n->rows; returns how many. */
static int gather_images(engine *n, const float *const *x) {
    int rows = 0;
    for (int i = 0; i < n->capacity; i++) {
        if (!x[i]) continue;
        memcpy(n->x + (size_t)rows * n->pixels, x[i], n->pixels * sizeof(float));
        n->rows[rows++] = i;
    }
    return rows;
}

/* Computes logits of the images that there are in one call of the classifier (vt_engine.forward); keep: their pixels
 * are kept for vjp, else none are. VT_E_MODEL. */
static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    engine *n = self;
    int rows = gather_images(n, x);
    for (int i = 0; i < n->capacity; i++) n->has[i] = false;
    VT_TRY(call_classifier(n, rows, false, e));
    for (int i = 0; i < rows; i++) {
        int at = n->rows[i];
        memcpy(z[at], n->z + (size_t)i * n->classes, n->classes * sizeof(float));
        n->has[at] = keep;
        if (keep) memcpy(n->kept + (size_t)at * n->pixels, x[at], n->pixels * sizeof(float));
    }
    return VT_OK;
}

/* Computes the gradients wanted of kept images in one call (vt_engine.vjp). VT_E_FORBIDDEN: the classifier has none, no
 * kept forward, or attention is wanted; VT_E_MODEL. */
static vt_status vjp(void *self, vt_vjp *want, vt_err *e) {
    engine *n = self;
    int rows = 0;
    if (!n->c->vjp) return vt_fail(e, VT_E_FORBIDDEN, "the model %.300s gives no gradients", n->c->name);
    for (int i = 0; i < n->capacity; i++) {
        if (!want[i].dx) continue;
        if (want[i].attention || !want[i].dz || want[i].open)
            return vt_fail(e, VT_E_FORBIDDEN, "the model %.300s shows no attention", n->c->name);
        if (!n->has[i]) return vt_fail(e, VT_E_FORBIDDEN, "a gradient without a kept forward");
        memcpy(n->x + (size_t)rows * n->pixels, n->kept + (size_t)i * n->pixels, n->pixels * sizeof(float));
        memcpy(n->z + (size_t)rows * n->classes, want[i].dz, n->classes * sizeof(float));
        n->rows[rows++] = i;
    }
    VT_TRY(call_classifier(n, rows, true, e));
    for (int i = 0; i < rows; i++)
        memcpy(want[n->rows[i]].dx, n->dx + (size_t)i * n->pixels, n->pixels * sizeof(float));
    return VT_OK;
}

/* Computes n->z [classes] of one image x [pixels] in a call of its own; VT_E_MODEL if the caller's function fails. */
static vt_status asked_alone(engine *n, const float *x, vt_err *e) {
    memcpy(n->x, x, n->pixels * sizeof(float));
    return call_classifier(n, 1, false, e);
}

/* Computes logits of each image in a call of its own (vt_engine.alone). */
static vt_status alone(void *self, float *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++) {
        if (!x[i]) continue;
        VT_TRY(asked_alone(n, x[i], e));
        memcpy(z[i], n->z, n->classes * sizeof(float));
    }
    return VT_OK;
}

/* Fills z[i] [votes, classes] with repeated queries of each image, in place of logits in double: two, or as many as
 * votes are taken of a model that draws. */
static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    engine *n = self;
    for (int i = 0; i < n->capacity; i++)
        for (int k = 0; x[i] && k < n->votes; k++) {
            VT_TRY(asked_alone(n, x[i], e));
            for (size_t c = 0; c < n->classes; c++) z[i][(size_t)k * n->classes + c] = (double)n->z[c];
        }
    return VT_OK;
}

/* Frees the engine (vt_engine.close). */
static void close_engine(void *self) {
    engine *n = self;
    free(n->kept), free(n->has), free(n->rows), free(n->x), free(n->dx), free(n->z);
    free(n);
}

/* Opens an engine of `capacity` images on the caller's classifier (vt_engine_source.open). */
static vt_status open_engine(void *ctx, vt_engine *out, int capacity, vt_err *e) {
    vt_own *own = ctx;
    const vitrine_classifier *c = &own->c;
    engine *n = calloc(1, sizeof *n);
    *out = (vt_engine){0};
    if (!n) return vt_fail(e, VT_E_MEMORY, "no memory for the model %.300s", c->name);
    *n = (engine){.own = own,
                  .c = c,
                  .capacity = capacity,
                  .votes = c->random ? VT_REMOTE_VOTES : 2,
                  .pixels = vt_shape_values(vt_api_own_shape(c)),
                  .classes = (size_t)c->classes};
    size_t rows = (size_t)capacity, images;
    bool fits = vt_mul(rows * n->pixels, sizeof(float), &images);
    if (fits) {
        n->kept = malloc(images), n->x = malloc(images), n->dx = malloc(images);
        n->has = calloc(rows, sizeof *n->has), n->rows = calloc(rows, sizeof *n->rows);
        n->z = calloc(rows * n->classes, sizeof *n->z);
    }
    if (!n->kept || !n->x || !n->dx || !n->has || !n->rows || !n->z) {
        close_engine(n);
        return vt_fail(e, VT_E_MEMORY, "no memory for %d images of the model %.300s", capacity, c->name);
    }
    *out = (vt_engine){.classes = c->classes,
                       .capacity = capacity,
                       .pixels = n->pixels,
                       .votes = n->votes,
                       .random = c->random,
                       .finite = true,
                       .self = n,
                       .forward = forward,
                       .vjp = vjp,
                       .alone = alone,
                       .forward64 = forward64,
                       .close = close_engine};
    return VT_OK;
}

vt_engine_source vt_api_own_source(vt_own *own) {
    return (
        vt_engine_source){.ctx = own, .batch = own->c.batch, .differentiable = own->c.vjp != NULL, .open = open_engine};
}
