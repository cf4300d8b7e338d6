/* SPDX-License-Identifier: MIT */
#include "inference/engine.h"

#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "models/net/session.h"
#include "models/net/session64.h"

typedef struct row {
    vt_session_f32 *s; /* of one image */
    bool kept;
} row;

typedef struct sessions {
    int capacity, classes;
    size_t pixels;
    vt_session_f64 *f64; /* NULL: none, so there are no verdicts */
    double *x64;         /* [pixels] */
    row row[];           /* [capacity] */
} sessions;

/* Computes z[i] of every row whose x[i] is not NULL, and marks what is kept (vt_engine.forward). */
static vt_status forward(void *self, float *const *z, const float *const *x, bool keep, vt_err *e) {
    sessions *all = self;
    (void)e;
    for (int i = 0; i < all->capacity; i++) {
        row *r = &all->row[i];
        r->kept = keep && x[i];
        if (x[i]) memcpy(z[i], vt_session_forward_f32(r->s, x[i], 1, keep), (size_t)all->classes * sizeof **z);
    }
    return VT_OK;
}

/* Computes z[i] in double of every row whose x[i] is not NULL. */
static vt_status forward64(void *self, double *const *z, const float *const *x, vt_err *e) {
    sessions *all = self;
    (void)e;
    for (int i = 0; i < all->capacity; i++) {
        for (size_t k = 0; x[i] && k < all->pixels; k++) all->x64[k] = (double)x[i][k];
        if (x[i]) memcpy(z[i], vt_session_forward_f64(all->f64, all->x64, 1, false), (size_t)all->classes * sizeof **z);
    }
    return VT_OK;
}

/* Sets out [patches] to the mean attention that each patch gets in a layer of the kept forward (vt_tokens.mean). */
static void attention_mean(void *self, int layer, float *out) {
    vt_session_attention_mean_f32(((row *)self)->s, layer, out);
}

/* Returns the attention's loss of the kept forward, and keeps it for the backward (vt_tokens.loss). */
static float attention_loss(void *self, const vt_attn_loss *a) {
    return (float)vt_session_attention_loss_f32(((row *)self)->s, a);
}

/* Computes one row's cotangent product, and its attention's loss if wanted; VT_E_FORBIDDEN without a kept forward,
 * VT_E_RANGE if the architecture shows no attention. */
static vt_status one_vjp(row *r, vt_vjp *want, vt_err *e) {
    if (!r->kept) return vt_fail(e, VT_E_FORBIDDEN, "a gradient without a kept forward");
    if (want->attention && !r->s->ops->view)
        return vt_fail(e, VT_E_RANGE, "this architecture does not show its attention");
    if (want->attention) want->attention_value = attention_loss(r, want->attention);
    r->s->branch_open = want->open;
    vt_session_backward_f32(r->s, want->dz, want->dx, NULL);
    return VT_OK;
}

/* Computes the cotangent products of all wanted rows; the first failure is returned. */
static vt_status vjp(void *self, vt_vjp *rows, vt_err *e) {
    sessions *all = self;
    for (int i = 0; i < all->capacity; i++)
        if (rows[i].dx) VT_TRY(one_vjp(&all->row[i], &rows[i], e));
    return VT_OK;
}

/* Returns through what row `at`'s attention can be looked at; all zero: the architecture shows none. */
static vt_tokens tokens(void *self, int at) {
    row *r = &((sessions *)self)->row[at];
    const vt_config *c = &r->s->model->config;
    if (!r->s->ops->view) return (vt_tokens){0};
    return (vt_tokens){.layers = r->s->inject_blocks,
                       .side = vt_config_side(c),
                       .prefix = vt_config_prefix(c),
                       .self = r,
                       .mean = attention_mean,
                       .loss = attention_loss};
}

static void close(void *self) {
    sessions *all = self;
    for (int i = 0; i < all->capacity; i++) vt_session_close_f32(all->row[i].s);
    vt_session_close_f64(all->f64);
    free(all->x64);
    free(all);
}

/* Opens a float session for each row, and with f64 one in double. */
static vt_status open_all(sessions *all, const vt_model *m, bool f64, const vt_products *by, vt_err *e) {
    for (int i = 0; i < all->capacity; i++) VT_TRY(vt_session_open_by_f32(&all->row[i].s, m, 1, VT_GRAD_INPUT, by, e));
    if (!f64) return VT_OK;
    VT_TRY(vt_session_open_f64(&all->f64, m, 1, VT_GRAD_NONE, e));
    all->x64 = vt_alloc(all->pixels * sizeof *all->x64);
    return all->x64 ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for a network in double");
}

vt_status vt_engine_open(vt_engine *n, const vt_model *m, int capacity, bool f64, const vt_products *by, vt_err *e) {
    *n = (vt_engine){0};
    sessions *all = calloc(1, sizeof *all + (size_t)capacity * sizeof all->row[0]);
    if (!all) return vt_fail(e, VT_E_MEMORY, "no memory for a network of %d images", capacity);
    all->capacity = capacity, all->classes = m->config.classes, all->pixels = vt_config_input_pixels(&m->config);
    vt_status s = open_all(all, m, f64, by, e);
    if (s != VT_OK) {
        close(all);
        return s;
    }
    *n = (vt_engine){.classes = all->classes,
                     .capacity = capacity,
                     .pixels = all->pixels,
                     .exact = true,
                     .self = all,
                     .forward = forward,
                     .vjp = vjp,
                     .forward64 = f64 ? forward64 : NULL,
                     .tokens = tokens,
                     .close = close};
    for (int k = 0; k < 3; k++) {
        int inside = m->config.bgr ? 2 - k : k; /* the plane that is normalised is reversed before */
        n->mean[k] = m->config.mean[inside], n->std[k] = m->config.std[inside];
    }
    return VT_OK;
}

void vt_engine_close(vt_engine *n) {
    if (n->close) n->close(n->self);
    *n = (vt_engine){0};
}

vt_status vt_engine_forward64(const vt_engine *n, double *const *z, const float *const *x, vt_err *e) {
    if (!n->forward64) return vt_fail(e, VT_E_FORBIDDEN, "this network has no copy in double");
    return n->forward64(n->self, z, x, e);
}

vt_tokens vt_engine_tokens(const vt_engine *n, int at) { return n->tokens ? n->tokens(n->self, at) : (vt_tokens){0}; }
