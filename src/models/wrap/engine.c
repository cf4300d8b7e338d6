/* SPDX-License-Identifier: MIT */
#include "models/wrap/engine.h"

#include <stdlib.h>
#include <string.h>
#include "models/net/session.h"

typedef struct sessions {
    int capacity, kept; /* images of the last kept forward */
    int classes;
    vt_session_f32 *s[]; /* [capacity] of one image each */
} sessions;

static vt_status forward(void *self, float *z, const float *const *x, int b, bool keep, vt_err *e) {
    sessions *all = self;
    size_t classes = (size_t)all->classes;
    if (b < 1 || b > all->capacity)
        return vt_fail(e, VT_E_RANGE, "a batch of %d images; this network takes 1 to %d", b, all->capacity);
    all->kept = keep ? b : 0;
    for (int i = 0; i < b; i++)
        memcpy(z + (size_t)i * classes, vt_session_forward_f32(all->s[i], x[i], 1, keep), classes * sizeof *z);
    return VT_OK;
}

static void attention_mean(void *self, int layer, float *out) {
    vt_session_attention_mean_f32(((sessions *)self)->s[0], layer, out);
}

static float attention_loss(void *self, const vt_attn_loss *a) {
    return (float)vt_session_attention_loss_f32(((sessions *)self)->s[0], a);
}

static vt_status vjp(void *self, float *const *dx, const float *dz, const vt_vjp_extra *extra, vt_err *e) {
    sessions *all = self;
    if (!all->kept) return vt_fail(e, VT_E_FORBIDDEN, "a gradient without a kept forward");
    if (extra->attention && (all->kept > 1 || !all->s[0]->ops->view))
        return vt_fail(e, VT_E_RANGE, "attention is looked at in one image alone, where the architecture shows it");
    for (int i = 0; i < all->kept; i++) {
        if (!dx[i]) continue;
        if (extra->attention) *extra->attention_value = attention_loss(all, extra->attention);
        all->s[i]->branch_open = extra->open;
        vt_session_backward_f32(all->s[i], dz ? dz + (size_t)i * (size_t)all->classes : NULL, dx[i], NULL);
    }
    return VT_OK;
}

static vt_tokens tokens(sessions *all) {
    const vt_session_f32 *s = all->s[0];
    const vt_config *c = &s->model->config;
    if (!s->ops->view) return (vt_tokens){0};
    return (vt_tokens){.layers = s->inject_blocks,
                       .side = vt_config_side(c),
                       .prefix = vt_config_prefix(c),
                       .self = all,
                       .mean = attention_mean,
                       .loss = attention_loss};
}

static void close(void *self) {
    sessions *all = self;
    for (int i = 0; i < all->capacity; i++) vt_session_close_f32(all->s[i]);
    free(all);
}

vt_status vt_engine_open(vt_engine *n, const vt_model *m, int capacity, vt_err *e) {
    *n = (vt_engine){0};
    sessions *all = calloc(1, sizeof *all + (size_t)capacity * sizeof all->s[0]);
    if (!all) return vt_fail(e, VT_E_MEMORY, "no memory for a network of %d images", capacity);
    all->capacity = capacity, all->classes = m->config.classes;
    vt_status st = VT_OK;
    for (int i = 0; st == VT_OK && i < capacity; i++) st = vt_session_open_f32(&all->s[i], m, 1, VT_GRAD_INPUT, e);
    if (st != VT_OK) {
        close(all);
        return st;
    }
    *n = (vt_engine){.classes = all->classes,
                     .capacity = capacity,
                     .pixels = vt_config_input_pixels(&m->config),
                     .tokens = tokens(all),
                     .self = all,
                     .forward = forward,
                     .vjp = vjp,
                     .close = close};
    return VT_OK;
}

void vt_engine_close(vt_engine *n) {
    if (n->close) n->close(n->self);
    *n = (vt_engine){0};
}
