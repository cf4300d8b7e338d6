/* SPDX-License-Identifier: MIT */
/* What an XCiT (models/arch_xcit.c) computes; its parts are listed in xcit_parts.h. */
#include <string.h>
#include "models/net/readout.h"
#include "models/net/xcit_parts.h"
#include "nn/nn.h"

typedef struct state {
    VT_R(vt_block_shape) shape; /* as a ViT's block has it */
    int side, tokens;           /* of the grid of patches: a side, all */
    VT_R(vt_stem_state) stem;
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_lpi) *lpi;
    VT_R(vt_class_cache) *heads;
    VT_R(vt_block_scratch) scratch;
    real *taps;    /* [9, D] of a depthwise convolution */
    real *rows[2]; /* [b, D] class rows */
    real *patches; /* [b*N, D] output of the last XCA block */
    VT_R(vt_readout) end;
    real *stream; /* [b*(N+1), D] gradient */
} state;

/* What both kinds of block have in common: the branch factors have names and places of their own. */
static VT_R(vt_block_shape) common(const vt_config *c) {
    VT_R(vt_block_shape) sh = VT_R(vt_block_of)(c);
    sh.factor = VT_FACTOR_LAYER_SCALE;
    return sh;
}

static VT_R(vt_block_shape) xca_block(const VT_R(vt_block_shape) *all, int tokens, int i, int b) {
    VT_R(vt_block_shape) sh = *all;
    sh.attn.b = b, sh.attn.t = tokens, sh.layer = 1 + i, sh.index = i;
    sh.mixer = &VT_R(vt_xca), sh.tied_qk = false, sh.needs = 0;
    return sh;
}

static VT_R(vt_class_shape) class_block(const VT_R(vt_block_shape) *all, const vt_config *c, int tokens, int i, int b) {
    VT_R(vt_class_shape) sh = {.block = *all, .tokens_norm = c->tokens_norm, .last = i == c->class_blocks - 1};
    sh.block.attn.b = b, sh.block.attn.t = 1 + tokens, sh.block.attn.tq = 1;
    sh.block.layer = 1 + c->depth + i, sh.block.index = c->depth + i;
    return sh;
}

/* ---- memory ---- */

static void plan_blocks(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const bool one = s->mode == VT_GRAD_NONE; /* forward only: one set of each kind serves all */
    size_t depth = one ? 1 : (size_t)c->depth, heads = one ? 1 : (size_t)c->class_blocks;
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, depth, sizeof *blocks), k;
    VT_R(vt_lpi) *lpi = vt_arena_take(a, depth, sizeof *lpi), p;
    VT_R(vt_class_cache) *classes = vt_arena_take(a, heads, sizeof *classes), h;
    VT_R(vt_block_shape) sh = xca_block(&st->shape, st->tokens, 0, s->capacity);
    st->blocks = blocks, st->lpi = lpi, st->heads = classes;
    for (size_t i = 0; i < depth; i++) {
        VT_R(vt_block_plan)(blocks ? &blocks[i] : &k, &sh, s->mode, a);
        VT_R(vt_lpi_plan)(lpi ? &lpi[i] : &p, &sh, s->mode, a);
    }
    for (size_t i = 0; i < heads; i++) {
        VT_R(vt_class_shape) of = class_block(&st->shape, c, st->tokens, one ? -1 : (int)i, s->capacity);
        VT_R(vt_class_plan)(classes ? &classes[i] : &h, &of, s->mode, a);
    }
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    VT_R(vt_stem_plan)(&st->stem, c, s->capacity, s->mode, a);
    st->shape = common(c), st->shape.attn.by = s->products;
    st->side = st->stem.maps.stem.sides[st->stem.maps.stem.convs], st->tokens = st->side * st->side;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)st->tokens, head = d / (size_t)c->heads;
    VT_R(vt_block_sizes) room = {0};
    VT_R(vt_class_shape) classes = class_block(&st->shape, c, st->tokens, 0, s->capacity);
    VT_R(vt_block_measure)(&room, &classes.block); /* its sequences are the longer ones */
    size_t of_xca = head * head + 2 * head, of_class = VT_R(vt_class_score)(&classes);
    room.score = of_xca > of_class ? of_xca : of_class;
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    plan_blocks(s, a);
    st->taps = vt_arena_take(a, 9 * d, sizeof(real));
    for (int k = 0; k < 2; k++) st->rows[k] = vt_arena_take(a, b * d, sizeof(real));
    st->patches = vt_arena_take(a, b * n * d, sizeof(real));
    VT_R(vt_readout_plan)(s, &st->end, vt_xcit_last_layer(c), 1 + st->tokens, c->dim, a);
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, b * (n + 1) * d, sizeof(real));
}

/* ---- forward and backward ---- */

/* The attention half goes to the LPI's input, the LPI to the MLP half's. */
static void xca_forward(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_lpi) *p,
                        const VT_R(vt_block_shape) *sh) {
    state *st = s->state;
    VT_R(vt_block_cache) first = *k;
    first.mid = p->x;
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_attend)(s, &first, &st->scratch, sh);
    VT_R(vt_lpi_forward)(s, k->mid, p, &st->scratch, st->taps, st->side, sh);
    VT_R(vt_block_mlp)(s, y, k, &st->scratch, sh);
}

static void xca_backward(VT_R(vt_session) *s, real *dy, VT_R(vt_block_cache) *k, VT_R(vt_lpi) *p,
                         const VT_R(vt_block_shape) *sh) {
    state *st = s->state;
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_mlp_backward)(s, dy, k, &st->scratch, sh);
    VT_R(vt_lpi_backward)(s, dy, p, &st->scratch, st->taps, st->side, sh);
    VT_R(vt_block_attend_backward)(s, dy, dy, k, &st->scratch, sh);
}

/* [b, N, D] -> [b, 1 + N, D]: the class token in front. */
static void insert_class_token(VT_R(vt_session) *s, real *to, const real *patches, int n, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)n * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++, to += d + body) {
        memcpy(to, s->w[VT_STEM_CLS], d * sizeof(real));
        memcpy(to + d, patches + i * body, body * sizeof(real));
    }
}

/* The gradient's way back, in place. */
static void class_token_backward(VT_R(vt_session) *s, real *dtokens, int n, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)n * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++) {
        const real *from = dtokens + i * (d + body);
        if (s->dw[VT_STEM_CLS]) VT_R(vt_add_to)(s->dw[VT_STEM_CLS], from, d);
        memmove(dtokens + i * body, from + d, body * sizeof(real));
    }
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    VT_R(vt_stem_forward)(s, st->blocks[0].x, &st->stem, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = xca_block(&st->shape, st->tokens, i, b);
        int at = keep ? i : 0, next = keep ? i + 1 : 0;
        xca_forward(s, i == c->depth - 1 ? st->patches : st->blocks[next].x, &st->blocks[at], &st->lpi[at], &sh);
    }
    insert_class_token(s, st->heads[0].x, st->patches, st->tokens, b);
    for (int i = 0; i < c->class_blocks; i++) {
        VT_R(vt_class_shape) sh = class_block(&st->shape, c, st->tokens, i, b);
        int at = keep ? i : 0, next = keep ? i + 1 : 0;
        VT_R(vt_class_forward)(s, sh.last ? st->end.last : st->heads[next].x, &st->heads[at], &st->scratch, st->rows,
                               &sh);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int b = s->batch;
    real *dy = VT_R(vt_readout_backward)(s, &st->end, dlogits);
    for (int i = c->class_blocks - 1; i >= 0; i--, dy = st->stream) {
        VT_R(vt_class_shape) sh = class_block(&st->shape, c, st->tokens, i, b);
        VT_R(vt_class_backward)(s, st->stream, dy, &st->heads[i], &st->scratch, st->rows, &sh);
    }
    class_token_backward(s, st->stream, st->tokens, b);
    for (int i = c->depth - 1; i >= 0; i--) {
        VT_R(vt_block_shape) sh = xca_block(&st->shape, st->tokens, i, b);
        xca_backward(s, st->stream, &st->blocks[i], &st->lpi[i], &sh);
    }
    VT_R(vt_stem_backward)(s, dx, &st->stem, st->stream, b);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_xcit) = {
    .name = "xcit",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
