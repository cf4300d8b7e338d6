/* SPDX-License-Identifier: MIT */
#include "models/net/bounds.h"

#include <stdlib.h>
#include <string.h>
#include "models/vit.h"
#include "nn/loss.h"
#include "nn/nn.h"

vt_status VT_R(vt_bounds_check)(const vt_model *m, const char *name, vt_err *e) {
    const vt_config *c = &m->config;
    const VT_R(vt_arch_ops) *ops = VT_R(vt_arch_ops_find)(c->arch);
    if (!ops || !ops->bound_forward)
        return vt_fail(e, VT_E_USAGE,
                       "%s needs interval bounds, which a %s network has not; a shift network has them "
                       "(model.preset: shift_cifar_dim144_depth6)",
                       name, c->arch);
    if (!c->native && !c->bgr) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s needs bounds of the input, which this model %s itself: set model.native=0", name,
                   c->native ? "resizes" : "reorders");
}

/* Takes the buffers for `b` images; run twice: to count, then to take. */
static void plan_buffers(VT_R(vt_bounds) *o, const vt_model *m, size_t b, vt_arena *a) {
    const vt_config *c = &m->config;
    const size_t n = b * (size_t)vt_rows_count(c), d = (size_t)c->dim, k = (size_t)c->classes;
    size_t most = 0;
    for (int i = 0; i < m->params.count; i++)
        if (m->params.items[i].numel > most) most = m->params.items[i].numel;
    o->box = VT_R(vt_reals)(a, 2 * b * vt_config_pixels(c));
    o->patches = VT_R(vt_reals)(a, 2 * n * (size_t)vt_rows_width(c));
    o->tokens = VT_R(vt_reals)(a, 2 * n * d), o->moved = VT_R(vt_reals)(a, 2 * n * d);
    o->pooled = VT_R(vt_reals)(a, 2 * b * d), o->worst = VT_R(vt_reals)(a, b * k);
    o->size = VT_R(vt_reals)(a, most), o->dsize = VT_R(vt_reals)(a, most);
    o->label = vt_arena_take(a, b, sizeof *o->label);
    o->in = vt_arena_take(a, (size_t)c->depth, sizeof *o->in);
    o->slope = vt_arena_take(a, (size_t)c->depth, sizeof *o->slope);
    for (int i = 0; i < c->depth; i++) {
        real *in = VT_R(vt_reals)(a, 2 * n * d), *slope = VT_R(vt_reals)(a, n * d);
        if (o->in && o->slope) o->in[i] = in, o->slope[i] = slope;
    }
}

size_t VT_R(vt_bounds_bytes)(const vt_model *m, int capacity) {
    VT_R(vt_bounds) o = {0};
    vt_arena a = {0};
    plan_buffers(&o, m, (size_t)capacity, &a);
    return a.used;
}

vt_status VT_R(vt_bounds_open)(VT_R(vt_bounds) *o, VT_R(vt_session) *s, vt_err *e) {
    const size_t bytes = VT_R(vt_bounds_bytes)(s->model, s->capacity);
    *o = (VT_R(vt_bounds)){.s = s, .block = vt_alloc(bytes)};
    if (!o->block) return vt_fail(e, VT_E_MEMORY, "no memory for bounds of %d images (%zu bytes)", s->capacity, bytes);
    plan_buffers(o, s->model, (size_t)s->capacity, &(vt_arena){.base = o->block, .size = bytes});
    return VT_OK;
}

void VT_R(vt_bounds_close)(VT_R(vt_bounds) *o) {
    free(o->block);
    memset(o, 0, sizeof *o);
}

/* ---- linear maps: |W x - W c| <= |W| r ---- */

/* Returns the map of radii, |w| without bias, whose gradient, if it is wanted, is set to 0. */
static VT_R(vt_linear) radius_map(VT_R(vt_bounds) *o, VT_R(vt_linear) l) {
    const size_t n = (size_t)l.n * (size_t)l.k;
    for (size_t i = 0; i < n; i++) o->size[i] = l.w[i] < 0 ? -l.w[i] : l.w[i];
    if (l.dw) memset(o->dsize, 0, n * sizeof(real));
    return (VT_R(vt_linear)){.w = o->size, .dw = l.dw ? o->dsize : NULL, .n = l.n, .k = l.k, .by = l.by};
}

void VT_R(vt_bounds_linear_forward)(VT_R(vt_bounds) *o, real *y, const real *x, VT_R(vt_linear) l, int m) {
    const size_t rows = (size_t)m;
    VT_R(vt_linear_forward)(y, NULL, x, l, m);
    VT_R(vt_linear_forward)(y + rows * (size_t)l.n, NULL, x + rows * (size_t)l.k, radius_map(o, l), m);
}

/* r' = |w| r:  dr = |w|^T dr',  dw += sign(w) d|w| */
void VT_R(vt_bounds_linear_backward)(VT_R(vt_bounds) *o, real *dx, const real *dy, const real *x, VT_R(vt_linear) l,
                                     int m) {
    const size_t rows = (size_t)m, n = (size_t)l.n * (size_t)l.k;
    VT_R(vt_linear_backward)(dx, NULL, dy, x, l, m);
    VT_R(vt_linear_backward)(dx ? dx + rows * (size_t)l.k : NULL, NULL, dy + rows * (size_t)l.n, x + rows * (size_t)l.k,
                             radius_map(o, l), m);
    for (size_t i = 0; l.dw && i < n; i++) l.dw[i] += l.w[i] < 0 ? -o->dsize[i] : l.w[i] > 0 ? o->dsize[i] : 0;
}

/* ---- the box, the mean, the head ---- */

/* Sets the rows of patches of the box of radius o->eps in [0,1] around b images x. */
static void box_patches(VT_R(vt_bounds) *o, const real *x, int b) {
    static const double no_mean[3];
    const vt_config *c = &o->s->model->config;
    const size_t n = (size_t)b * vt_config_pixels(c), rows = (size_t)(b * vt_rows_count(c) * vt_rows_width(c));
    for (size_t i = 0; i < n; i++) {
        const real lo = x[i] - (real)o->eps, hi = x[i] + (real)o->eps, l = lo < 0 ? 0 : lo, u = hi > 1 ? 1 : hi;
        o->box[i] = (l + u) / 2, o->box[n + i] = (u - l) / 2;
    }
    VT_R(vt_patchify_forward)(o->patches, o->box, c->mean, c->std, b, c->image, c->image, c->patch);
    VT_R(vt_patchify_forward)(o->patches + rows, o->box + n, no_mean, c->std, b, c->image, c->image, c->patch);
}

/* Computes the means over each image's tokens, of centres and radii. */
static void pool_forward(VT_R(vt_bounds) *o, int tokens, size_t d) {
    memset(o->pooled, 0, (size_t)(2 * o->batch) * d * sizeof(real));
    for (int i = 0; i < 2 * o->batch; i++) {
        real *to = o->pooled + (size_t)i * d;
        for (int t = 0; t < tokens; t++) VT_R(vt_add_to)(to, o->tokens + (size_t)(i * tokens + t) * d, d);
        for (size_t j = 0; j < d; j++) to[j] /= (real)tokens;
    }
}

/* Sets the gradient of the tokens from that of their means, which it overwrites. */
static void pool_backward(VT_R(vt_bounds) *o, int tokens, size_t d) {
    for (int i = 0; i < 2 * o->batch; i++) {
        real *from = o->pooled + (size_t)i * d;
        for (size_t j = 0; j < d; j++) from[j] /= (real)tokens;
        for (int t = 0; t < tokens; t++) memcpy(o->tokens + (size_t)(i * tokens + t) * d, from, d * sizeof(real));
    }
}

/* worst_k = v c + |v| r + b_k - b_y with v = w_k - w_y */
static void head_forward(VT_R(vt_bounds) *o, VT_R(vt_linear) l) {
    const size_t d = (size_t)l.k;
    for (int i = 0; i < o->batch; i++) {
        const int y = o->label[i];
        const real *c = o->pooled + (size_t)i * d, *r = c + (size_t)o->batch * d, *wy = l.w + (size_t)y * d;
        for (int k = 0; k < l.n; k++) {
            const real *w = l.w + (size_t)k * d;
            real sum = l.b[k] - l.b[y];
            for (size_t j = 0; j < d; j++) {
                const real v = w[j] - wy[j];
                sum += v * c[j] + (v < 0 ? -v : v) * r[j];
            }
            o->worst[i * l.n + k] = sum;
        }
    }
}

/* dc += g v,  dr += g |v|,  dv = g (c + sign(v) r), which w_k gains and w_y loses; the means are overwritten by their
 * gradient. */
static void head_backward(VT_R(vt_bounds) *o, const real *dworst, VT_R(vt_linear) l) {
    const size_t d = (size_t)l.k;
    for (int i = 0; i < o->batch; i++) {
        const int y = o->label[i];
        real *c = o->pooled + (size_t)i * d, *r = c + (size_t)o->batch * d;
        for (int k = 0; k < l.n && l.db; k++) l.db[k] += dworst[i * l.n + k], l.db[y] -= dworst[i * l.n + k];
        for (size_t j = 0; j < d; j++) {
            real dc = 0, dr = 0;
            for (int k = 0; k < l.n; k++) {
                const real g = dworst[i * l.n + k], v = l.w[(size_t)k * d + j] - l.w[(size_t)y * d + j];
                const real sign = v < 0 ? -1 : v > 0 ? 1 : 0, dv = g * (c[j] + sign * r[j]);
                dc += g * v, dr += g * sign * v;
                if (l.dw) l.dw[(size_t)k * d + j] += dv, l.dw[(size_t)y * d + j] -= dv;
            }
            c[j] = dc, r[j] = dr;
        }
    }
}

/* Returns the bound classifier, after binding its layer, the one after the blocks. */
static VT_R(vt_linear) bound_head(const VT_R(vt_bounds) *o) {
    VT_R(vt_session_bind)(o->s, 1 + o->s->model->config.depth);
    return VT_R(vt_linear_bound)(o->s, VT_READOUT_HEAD_W);
}

const real *VT_R(vt_bounds_forward)(VT_R(vt_bounds) *o, const real *x, const float *target, int b) {
    VT_R(vt_session) *s = o->s;
    const vt_config *c = &s->model->config;
    const int tokens = vt_rows_count(c), d = c->dim;
    o->batch = b;
    for (int i = 0; i < b; i++) o->label[i] = vt_target_label(target + i * c->classes, c->classes);
    box_patches(o, x, b);
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_bounds_linear_forward)(o, o->tokens, o->patches, VT_R(vt_linear_bound)(s, VT_ROWS_W), b * tokens);
    for (int i = 0; i < b; i++)
        VT_R(vt_add_to)(o->tokens + (size_t)(i * tokens) * (size_t)d, s->w[VT_VIT_POS], (size_t)(tokens * d));
    s->ops->bound_forward(o);
    pool_forward(o, tokens, (size_t)d);
    head_forward(o, bound_head(o));
    return o->worst;
}

void VT_R(vt_bounds_backward)(VT_R(vt_bounds) *o, const real *dworst, real *grad) {
    VT_R(vt_session) *s = o->s;
    const vt_config *c = &s->model->config;
    const int tokens = vt_rows_count(c), d = c->dim;
    s->grad = grad;
    head_backward(o, dworst, bound_head(o));
    pool_backward(o, tokens, (size_t)d);
    s->ops->bound_backward(o);
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; s->dw[VT_VIT_POS] && i < o->batch; i++)
        VT_R(vt_add_to)(s->dw[VT_VIT_POS], o->tokens + (size_t)(i * tokens) * (size_t)d, (size_t)(tokens * d));
    VT_R(vt_bounds_linear_backward)(o, NULL, o->tokens, o->patches, VT_R(vt_linear_bound)(s, VT_ROWS_W),
                                    o->batch * tokens);
    s->grad = NULL;
}
