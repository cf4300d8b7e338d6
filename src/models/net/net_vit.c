/* SPDX-License-Identifier: MIT */
/* What a ViT (models/arch_vit.c) computes, and a ConViT (models/arch_convit.c): a ViT whose first local_blocks blocks
 * see the patches alone, with gated positional attention; behind them the class token joins. */
#include <math.h>
#include <string.h>
#include "models/net/patch_rows.h"
#include "models/net/readout.h"
#include "nn/nn.h"

/* What a ConViT's local blocks share, sh->own of each: the positional attention depends on no image and is cheap, so
 * that each pass makes it once for each block and none keeps it. */
typedef struct positional {
    int side;           /* of the square of tokens */
    real *pos, *dpos;   /* [heads, t, ldp]; dpos only for parameter gradients */
    real *line;         /* [2, side, side] */
    real *gate, *dgate; /* [heads] */
} positional;

typedef struct state {
    VT_R(vt_block_shape) shape; /* of every block; b, layer, index and n_read are set for each */
    positional local;           /* of a ConViT */
    VT_R(vt_patch_rows) rows;
    real *places;         /* [N, D] computed positions, or NULL */
    real *pre, *pre_stat; /* [b*T, D] input of norm_pre, [b*T, 2] */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    VT_R(vt_positions) positions; /* of pos_grid */
    VT_R(vt_readout) end;
    real *stream; /* [b*T, D] gradient */
} state;

/* ---- gated positional self-attention (d'Ascoli et al. 2021, section 3), a block's token mixer ----
 *
 *   A = (1 - g) P + g pos, rows divided by their sum;  o = A (x W_V^T);  g = sigmoid(gating_param), one for each head
 *   pos = softmax_j(w_x dx + w_y dy + w_r (dx^2 + dy^2) + b),  (dx, dy) = (column, row) of key less those of query
 *
 * P is the attention variant's. Tokens are a square of patches without a class token. */

/* Takes the memory of the positional maps. */
static void plan_positional(positional *g, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    size_t map = VT_R(vt_attn_p_len)(&sh->attn), side = (size_t)g->side, heads = (size_t)sh->attn.heads;
    g->pos = VT_R(vt_reals)(a, map);
    g->dpos = VT_R(vt_reals)(a, mode == VT_GRAD_PARAMS ? map : 0);
    g->line = VT_R(vt_reals)(a, 2 * side * side);
    g->gate = VT_R(vt_reals)(a, heads), g->dgate = VT_R(vt_reals)(a, heads);
}

/* Takes the memory of gated positional attention. */
static void plan_gated(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    VT_R(vt_block_shape) in = *sh;
    in.attn.pos = &(real){0}; /* that there will be one makes `saved` longer */
    VT_R(vt_mha).plan(k, &in, mode, a);
}

/* p [side, side]: softmax_j(w (j - i) + wr (j - i)^2). What is under 2^-63 is under the rounding of a row's sum, in
 * double too; as a zero it keeps products of two such numbers from being denormal, which are slow. */
static void axis_softmax(real *p, real w, real wr, int side) {
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) p[i * side + j] = w * (real)(j - i) + wr * (real)((j - i) * (j - i));
    VT_R(vt_softmax_forward)(p, p, 1, side, side, side);
    for (int i = 0; i < side * side; i++)
        if (p[i] < (real)0x1p-63) p[i] = 0;
}

/* pos [t, ldp] of a head with weights w[3]; line [2, side, side]: scratch. The scores are a sum of a term in dx and one
 * in dy: their softmax is a product of two of `side` keys each; no softmax sees the bias, which moves whole rows. */
static void positional_attention(real *pos, real *line, const real *w, int side, int ldp) {
    real *px = line, *py = line + side * side;
    axis_softmax(px, w[0], w[2], side);
    axis_softmax(py, w[1], w[2], side);
    for (int i = 0; i < side * side; i++) {
        const real *x = px + i % side * side, *y = py + i / side * side;
        real *row = pos + (size_t)i * (size_t)ldp;
        for (int r = 0; r < side; r++)
            for (int c = 0; c < side; c++) row[r * side + c] = y[r] * x[c];
    }
}

/* dw [3] accumulates. s = w_x dx + w_y dy + w_r (dx^2 + dy^2) + b:  ds = pos (dpos - <pos, dpos>),  dw = sums of ds
 * times dx, dy, dx^2 + dy^2;  the rows of ds sum to zero, so that db = 0 */
static void positional_attention_backward(real *dw, const real *dpos, const real *pos, int side, int ldp) {
    for (int i = 0; i < side * side; i++, dpos += ldp, pos += ldp) {
        real inner = VT_R(vt_row_dot)(pos, dpos, side * side), sum[3] = {0};
        for (int r = 0; r < side; r++) {
            real dy = (real)(r - i / side), row[3] = {0}; /* sums of ds, ds dx, ds dx^2 */
            for (int c = 0; c < side; c++) {
                real dx = (real)(c - i % side), ds = pos[r * side + c] * (dpos[r * side + c] - inner);
                row[0] += ds, row[1] += ds * dx, row[2] += ds * dx * dx;
            }
            sum[0] += row[1], sum[1] += dy * row[0], sum[2] += row[2] + dy * dy * row[0];
        }
        for (int k = 0; k < 3; k++) dw[k] += sum[k];
    }
}

/* Returns the shape with which vt_mha is called: with positional attention and gates of the bound layer, which it
 * computes in sh->own. */
static VT_R(vt_block_shape) gated_shape(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    const positional *g = sh->own;
    VT_R(vt_block_shape) in = *sh;
    const int ldp = vt_attn_ldp(in.attn.t);
    for (int h = 0; h < in.attn.heads; h++) {
        positional_attention(g->pos + (size_t)(h * in.attn.t) * (size_t)ldp, g->line, s->w[VT_SLOT_POS_W] + 3 * h,
                             g->side, ldp);
        g->gate[h] = (real)(1 / (1 + exp(-(double)s->w[VT_SLOT_GATING][h])));
    }
    in.attn.pos = g->pos, in.attn.gate = g->gate;
    return in;
}

/* Computes ConViT's attention: content and positions, mixed by a gate (vt_token_mixer). */
static void gated_forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                          const real *x, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_block_shape) in = gated_shape(s, sh);
    VT_R(vt_mha).forward(s, o, k, t, x, &in);
}

/* Adds to the gradients of the gates' and the positions' parameters from g's dgate and dpos: g = sigmoid(u):  du = g (1
 * - g) dg */
static void gates_backward(const VT_R(vt_session) *s, const positional *g, const VT_R(vt_attn_shape) *attn) {
    const int ldp = vt_attn_ldp(attn->t);
    for (int h = 0; h < attn->heads; h++) {
        size_t at = (size_t)(h * attn->t) * (size_t)ldp;
        s->dw[VT_SLOT_GATING][h] += g->gate[h] * (1 - g->gate[h]) * g->dgate[h];
        positional_attention_backward(s->dw[VT_SLOT_POS_W] + 3 * h, g->dpos + at, g->pos + at, g->side, ldp);
    }
}

/* Computes dx of gated attention and adds the gradients of its parameters (vt_token_mixer). */
static void gated_backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                           const real *d_o, const real *x, const VT_R(vt_block_shape) *sh) {
    const positional *g = sh->own;
    VT_R(vt_block_shape) in = gated_shape(s, sh);
    if (s->grad) {
        in.attn.dpos = g->dpos, in.attn.dgate = g->dgate;
        memset(g->dpos, 0, VT_R(vt_attn_p_len)(&sh->attn) * sizeof(real));
        memset(g->dgate, 0, (size_t)sh->attn.heads * sizeof(real));
    }
    VT_R(vt_mha).backward(s, dx, k, t, d_o, x, &in);
    if (s->grad) gates_backward(s, g, &sh->attn);
}

static const VT_R(vt_token_mixer) gated = {.plan = plan_gated, .forward = gated_forward, .backward = gated_backward};

/* ---- blocks ---- */

/* Returns the shape of block i for b images. */
static VT_R(vt_block_shape) block_of(const state *st, const vt_config *c, int i, int b) {
    VT_R(vt_block_shape) sh = st->shape;
    sh.attn.b = b, sh.layer = 1 + i, sh.index = i, sh.n_read = i == c->depth - 1 ? vt_readout_tokens(c) : 0;
    if (i >= c->local_blocks) return sh;
    sh.attn.t = vt_rows_count(c), sh.mixer = &gated, sh.own = &st->local;
    sh.qk_slot = VT_SLOT_QK_W, sh.v_slot = VT_SLOT_V_W;
    return sh;
}

/* What a block keeps, or, when nothing is kept, what all blocks of its kind write over. */
static VT_R(vt_block_cache) *cache_of(const state *st, const vt_config *c, int i, bool keep) {
    return &st->blocks[keep ? i : i < c->local_blocks ? 0 : c->local_blocks];
}

/* Takes the memory of all blocks. */
static void plan_blocks(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, (size_t)c->depth, sizeof *blocks), measured;
    VT_R(vt_block_sizes) room = {0};
    st->blocks = blocks, st->local.side = vt_config_side(c);
    for (int i = 0; i < c->depth; i++) {
        const VT_R(vt_block_shape) sh = block_of(st, c, i, s->capacity);
        const bool again = s->mode == VT_GRAD_NONE && i != 0 && i != c->local_blocks;
        VT_R(vt_block_measure)(&room, &sh);
        if (!again) VT_R(vt_block_plan)(blocks ? &blocks[i] : &measured, &sh, s->mode, a);
        if (!i && c->local_blocks) plan_positional(&st->local, &sh, s->mode, a);
    }
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
}

/* Takes the memory of the whole network from the arena. */
static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t d = (size_t)c->dim, m = (size_t)s->capacity * (size_t)vt_config_tokens(c);
    VT_R(vt_rows_plan)(s, &st->rows, c->patch_norm & VT_PATCH_NORM_OUT ? VT_NORM_LAYER : VT_NORM_NONE, a);
    if (c->positions >= VT_POSITIONS_SINCOS) st->places = VT_R(vt_reals)(a, (size_t)vt_rows_count(c) * d);
    if (st->places) VT_R(vt_sincos)(st->places, c->positions, vt_config_side(c), c->dim);
    st->stream = VT_R(vt_reals)(a, s->mode == VT_GRAD_NONE ? 0 : m * d);
    st->pre = VT_R(vt_reals)(a, c->norm_pre ? m * d : 0);
    st->pre_stat = VT_R(vt_reals)(a, c->norm_pre ? 2 * m : 0);
    if (c->pos_grid) VT_R(vt_positions_plan)(&st->positions, c, a);
    VT_R(vt_readout_plan)(s, &st->end, 1 + c->depth, vt_config_tokens(c), c->dim, a);
    st->shape = VT_R(vt_block_of)(s);
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

/* Undoes join_prefix on a gradient: dtokens [b, T, D] -> [b, N, D] in place; adds what the tokens in front had to their
 * gradients and those of their positions. */
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

/* Writes the tokens [b, tokens, dim] of b images: patches, positions and other tokens. */
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

/* Computes the logits of b images x; keep: stores what backward reads. */
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

/* Computes dx (NULL: not wanted) of the embedding and adds the gradients of its parameters; dtokens is overwritten. */
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

/* Returns the output gradient that block `top` reads in its backward, set to zero: no loss lies above it. */
static real *no_gradient(VT_R(vt_session) *s, int top) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int n_read = top == c->depth - 1 ? vt_readout_tokens(c) : 0;
    real *dy = n_read ? st->end.dnormed : st->stream;
    memset(dy, 0, (size_t)(s->batch * (n_read ? n_read : vt_config_tokens(c)) * c->dim) * sizeof(real));
    return dy;
}

/* Computes dx (NULL: not wanted) from dlogits and adds the gradients of the parameters. */
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

/* Shows the attention of a block of the last kept forward. */
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
