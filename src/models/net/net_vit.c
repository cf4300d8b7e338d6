/* SPDX-License-Identifier: MIT */
/* What a ViT (models/arch_vit.c) computes. */
#include <string.h>
#include "models/net/patch_rows.h"
#include "models/net/positions.h"
#include "models/net/readout.h"
#include "models/net/sincos.h"
#include "nn/nn.h"

typedef struct state {
    VT_R(vt_block_shape) shape; /* of every block; b, layer, index and tail are set for each */
    VT_R(vt_patch_rows) rows;   /* image -> embed [b*N, D] */
    real *places;               /* [N, D] computed positions, or NULL */
    real *pre, *pre_stat;       /* [b*T, D] input of norm_pre, [b*T, 2] */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    VT_R(vt_positions) positions; /* of pos_grid */
    VT_R(vt_readout) end;
    real *stream; /* [b*T, D] gradient */
} state;

static VT_R(vt_block_shape) block_of(const state *st, const vt_config *c, int i, int b) {
    VT_R(vt_block_shape) sh = st->shape;
    sh.attn.b = b, sh.layer = 1 + i, sh.index = i, sh.tail = i == c->depth - 1 ? vt_readout_tail(c) : 0;
    return sh;
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t d = (size_t)c->dim, m = (size_t)s->capacity * (size_t)vt_config_tokens(c);
    VT_R(vt_rows_plan)(s, &st->rows, a);
    if (c->positions >= VT_POSITIONS_SINCOS)
        st->places = vt_arena_take(a, (size_t)(vt_config_side(c) * vt_config_side(c)) * d, sizeof(real));
    if (st->places) VT_R(vt_sincos)(st->places, c->positions, vt_config_side(c), c->dim);
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, m * d, sizeof(real));
    if (c->norm_pre) {
        st->pre = vt_arena_take(a, m * d, sizeof(real));
        st->pre_stat = vt_arena_take(a, 2 * m, sizeof(real));
    }
    if (c->pos_grid) VT_R(vt_positions_plan)(&st->positions, c, a);
    VT_R(vt_readout_plan)(s, &st->end, a);
    st->shape = VT_R(vt_block_of)(c), st->shape.attn.by = s->products;
    VT_R(vt_block_shape) sh = block_of(st, c, c->depth - 1, s->capacity);
    VT_R(vt_block_sizes) room = {0};
    VT_R(vt_block_measure)(&room, &sh);
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    size_t depth = s->mode == VT_GRAD_NONE ? 1 : (size_t)c->depth; /* forward only: one set serves all blocks */
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, depth, sizeof *blocks), measured;
    st->blocks = blocks;
    for (size_t i = 0; i < depth; i++) VT_R(vt_block_plan)(blocks ? &blocks[i] : &measured, &sh, s->mode, a);
}

/* Tokens before the patches, one after the other: class, distillation, registers; the first `placed` of them with their
 * positions. */
static void put_prefix(VT_R(vt_session) *s, real *out, const vt_config *c) {
    const real *from[3] = {s->w[VT_VIT_CLS], s->w[VT_VIT_DIST], s->w[VT_VIT_REG]}, *pos = s->w[VT_VIT_POS];
    const int rows[3] = {1, 1, c->registers}, placed = vt_config_placed(c) * c->dim;
    for (int k = 0, at = 0; k < 3; k++)
        for (int j = 0; from[k] && j < rows[k] * c->dim; j++, at++)
            out[at] = at < placed ? from[k][j] + pos[at] : from[k][j];
}

static void embed_patches(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int t = vt_config_tokens(c), d = c->dim;
    size_t skip = (size_t)(vt_config_prefix(c) * d), body = (size_t)(t * d) - skip;
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_rows_forward)(s, &st->rows, x, b);
    const real *pos = s->w[VT_VIT_POS] ? s->w[VT_VIT_POS] + vt_config_placed(c) * d : st->places;
    if (c->pos_grid) pos = VT_R(vt_positions_forward)(&st->positions, pos, c);
    real *to = c->norm_pre ? st->pre : tokens;
    for (int i = 0; i < b; i++) {
        real *out = to + (size_t)i * (size_t)(t * d);
        put_prefix(s, out, c);
        const real *from = st->rows.embed + (size_t)i * body;
        for (size_t j = 0; j < body; j++) out[skip + j] = pos ? from[j] + pos[j] : from[j];
    }
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_VIT_NORM_PRE, c->norm, c->ln_eps);
    if (c->norm_pre) VT_R(vt_norm_forward)(tokens, st->pre_stat, st->pre, norm, b * t, d);
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed_patches(s, st->blocks[0].x, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(st, c, i, b);
        real *out = i == c->depth - 1 ? st->end.last : st->blocks[keep ? i + 1 : 0].x;
        VT_R(vt_block_forward)(s, out, &st->blocks[keep ? i : 0], &st->scratch, &sh);
        VT_R(vt_readout_keep)(s, &st->end, out, i, b);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

static void prefix_backward(VT_R(vt_session) *s, const real *g, int d, int registers) {
    real *const to[3] = {s->dw[VT_VIT_CLS], s->dw[VT_VIT_DIST], s->dw[VT_VIT_REG]};
    const int rows[3] = {1, 1, registers};
    for (int k = 0; k < 3; k++) {
        if (!to[k]) continue;
        VT_R(vt_add_to)(to[k], g, (size_t)(rows[k] * d));
        g += rows[k] * d;
    }
}

static void embed_backward(VT_R(vt_session) *s, real *dx, real *dtokens) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int side = vt_config_side(c), n = side * side, t = vt_config_tokens(c), d = c->dim;
    int b = s->batch, skip = vt_config_prefix(c) * d, placed = vt_config_placed(c) * d;
    VT_R(vt_session_bind)(s, 0);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_VIT_NORM_PRE, c->norm, c->ln_eps);
    if (c->norm_pre) VT_R(vt_norm_backward)(dtokens, NULL, dtokens, st->pre, st->pre_stat, norm, b * t, d);
    real *dpos = c->pos_grid ? st->positions.rows : s->dw[VT_VIT_POS] ? s->dw[VT_VIT_POS] + placed : NULL;
    if (c->pos_grid) memset(dpos, 0, (size_t)(n * d) * sizeof(real));
    for (int i = 0; i < b; i++) {
        const real *g = dtokens + (size_t)i * (size_t)(t * d);
        prefix_backward(s, g, d, c->registers);
        if (s->dw[VT_VIT_POS]) VT_R(vt_add_to)(s->dw[VT_VIT_POS], g, (size_t)placed);
        if (s->dw[VT_VIT_POS]) VT_R(vt_add_to)(dpos, g + skip, (size_t)(n * d));
        memcpy(st->rows.embed + (size_t)i * (size_t)(n * d), g + skip, (size_t)(n * d) * sizeof(real));
    }
    if (c->pos_grid && s->dw[VT_VIT_POS]) VT_R(vt_positions_backward)(s->dw[VT_VIT_POS] + placed, &st->positions, c);
    VT_R(vt_rows_backward)(s, &st->rows, dx, b);
}

/* Nothing comes from above block `top`: zeros where its backward reads. */
static real *no_gradient(VT_R(vt_session) *s, int top) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    bool few = top == c->depth - 1 && vt_readout_tail(c);
    real *dy = few ? st->end.dnormed : st->stream;
    memset(dy, 0, (size_t)(s->batch * (few ? vt_readout_tail(c) : vt_config_tokens(c)) * c->dim) * sizeof(real));
    return dy;
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, top = dlogits ? c->depth - 1 : s->inject_last;
    real *dy = dlogits ? VT_R(vt_readout_backward)(s, &st->end, dlogits) : no_gradient(s, top);
    for (int i = top; i >= 0; i--, dy = st->stream) {
        VT_R(vt_block_shape) sh = block_of(st, c, i, b);
        if (dlogits && i < top) VT_R(vt_readout_add)(s, &st->end, dy, i);
        VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[i], &st->scratch, &sh);
    }
    embed_backward(s, dx, st->stream);
}

static void view(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v) {
    state *st = s->state;
    const VT_R(vt_block_shape) sh = block_of(st, &s->model->config, block, s->batch);
    VT_R(vt_block_view)(s, v, &st->blocks[block], &st->scratch, &sh);
    v->prefix = vt_config_prefix(&s->model->config);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_vit) = {
    .name = "vit",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .view = view,
};
