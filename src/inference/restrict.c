/* SPDX-License-Identifier: MIT */
/* A classifier with some of the outputs of another (classifier.h). */
#include <stdlib.h>
#include "base/mem.h"
#include "inference/classifier.h"

typedef struct few {
    vt_classifier all;
    const int *head; /* [n] */
    int n;
    float *z, *z_few, *dz_few, *dz; /* [classes], [n], [n], [classes] with zeros outside head */
    double *z64;                    /* [votes, classes] */
} few;

/* Computes all logits and picks the n of the head, which are also kept for backward if asked. */
static vt_status logits(void *self, const float *x, float *z, bool keep, vt_err *e) {
    few *f = self;
    VT_TRY(vt_classifier_logits(&f->all, x, f->z, keep, e));
    for (int k = 0; k < f->n; k++) z[k] = f->z[f->head[k]];
    for (int k = 0; keep && k < f->n; k++) f->z_few[k] = z[k];
    return VT_OK;
}

/* Computes all logits in double and picks the n of the head. */
static vt_status logits64(void *self, const float *x, double *z, vt_err *e) {
    few *f = self;
    VT_TRY(vt_classifier_logits64(&f->all, x, f->z64, e));
    for (int r = 0; r < vt_classifier_votes(&f->all); r++)
        for (int k = 0; k < f->n; k++) z[r * f->n + k] = f->z64[r * f->all.classes + f->head[k]];
    return VT_OK;
}

/* Computes all logits of this image alone and picks the n of the head. */
static vt_status alone(void *self, const float *x, float *z, vt_err *e) {
    few *f = self;
    VT_TRY(vt_classifier_alone(&f->all, x, f->z, e));
    for (int k = 0; k < f->n; k++) z[k] = f->z[f->head[k]];
    return VT_OK;
}

/* Computes the loss of the kept n logits, with its attention's, and the gradient by the image, for which the loss's
 * gradient by the n outputs is the cotangent of all. */
static vt_status backward(void *self, const vt_loss *loss, float *value, float *dx, vt_err *e) {
    few *f = self;
    float linear;
    *value = vt_loss_eval_f32(f->dz_few, loss, f->z_few, f->n);
    for (int k = 0; k < f->n; k++) f->dz[f->head[k]] = f->dz_few[k];
    const vt_attn_loss *a = loss->attention;
    if (a && a->alone) *value = 0;
    if (a) *value += f->all.tokens.loss(f->all.tokens.self, a);
    const vt_loss cotangent = {.kind = VT_LOSS_LINEAR, .target = f->dz, .attention = a, .open = loss->open};
    return vt_classifier_backward(&f->all, &cotangent, &linear, dx, e);
}

static void begin(void *self, const vt_rng *rng) { vt_classifier_begin(&((few *)self)->all, rng); }

static void close(void *self) {
    few *f = self;
    vt_classifier_close(&f->all);
    free(f->z), free(f->z64), free(f);
}

vt_status vt_classifier_restrict(vt_classifier *c, const int *head, int n, vt_err *e) {
    const size_t all = (size_t)c->classes, some = (size_t)n;
    few *f = calloc(1, sizeof *f);
    float *z = vt_alloc(2 * (all + some) * sizeof *z);
    double *z64 = vt_alloc((size_t)vt_classifier_votes(c) * all * sizeof *z64);
    if (!f || !z || !z64) {
        free(f), free(z), free(z64);
        return vt_fail(e, VT_E_MEMORY, "no memory for a classifier");
    }
    *f = (few){.all = *c, .head = head, .n = n, .z = z, .dz = z + all, .z_few = z + 2 * all, .z64 = z64};
    f->dz_few = f->z_few + some;
    c->classes = n;
    c->self = f;
    c->alone = alone;
    c->logits = logits, c->logits64 = logits64, c->backward = backward, c->begin = begin, c->close = close;
    return VT_OK;
}
