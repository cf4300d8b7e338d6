/* SPDX-License-Identifier: MIT */
/* Double alone: the numeric rooms' headers are read as their second copy sees them. */
#define VT_DOUBLE
#include "research/analysis/layers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "models/arch.h"
#include "models/net/session.h"
#include "nn/nn.h"

vt_status vt_layers_check(const vt_model *m, vt_err *e) {
    const vt_arch *arch = vt_arch_find(m->config.arch);
    if (arch && arch->shows_attention) return VT_OK;
    char all[160] = "";
    int n;
    const vt_arch *const *defs = vt_archs(&n);
    for (int i = 0; i < n; i++)
        if (defs[i]->shows_attention)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? ", " : "", defs[i]->name);
    return vt_fail(e, VT_E_UNKNOWN,
                   "%s: architecture %s has no attention of all tokens to all to look at (those with: %s)",
                   m->path ? m->path : "the model", m->config.arch, all);
}

vt_head_at vt_layer_head(const vt_layer *l, int h) {
    size_t w = (size_t)(h * l->d) * (size_t)l->c;
    return (vt_head_at){.t = l->t,
                        .d = l->d,
                        .c = l->c,
                        .scale = l->scale,
                        .x = l->x,
                        .q = l->q + h * l->d,
                        .k = l->k + h * l->d,
                        .v = l->v + h * l->d,
                        .p = l->p + (size_t)h * (size_t)l->t * (size_t)l->ldp,
                        .w_q = l->w_q + w,
                        .w_k = l->w_k + w,
                        .w_v = l->w_v + w,
                        .b_q = l->b_q ? l->b_q + h * l->d : NULL,
                        .ldq = l->ldq,
                        .ldk = l->ldk,
                        .ldv = l->ldv,
                        .ldp = l->ldp};
}

typedef struct watcher {
    vt_layer_fn fn;
    void *ctx;
    vt_status status;
    vt_err *e;
    bool after; /* in backward */
} watcher;

/* Session hook: calls fn with the block as a vt_layer, in the watcher's direction; nothing after a failure. */
static void observe_attention(void *ctx, const vt_attn_record_f64 *a) {
    watcher *w = ctx;
    if (w->status != VT_OK || w->after != (a->d_o != NULL)) return;
    const vt_attn_shape_f64 *s = a->shape;
    vt_layer l = {.block = a->block,
                  .t = s->t,
                  .c = a->dim,
                  .a = s->c,
                  .heads = s->heads,
                  .d = s->c / s->heads,
                  .scale = s->scale,
                  .x = a->x,
                  .q = a->in->q,
                  .k = a->in->k,
                  .v = a->in->v,
                  .p = a->p,
                  .w_q = a->w_q,
                  .w_k = a->w_k,
                  .w_v = a->w_v,
                  .w_o = a->w_o,
                  .b_q = a->b_q,
                  .d_o = a->d_o,
                  .ldq = a->in->ldq,
                  .ldk = a->in->ldk,
                  .ldv = a->in->ldv,
                  .ldp = vt_attn_ldp(s->t),
                  .seen = a};
    l.plain = !strcmp(s->def->is->name, "dot") && !s->pos;
    l.dot = l.plain && !a->q_norm[0];
    w->status = w->fn(w->ctx, &l, w->e);
}

vt_status vt_layers_forward(struct vt_session_f64 *s, const double *x, bool keep, vt_layer_fn fn, void *ctx,
                            const double **z, vt_err *e) {
    watcher w = {.fn = fn, .ctx = ctx, .e = e};
    s->watch = fn ? observe_attention : NULL, s->watch_ctx = &w;
    const double *logits = vt_session_forward_f64(s, x, 1, keep);
    s->watch = NULL;
    if (z) *z = logits;
    return w.status;
}

vt_status vt_layers_backward(struct vt_session_f64 *s, const double *dlogits, vt_layer_fn fn, void *ctx, vt_err *e) {
    watcher w = {.fn = fn, .ctx = ctx, .e = e, .after = true};
    s->watch = observe_attention, s->watch_ctx = &w;
    vt_session_backward_f64(s, dlogits, NULL, NULL);
    s->watch = NULL;
    return w.status;
}

/* Tangents or gradients of q, k, v and of P v [t, a] each; what attention.h wants; of the full form M; of a norm of q
 * and k: its input, its output (not wanted) [t, a], its statistics [t heads, 2], ones [d]. */
typedef struct room {
    double *q, *k, *v, *o, *score, *mix, *raw, *scrap, *stat, *ones;
} room;

/* Points r's arrays into base, each a multiple of 8 numbers; NULL: none. Returns the numbers needed. */
static size_t lay_out(room *r, double *base, const vt_layer *l) {
    const vt_attn_record_f64 *a = l->seen;
    size_t n = (size_t)l->t * (size_t)l->a, mix = a->full ? (size_t)(l->a * l->d) : 0, at = 0;
    size_t norm = a->q_norm[0] ? n : 0, stat = 2 * (size_t)l->t * (size_t)l->heads;
    size_t len[] = {n, n, n, n, vt_attn_scratch_len_f64(a->shape), mix, norm, norm, stat, (size_t)l->d};
    double **to[] = {&r->q, &r->k, &r->v, &r->o, &r->score, &r->mix, &r->raw, &r->scrap, &r->stat, &r->ones};
    for (size_t i = 0; i < sizeof len / sizeof *len; i++) {
        *to[i] = base ? base + at : NULL;
        at += (len[i] + 7) / 8 * 8;
    }
    return at;
}

vt_status vt_layer_map_open(vt_layer_map *m, const vt_layer *l, int head, vt_err *e) {
    room r;
    *m = (vt_layer_map){.l = l, .head = head};
    m->work = vt_alloc(lay_out(&r, NULL, l) * sizeof *m->work);
    if (!m->work) return vt_fail(e, VT_E_MEMORY, "no memory for the Jacobian of block %d", l->block);
    lay_out(&r, m->work, l);
    const vt_attn_record_f64 *a = l->seen;
    if (a->full) vt_attn_full_mix_f64(r.mix, a->w_q, a->w_v, a->shape, l->c);
    for (int j = 0; j < l->d; j++) r.ones[j] = 1;
    return VT_OK;
}

void vt_layer_map_close(vt_layer_map *m) {
    free(m->work);
    m->work = NULL;
}

/* A norm of each head's q (or k): y = g x_hat + b over rows of d. Its Jacobian is diag(g) S with a symmetric S = (I -
 * 11^T/d - x_hat x_hat^T/d) / std: tangents become g (S y), gradients (`adjoint`) S (g y), in place; without a norm y
 * stays. w, b: of q. Overwrites r's raw, scrap and stat. */
static void norm_map(const vt_layer *l, const room *r, double *y, const double *w, const double *b,
                     const double *const norm[2], bool adjoint) {
    const vt_attn_record_f64 *a = l->seen;
    int rows = l->t * l->heads;
    if (!norm[0]) return;
    vt_norm_f64 n = {.kind = VT_NORM_LAYER, .eps = a->eps, .g = norm[0], .b = norm[1]};
    vt_linear_forward_f64(r->raw, NULL, a->x, (vt_linear_f64){.w = w, .b = b, .n = l->a, .k = l->c}, l->t);
    vt_norm_forward_f64(r->scrap, r->stat, r->raw, n, rows, l->d);
    if (!adjoint) n.g = r->ones;
    vt_norm_backward_f64(y, NULL, y, r->raw, r->stat, n, rows, l->d);
    for (int i = 0; !adjoint && i < rows; i++)
        for (int j = 0; j < l->d; j++) y[(size_t)i * (size_t)l->d + (size_t)j] *= norm[0][j];
}

/* y [t, d] = the head's columns of o [t, a]. */
static void take_head(double *y, const double *o, const vt_layer *l, int head) {
    for (int i = 0; i < l->t; i++)
        memcpy(y + (size_t)i * (size_t)l->d, o + (size_t)i * (size_t)l->a + (size_t)(head * l->d),
               (size_t)l->d * sizeof *y);
}

/* o [t, a] = y [t, d] in the head's columns, zeros elsewhere. */
static void put_head(double *o, const double *y, const vt_layer *l, int head) {
    memset(o, 0, (size_t)l->t * (size_t)l->a * sizeof *o);
    for (int i = 0; i < l->t; i++)
        memcpy(o + (size_t)i * (size_t)l->a + (size_t)(head * l->d), y + (size_t)i * (size_t)l->d,
               (size_t)l->d * sizeof *y);
}

/* y [t, n] = x [t, k] w^T */
static void apply_matrix(double *y, const double *x, const double *w, int t, int n, int k) {
    vt_linear_forward_f64(y, NULL, x, (vt_linear_f64){.w = w, .n = n, .k = k}, t);
}

/* q = x w_q^T:  tq = tx w_q^T, and so on;  to by vt_attn_jvp;  ty = to w_o^T */
void vt_layer_jvp(void *map, double *ty, const double *tx) {
    const vt_layer_map *m = map;
    const vt_layer *l = m->l;
    const vt_attn_record_f64 *a = l->seen;
    int t = l->t, c = l->c, n = l->a;
    room r;
    lay_out(&r, m->work, l);
    apply_matrix(r.q, tx, a->w_q, t, n, c);
    if (!a->tied) apply_matrix(r.k, tx, a->w_k, t, n, c);
    norm_map(l, &r, r.q, a->w_q, a->b_q, a->q_norm, false);
    norm_map(l, &r, r.k, a->w_k, a->b_k, a->k_norm, false);
    if (a->full)
        vt_attn_full_values_f64(r.v, n, r.q, n, r.mix, a->shape);
    else
        apply_matrix(r.v, tx, a->w_v, t, n, c);
    const vt_attn_in_f64 tangent = {.q = r.q, .k = a->tied ? r.q : r.k, .v = r.v, .ldq = n, .ldk = n, .ldv = n};
    vt_attn_jvp_f64(r.o, r.score, &tangent, a->p, a->saved, a->in, a->shape);
    if (m->head >= 0)
        take_head(ty, r.o, l, m->head);
    else if (a->w_o)
        apply_matrix(ty, r.o, a->w_o, t, c, n);
    else
        memcpy(ty, r.o, (size_t)t * (size_t)c * sizeof *ty);
}

/* do = dy w_o;  dq, dk, dv by vt_attn_backward;  dx = dq w_q + dk w_k + dv w_v (tied: dq holds both) */
void vt_layer_vjp(void *map, double *dx, const double *dy) {
    const vt_layer_map *m = map;
    const vt_layer *l = m->l;
    const vt_attn_record_f64 *a = l->seen;
    int t = l->t, c = l->c, n = l->a;
    room r;
    lay_out(&r, m->work, l);
    if (m->head >= 0)
        put_head(r.o, dy, l, m->head);
    else if (a->w_o)
        vt_gemm_f64(false, false, t, n, c, 1, dy, c, a->w_o, n, 0, r.o, n);
    else
        memcpy(r.o, dy, (size_t)t * (size_t)c * sizeof *dy);
    const vt_attn_grad_f64 g = {.q = r.q, .k = a->tied ? r.q : r.k, .v = r.v, .ldq = n, .ldk = n, .ldv = n};
    vt_attn_shape_f64 shape = *a->shape;
    shape.ortho = 0, shape.inject = NULL, shape.dbias = shape.dpos = shape.dgate = NULL;
    vt_attn_backward_f64(&g, r.score, r.o, a->p, a->saved, a->in, &shape);
    if (a->full) vt_attn_full_dvalues_f64(r.q, n, NULL, r.v, n, a->in->q, a->in->ldq, r.mix, a->shape);
    norm_map(l, &r, r.q, a->w_q, a->b_q, a->q_norm, true);
    norm_map(l, &r, r.k, a->w_k, a->b_k, a->k_norm, true);
    vt_gemm_f64(false, false, t, c, n, 1, r.q, n, a->w_q, c, 0, dx, c);
    if (!a->tied) vt_gemm_f64(false, false, t, c, n, 1, r.k, n, a->w_k, c, 1, dx, c);
    if (!a->full) vt_gemm_f64(false, false, t, c, n, 1, r.v, n, a->w_v, c, 1, dx, c);
}

vt_operator vt_layer_operator(vt_layer_map *m) {
    size_t t = (size_t)m->l->t;
    return (vt_operator){.n = t * (size_t)m->l->c,
                         .m = t * (size_t)(m->head < 0 ? m->l->c : m->l->d),
                         .apply = vt_layer_jvp,
                         .transposed = vt_layer_vjp,
                         .ctx = m};
}
