/* SPDX-License-Identifier: MIT */
#include "models/net/session.h"
#ifdef VT_DOUBLE
#endif

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "linalg/gemm.h"
#include "nn/interpolate.h"

#define VT_KIND VT_R(vt_arch_ops)
#define VT_KIND_NAME(x) VT_R(vt_arch_ops_##x)
#define VT_KIND_LIST "nets.inc"
#include "base/registry.inc"

const VT_R(vt_arch_ops) *VT_R(vt_arch_ops_find)(const char *name) {
    for (int i = 0; i < COUNT; i++)
        if (defs[i]->also && !strcmp(defs[i]->also, name)) return defs[i];
    return named(name);
}

/* ---- the input: resized, channels reversed ---- */

/* Takes inside, dinside and resize, if the input is resized or its channels reversed. The normalisation comes after the
 * resize, in the architecture. They commute: the weights of every filter sum to 1. */
static void plan_input(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    size_t n = (size_t)s->capacity * vt_config_pixels(c);
    if (!c->native && !c->bgr) return;
    s->inside = VT_R(vt_reals)(a, n);
    s->dinside = VT_R(vt_reals)(a, s->mode == VT_GRAD_NONE ? 0 : n);
    if (!c->native) return;
    static const vt_interp_kind kinds[] = {VT_INTERP_BILINEAR, VT_INTERP_BICUBIC, VT_INTERP_NEAREST, VT_INTERP_BILINEAR,
                                           VT_INTERP_BICUBIC};
    VT_R(vt_interp) measured, *p = vt_arena_take(a, 1, sizeof *p);
    s->resize = p;
    VT_R(vt_interp_plan)(p ? p : &measured, a, kinds[c->native_filter], c->native_filter >= VT_NATIVE_BILINEAR_AA,
                         c->native, c->native, c->image, c->image, 0);
}

/* Returns s->inside = resize(x), plane k of an image from plane 2 - k when reversed; or x itself if neither is asked
 * for. */
static const real *input_forward(VT_R(vt_session) *s, const real *x, int b) {
    const vt_config *c = &s->model->config;
    size_t small = vt_config_input_pixels(c) / 3, large = vt_config_pixels(c) / 3;
    for (int k = 0; s->inside && k < 3 * b; k++) {
        const real *from = x + (size_t)(c->bgr ? k - k % 3 + 2 - k % 3 : k) * small;
        real *to = s->inside + (size_t)k * large;
        if (s->resize)
            VT_R(vt_interp_forward)(to, s->resize, from, 1);
        else
            memcpy(to, from, large * sizeof *to);
    }
    return s->inside ? s->inside : x;
}

/* Computes dx from s->dinside, the gradient inside the network: channel order and resize. */
static void input_backward(VT_R(vt_session) *s, real *dx, int b) {
    const vt_config *c = &s->model->config;
    size_t small = vt_config_input_pixels(c) / 3, large = vt_config_pixels(c) / 3;
    for (int k = 0; k < 3 * b; k++) {
        const real *from = s->dinside + (size_t)k * large;
        real *to = dx + (size_t)(c->bgr ? k - k % 3 + 2 - k % 3 : k) * small;
        if (s->resize)
            VT_R(vt_interp_backward)(to, s->resize, from, 1);
        else
            memcpy(to, from, large * sizeof *to);
    }
}

/* Takes the buffers of rounded products, after all else: an input of a product is a tensor, or a part of one of the
 * buffers so far. */
static void plan_rounding(VT_R(vt_session) *s, vt_arena *a) {
    size_t most = a->longest;
    for (int i = 0; i < s->model->params.count; i++)
        if (s->model->params.items[i].numel > most) most = s->model->params.items[i].numel;
    s->rounding.a = vt_arena_take(a, most, sizeof(float)), s->rounding.b = vt_arena_take(a, most, sizeof(float));
}

/* Takes the memory of a session; run twice: to count, then to take. */
static void plan(VT_R(vt_session) *s, vt_arena *a) {
    s->logits = VT_R(vt_reals)(a, (size_t)s->capacity * (size_t)s->model->config.classes);
#ifdef VT_DOUBLE
    s->layer_w = vt_arena_take(a, s->model->params.layer_max / 16, 16 * sizeof(real)); /* tensors of 16 k numbers */
#endif
    plan_input(s, a);
    if (s->ops->view && s->mode != VT_GRAD_NONE) {
        const vt_config *c = &s->model->config;
        int blocks = vt_model_blocks(s->model), tokens = vt_config_tokens(c);
        s->inject_blocks = blocks, s->inject_len = tokens > c->heads ? tokens : c->heads;
        s->inject = vt_arena_take(a, (size_t)blocks, sizeof *s->inject);
        s->inject_weights = VT_R(vt_reals)(a, (size_t)blocks * (size_t)s->inject_len);
    }
    s->ops->plan(s, a);
    if (s->products) plan_rounding(s, a);
}

/* Sets s->layer_first, the first parameter of each layer; VT_E_MEMORY. */
static vt_status index_layers(VT_R(vt_session) *s, vt_err *e) {
    const vt_param_list *l = &s->model->params;
    s->layer_first = calloc((size_t)l->layers + 1, sizeof *s->layer_first);
    if (!s->layer_first) return vt_fail(e, VT_E_MEMORY, "no memory for a model session");
    for (int i = 0; i < l->count; i++)
        for (int k = l->items[i].layer + 1; k <= l->layers; k++) s->layer_first[k] = i + 1;
    return VT_OK;
}

/* Sets s->ops, the architecture's functions, and checks the attention variant; VT_E_UNKNOWN: there is no such
 * architecture or variant. */
static vt_status find_parts(VT_R(vt_session) *s, vt_err *e) {
    const vt_config *c = &s->model->config;
    s->ops = VT_R(vt_arch_ops_find)(c->arch);
    if (!s->ops) return vt_fail(e, VT_E_UNKNOWN, "unknown architecture '%s'", c->arch);
    vt_attn_spec attn;
    return vt_attn_parse(&attn, c->attn, e);
}

vt_status VT_R(vt_session_open)(VT_R(vt_session) **out, const vt_model *m, int capacity, vt_grad_mode mode, vt_err *e) {
    return VT_R(vt_session_open_by)(out, m, capacity, mode, NULL, e);
}

vt_status VT_R(vt_session_open_by)(VT_R(vt_session) **out, const vt_model *m, int capacity, vt_grad_mode mode,
                                   const vt_products *by, vt_err *e) {
    *out = NULL;
    VT_R(vt_session) *s = calloc(1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for a model session");
    s->model = m, s->capacity = capacity, s->mode = mode;
    if (by) s->rounding = *by, s->products = &s->rounding;
    vt_status st = find_parts(s, e);
    s->state = s->ops ? calloc(1, s->ops->state_size) : NULL;
    if (st == VT_OK && !s->state) st = vt_fail(e, VT_E_MEMORY, "no memory for a model session");
    if (st == VT_OK) st = index_layers(s, e);
    if (st == VT_OK) st = vt_blas_reserve(1, e);
    if (st == VT_OK) {
        vt_arena a = {0};
        plan(s, &a);
        if (a.longest > INT_MAX) /* rows and places inside a buffer are counted in int */
            st = vt_fail(e, VT_E_RANGE, "a session of %d images has %zu numbers in one buffer, the limit is %d",
                         capacity, a.longest, INT_MAX);
        else if (!(s->block = vt_alloc(a.used)))
            st = vt_fail(e, VT_E_MEMORY, "no memory for a session of %d images (%zu bytes)", capacity, a.used);
        else
            plan(s, &(vt_arena){.base = s->block, .size = a.used});
    }
    if (st != VT_OK) {
        VT_R(vt_session_close)(s);
        return st;
    }
    *out = s;
    return VT_OK;
}

/* Returns the bytes that such a session takes (0: an unknown architecture, no memory) and sets its sizes; its buffers
 * are NULL. */
static size_t measure_session(VT_R(vt_session) *s) {
    vt_arena a = {0};
    if (find_parts(s, NULL) != VT_OK || !(s->state = calloc(1, s->ops->state_size))) return 0;
    plan(s, &a);
    free(s->state);
    return a.used;
}

size_t VT_R(vt_session_bytes)(const vt_model *m, int capacity, vt_grad_mode mode) {
    return measure_session(&(VT_R(vt_session)){.model = m, .capacity = capacity, .mode = mode});
}

size_t VT_R(vt_session_bytes_by)(const vt_model *m, int capacity, vt_grad_mode mode, const vt_products *by) {
    return measure_session(&(VT_R(vt_session)){.model = m, .capacity = capacity, .mode = mode, .products = by});
}

int VT_R(vt_session_feature_len)(const vt_model *m) {
    VT_R(vt_session) s = {.model = m, .capacity = 1, .mode = VT_GRAD_NONE};
    return measure_session(&s) ? s.feature_len : 0;
}

void VT_R(vt_session_close)(VT_R(vt_session) *s) {
    if (!s) return;
    free(s->layer_first);
    free(s->block);
    free(s->state);
    free(s);
}

void VT_R(vt_session_bind)(VT_R(vt_session) *s, int layer) {
    memset(s->w, 0, sizeof s->w);
    memset(s->dw, 0, sizeof s->dw);
    s->layer = layer;
#ifdef VT_DOUBLE
    real *to = s->layer_w;
#endif
    for (int i = s->layer_first[layer]; i < s->layer_first[layer + 1]; i++) {
        const vt_param *p = s->param[s->model->params.items[i].slot] = &s->model->params.items[i];
        const float *from = s->model->w + p->offset;
        if (s->grad) s->dw[p->slot] = s->grad + p->offset; /* also of what is frozen: most layers want all or none */
        if (s->master) {
            s->w[p->slot] = s->master + p->offset;
            continue;
        }
#ifdef VT_DOUBLE
        for (size_t k = 0; k < p->numel; k++) to[k] = (real)from[k];
        s->w[p->slot] = to;
        to += (p->numel + 15) / 16 * 16;
#else
        s->w[p->slot] = from;
#endif
    }
}

/* Of what is frozen a linear layer leaves the gradient out, which is its largest work. A transposed copy is there of
 * the model's own floats alone. */
VT_R(vt_linear) VT_R(vt_linear_bound)(const VT_R(vt_session) *s, int slot) {
    const vt_param *p = s->param[slot];
    if (!s->w[slot]) return (VT_R(vt_linear)){0};
    VT_R(vt_linear) l = {.w = s->w[slot], .b = s->w[slot + 1], .dw = p->buffer ? NULL : s->dw[slot]};
    if (l.b && !s->param[slot + 1]->buffer) l.db = s->dw[slot + 1];
    l.n = (int)p->shape[0], l.k = (int)(p->numel / (size_t)p->shape[0]), l.by = s->products;
#ifndef VT_DOUBLE
    if (!s->master && s->model->wt && p->t_offset != SIZE_MAX) l.wt = s->model->wt + p->t_offset;
#endif
    return l;
}

VT_R(vt_norm) VT_R(vt_norm_bound)(const VT_R(vt_session) *s, int slot, vt_norm_kind kind, double eps) {
    const real *const *w = s->w + slot;
    return (VT_R(vt_norm)){.kind = kind,
                           .eps = eps,
                           .g = w[VT_NORM_W],
                           .b = w[VT_NORM_B],
                           .mean = w[VT_NORM_MEAN],
                           .var = w[VT_NORM_VAR],
                           .dg = s->dw[slot + VT_NORM_W],
                           .db = s->dw[slot + VT_NORM_B]};
}

const real *VT_R(vt_session_forward)(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    s->batch = b, s->injecting = false;
    s->kept = keep && s->mode != VT_GRAD_NONE;
    s->ops->forward(s, input_forward(s, x, b), b, s->kept);
    return s->logits;
}

const real *VT_R(vt_session_features)(const VT_R(vt_session) *s, int i, int *len) {
    *len = s->feature_len;
    return s->features + (size_t)i * (size_t)s->feature_stride;
}

void VT_R(vt_session_backward)(VT_R(vt_session) *s, const real *dlogits, real *dx, real *grad) {
    if (!s->kept) return; /* a programming error; tests assert that dx changes */
    s->grad = s->mode == VT_GRAD_PARAMS ? grad : NULL;
    s->ortho_value = 0;
    s->ops->backward(s, dlogits, dx && s->inside ? s->dinside : dx);
    s->grad = NULL;
    s->injecting = false;
    if (dx && s->inside) input_backward(s, dx, s->batch);
}
