/* SPDX-License-Identifier: MIT */
/* What a ViT (models/arch_vit.c) computes, and a ConViT (models/arch_convit.c): a ViT whose first local_blocks blocks
 * see the patches alone, with gated positional attention (gpsa.h); behind them the class token joins. */
#include <string.h>
#include "models/net/gpsa.h"
#include "models/net/patch_rows.h"
#include "models/net/positions.h"
#include "models/net/readout.h"
#include "models/net/sincos.h"
#include "nn/nn.h"

typedef struct state {
    VT_R(vt_block_shape) shape; /* of every block; b, layer, index and tail are set for each */
    VT_R(vt_gpsa_room) gpsa;
    VT_R(vt_patch_rows) rows;
    real *places;         /* [N, D] computed positions, or NULL */
    real *pre, *pre_stat; /* [b*T, D] input of norm_pre, [b*T, 2] */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    VT_R(vt_positions) positions; /* of pos_grid */
    VT_R(vt_readout) end;
    real *stream; /* [b*T, D] gradient */
} state;

static VT_R(vt_block_shape) block_of(const state *st, const vt_config *c, int i, int b) {
    VT_R(vt_block_shape) sh = st->shape;
    sh.attn.b = b, sh.layer = 1 + i, sh.index = i, sh.tail = i == c->depth - 1 ? vt_readout_tail(c) : 0;
    if (i < c->local_blocks) sh.attn.t = vt_rows_count(c), sh.mixer = &VT_R(vt_gpsa), sh.own = &st->gpsa;
    return sh;
}

/* What a block keeps, or, when nothing is kept, what all blocks of its kind write over. */
static VT_R(vt_block_cache) *cache_of(const state *st, const vt_config *c, int i, bool keep) {
    return &st->blocks[keep ? i : i < c->local_blocks ? 0 : c->local_blocks];
}

static void plan_blocks(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, (size_t)c->depth, sizeof *blocks), measured;
    VT_R(vt_block_sizes) room = {0};
    st->blocks = blocks, st->gpsa.side = vt_config_side(c);
    for (int i = 0; i < c->depth; i++) {
        const VT_R(vt_block_shape) sh = block_of(st, c, i, s->capacity);
        const bool again = s->mode == VT_GRAD_NONE && i != 0 && i != c->local_blocks;
        VT_R(vt_block_measure)(&room, &sh);
        if (!again) VT_R(vt_block_plan)(blocks ? &blocks[i] : &measured, &sh, s->mode, a);
        if (!i && c->local_blocks) VT_R(vt_gpsa_plan_room)(&st->gpsa, &sh, s->mode, a);
    }
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t d = (size_t)c->dim, m = (size_t)s->capacity * (size_t)vt_config_tokens(c);
    VT_R(vt_rows_plan)(s, &st->rows, c->patch_norm & VT_PATCH_NORM_OUT ? VT_NORM_LAYER : VT_NORM_NONE, a);
    if (c->positions >= VT_POSITIONS_SINCOS) st->places = vt_arena_take(a, (size_t)vt_rows_count(c) * d, sizeof(real));
    if (st->places) VT_R(vt_sincos)(st->places, c->positions, vt_config_side(c), c->dim);
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, m * d, sizeof(real));
    st->pre = c->norm_pre ? vt_arena_take(a, m * d, sizeof(real)) : NULL;
    st->pre_stat = c->norm_pre ? vt_arena_take(a, 2 * m, sizeof(real)) : NULL;
    if (c->pos_grid) VT_R(vt_positions_plan)(&st->positions, c, a);
    VT_R(vt_readout_plan)(s, &st->end, 1 + c->depth, vt_config_tokens(c), c->dim, a);
    st->shape = VT_R(vt_block_of)(c), st->shape.attn.by = s->products;
    plan_blocks(s, a);
}

/* ---- the tokens before the patches ---- */

/* [b, N, D] -> [b, T, D] in place, from the last image on: class, distillation and register tokens in front, the first
 * `placed` of them with their positions. */
static void join_prefix(VT_R(vt_session) *s, real *tokens, int b) {
    const vt_config *c = &s->model->config;
    const int d = c->dim, skip = vt_config_prefix(c) * d, body = vt_rows_count(c) * d;
    VT_R(vt_session_bind)(s, 0);
    const real *from[3] = {s->w[VT_VIT_CLS], s->w[VT_VIT_DIST], s->w[VT_VIT_REG]}, *pos = s->w[VT_VIT_POS];
    const int rows[3] = {1, 1, c->registers}, placed = vt_config_placed(c) * d;
    for (int i = b - 1; i >= 0; i--) {
        real *to = tokens + i * (skip + body);
        memmove(to + skip, tokens + i * body, (size_t)body * sizeof(real));
        for (int k = 0, at = 0; k < 3; k++)
            for (int j = 0; from[k] && j < rows[k] * d; j++, at++)
                to[at] = at < placed ? from[k][j] + pos[at] : from[k][j];
    }
}

/* The gradient's way back. */
static void part_prefix(VT_R(vt_session) *s, real *dtokens) {
    const vt_config *c = &s->model->config;
    const int d = c->dim, skip = vt_config_prefix(c) * d, body = vt_rows_count(c) * d;
    VT_R(vt_session_bind)(s, 0);
    real *const to[3] = {s->dw[VT_VIT_CLS], s->dw[VT_VIT_DIST], s->dw[VT_VIT_REG]};
    const int rows[3] = {1, 1, c->registers};
    for (int i = 0; i < s->batch; i++) {
        const real *from = dtokens + i * (skip + body), *g = from;
        if (s->dw[VT_VIT_POS]) VT_R(vt_add_to)(s->dw[VT_VIT_POS], g, (size_t)(vt_config_placed(c) * d));
        for (int k = 0; k < 3; k++) {
            if (!to[k]) continue;
            VT_R(vt_add_to)(to[k], g, (size_t)(rows[k] * d));
            g += rows[k] * d;
        }
        memmove(dtokens + i * body, from + skip, (size_t)body * sizeof(real));
    }
}

/* ---- forward ---- */

static void embed_patches(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int body = vt_rows_count(c) * c->dim;
    real *to = st->pre ? st->pre : tokens;
    VT_R(vt_rows_forward)(s, to, &st->rows, x, b);
    const real *pos = s->w[VT_VIT_POS] ? s->w[VT_VIT_POS] + vt_config_placed(c) * c->dim : st->places;
    if (c->pos_grid) pos = VT_R(vt_positions_forward)(&st->positions, pos, c);
    for (int i = 0; pos && i < b; i++) VT_R(vt_add_to)(to + i * body, pos, (size_t)body);
    if (!c->local_blocks) join_prefix(s, to, b);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_VIT_NORM_PRE, c->norm, c->ln_eps);
    if (st->pre) VT_R(vt_norm_forward)(tokens, st->pre_stat, st->pre, norm, b * vt_config_tokens(c), c->dim);
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed_patches(s, cache_of(st, c, 0, keep)->x, x, b);
    for (int i = 0; i < c->depth; i++) {
        const VT_R(vt_block_shape) sh = block_of(st, c, i, b);
        VT_R(vt_block_cache) *k = cache_of(st, c, i, keep);
        real *out = i == c->depth - 1 ? st->end.last : cache_of(st, c, i + 1, keep)->x;
        if (i && i == c->local_blocks) join_prefix(s, k->x, b);
        VT_R(vt_block_forward)(s, out, k, &st->scratch, &sh);
        VT_R(vt_readout_keep)(s, &st->end, out, i, b);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

/* ---- backward ---- */

static void embed_backward(VT_R(vt_session) *s, real *dx, real *dtokens) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int body = vt_rows_count(c) * c->dim, placed = vt_config_placed(c) * c->dim;
    VT_R(vt_session_bind)(s, 0);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_VIT_NORM_PRE, c->norm, c->ln_eps);
    if (st->pre)
        VT_R(vt_norm_backward)(dtokens, NULL, dtokens, st->pre, st->pre_stat, norm, s->batch * vt_config_tokens(c),
                               c->dim);
    if (!c->local_blocks) part_prefix(s, dtokens);
    real *dstored = s->dw[VT_VIT_POS] ? s->dw[VT_VIT_POS] + placed : NULL;
    real *dpos = dstored && c->pos_grid ? st->positions.rows : dstored;
    if (dpos != dstored) memset(dpos, 0, (size_t)body * sizeof(real));
    for (int i = 0; dpos && i < s->batch; i++) VT_R(vt_add_to)(dpos, dtokens + i * body, (size_t)body);
    if (dpos != dstored) VT_R(vt_positions_backward)(dstored, &st->positions, c);
    VT_R(vt_rows_backward)(s, dx, &st->rows, dtokens);
}

/* Nothing comes from above block `top`: zeros where its backward reads. */
static real *no_gradient(VT_R(vt_session) *s, int top) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int tail = top == c->depth - 1 ? vt_readout_tail(c) : 0;
    real *dy = tail ? st->end.dnormed : st->stream;
    memset(dy, 0, (size_t)(s->batch * (tail ? tail : vt_config_tokens(c)) * c->dim) * sizeof(real));
    return dy;
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int top = dlogits ? c->depth - 1 : s->inject_last;
    real *dy = dlogits ? VT_R(vt_readout_backward)(s, &st->end, dlogits) : no_gradient(s, top);
    for (int i = top; i >= 0; i--, dy = st->stream) {
        const VT_R(vt_block_shape) sh = block_of(st, c, i, s->batch);
        if (dlogits && i < top) VT_R(vt_readout_add)(s, &st->end, dy, i);
        VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[i], &st->scratch, &sh);
        if (i && i == c->local_blocks) part_prefix(s, st->stream);
    }
    embed_backward(s, dx, st->stream);
}

static void view(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const VT_R(vt_block_shape) sh = block_of(st, c, block, s->batch);
    VT_R(vt_block_view)(s, v, &st->blocks[block], &st->scratch, &sh);
    v->prefix = block < c->local_blocks ? 0 : vt_config_prefix(c);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_vit) = {
    .name = "vit",
    .also = "convit",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .view = view,
};
