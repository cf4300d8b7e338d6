/* SPDX-License-Identifier: MIT */
/* What a ConViT (models/arch_convit.c) computes. */
#include <string.h>
#include "models/net/gpsa.h"
#include "nn/nn.h"

typedef struct state {
    VT_R(vt_block_shape) shape; /* of every block, as a ViT has it */
    VT_R(vt_gpsa_room) gpsa;
    real *patches;  /* [b*N, 3ps^2] normalised */
    real *dpatches; /* their gradient; shares the memory of patches unless weight gradients need both */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    real *last, *normed, *dnormed; /* [b, D] class rows after the last block, after the norm; gradient of either */
    real *stat;                    /* [b, 2] */
    real *stream;                  /* [b*T, D] gradient */
} state;

/* Block i with b images. */
static VT_R(vt_block_shape) block_of(const VT_R(vt_block_shape) *all, const VT_R(vt_gpsa_room) *gpsa,
                                     const vt_config *c, int i, int b) {
    VT_R(vt_block_shape) sh = *all;
    sh.attn.b = b, sh.layer = 1 + i, sh.index = i, sh.tail = i == c->depth - 1;
    if (i < c->local_blocks) sh.attn.t = vt_convit_patches(c), sh.mixer = &VT_R(vt_gpsa), sh.own = gpsa;
    return sh;
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)vt_convit_patches(c),
           row = 3 * (size_t)(c->patch * c->patch);
    st->patches = vt_arena_take(a, b * n * row, sizeof(real));
    st->dpatches = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, b * n * row, sizeof(real)) : st->patches;
    st->last = vt_arena_take(a, b * d, sizeof(real)), st->normed = vt_arena_take(a, b * d, sizeof(real));
    s->features = st->normed, s->feature_len = s->feature_stride = c->dim;
    st->dnormed = vt_arena_take(a, b * d, sizeof(real));
    st->stat = vt_arena_take(a, 2 * b, sizeof(real));
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, b * (n + 1) * d, sizeof(real));
    st->shape = VT_R(vt_block_of)(c), st->shape.attn.by = s->products;
    st->gpsa.side = vt_config_side(c);
    VT_R(vt_block_sizes) room = {0};
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, s->capacity);
        VT_R(vt_block_measure)(&room, &sh);
        if (!i) VT_R(vt_gpsa_plan_room)(&st->gpsa, &sh, s->mode, a);
    }
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, (size_t)c->depth, sizeof *blocks), measured;
    st->blocks = blocks;
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, s->capacity);
        bool again = s->mode == VT_GRAD_NONE && i != 0 && i != c->local_blocks; /* forward only: one set of each kind */
        if (!again) VT_R(vt_block_plan)(blocks ? &blocks[i] : &measured, &sh, s->mode, a);
    }
}

/* What a block keeps, or, when nothing is kept, what all blocks of its kind write over. */
static VT_R(vt_block_cache) *cache_of(const state *st, const vt_config *c, int i, bool keep) {
    return &st->blocks[keep ? i : i < c->local_blocks ? 0 : c->local_blocks];
}

static void embed_patches(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int n = vt_convit_patches(c), d = c->dim, row = 3 * c->patch * c->patch;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_forward)(st->patches + (size_t)i * (size_t)(n * row), x + (size_t)i * vt_config_pixels(c),
                                  c->mean, c->std, c->image, c->image, c->patch);
    VT_R(vt_linear_forward)(tokens, NULL, st->patches, VT_R(vt_linear_bound)(s, VT_CONVIT_EMBED_W), b * n);
    for (int i = 0; i < b; i++)
        if (s->w[VT_CONVIT_POS])
            VT_R(vt_add_to)(tokens + (size_t)i * (size_t)(n * d), s->w[VT_CONVIT_POS], (size_t)(n * d));
}

/* [b, N, D] -> [b, 1 + N, D] in place, from the last image on: the class token in front. */
static void insert_class_token(VT_R(vt_session) *s, real *tokens, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)vt_convit_patches(&s->model->config) * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = (size_t)b; i-- > 0;) {
        real *to = tokens + i * (d + body);
        memmove(to + d, tokens + i * body, body * sizeof(real));
        memcpy(to, s->w[VT_CONVIT_CLS], d * sizeof(real));
    }
}

/* The gradient's way back. */
static void class_token_backward(VT_R(vt_session) *s, real *dtokens, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)vt_convit_patches(&s->model->config) * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++) {
        const real *from = dtokens + i * (d + body);
        if (s->dw[VT_CONVIT_CLS]) VT_R(vt_add_to)(s->dw[VT_CONVIT_CLS], from, d);
        memmove(dtokens + i * body, from + d, body * sizeof(real));
    }
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed_patches(s, cache_of(st, c, 0, keep)->x, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, b);
        VT_R(vt_block_cache) *k = cache_of(st, c, i, keep);
        if (i == c->local_blocks) insert_class_token(s, k->x, b);
        real *out = i == c->depth - 1 ? st->last : cache_of(st, c, i + 1, keep)->x;
        VT_R(vt_block_forward)(s, out, k, &st->scratch, &sh);
    }
    VT_R(vt_session_bind)(s, 1 + c->depth);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_CONVIT_NORM, c->final_norm, c->ln_eps);
    VT_R(vt_norm_forward)(st->normed, st->stat, st->last, norm, b, c->dim);
    VT_R(vt_head_forward)(s->logits, st->normed, VT_R(vt_linear_bound)(s, VT_CONVIT_HEAD_W), b, 1);
}

static void embed_backward(VT_R(vt_session) *s, real *dx, const real *dtokens) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, n = vt_convit_patches(c), d = c->dim, row = 3 * c->patch * c->patch;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; s->dw[VT_CONVIT_POS] && i < b; i++)
        VT_R(vt_add_to)(s->dw[VT_CONVIT_POS], dtokens + (size_t)i * (size_t)(n * d), (size_t)(n * d));
    VT_R(vt_linear_backward)(dx ? st->dpatches : NULL, NULL, dtokens, st->patches,
                             VT_R(vt_linear_bound)(s, VT_CONVIT_EMBED_W), b * n);
    for (int i = 0; dx && i < b; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * vt_config_pixels(c), st->dpatches + (size_t)i * (size_t)(n * row),
                                   c->std, c->image, c->image, c->patch);
}

/* dlogits -> the gradient of the last block's output, which it returns */
static real *head_backward(VT_R(vt_session) *s, const real *dlogits) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, d = c->dim;
    VT_R(vt_session_bind)(s, 1 + c->depth);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_CONVIT_NORM, c->final_norm, c->ln_eps);
    VT_R(vt_head_backward)(st->dnormed, dlogits, st->normed, VT_R(vt_linear_bound)(s, VT_CONVIT_HEAD_W), 1, b, 1);
    real *dy = st->dnormed;
    VT_R(vt_norm_backward)(dy, NULL, dy, st->last, st->stat, norm, b, d);
    return dy;
}

/* Nothing comes from above block `top`: zeros where its backward reads. */
static real *no_gradient(VT_R(vt_session) *s, int top) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    bool last = top == c->depth - 1;
    real *dy = last ? st->dnormed : st->stream;
    memset(dy, 0, (size_t)(s->batch * (last ? 1 : vt_convit_patches(c) + 1) * c->dim) * sizeof(real));
    return dy;
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, top = dlogits ? c->depth - 1 : s->inject_last;
    real *dy = dlogits ? head_backward(s, dlogits) : no_gradient(s, top);
    for (int i = top; i >= 0; i--, dy = st->stream) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, b);
        VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[i], &st->scratch, &sh);
        if (i == c->local_blocks) class_token_backward(s, st->stream, b);
    }
    embed_backward(s, dx, st->stream);
}

/* The class token stands in front once it has joined. */
static void view(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, block, s->batch);
    VT_R(vt_block_view)(s, v, &st->blocks[block], &st->scratch, &sh);
    v->prefix = block >= c->local_blocks;
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_convit) = {
    .name = "convit",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .view = view,
};
