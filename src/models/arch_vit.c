/* SPDX-License-Identifier: MIT */
/* Vision Transformer and DeiT (Dosovitskiy et al. 2021; Touvron et al. 2021), timm's tensor names and conventions:
 * class token, optional distillation and register tokens, patches (or the pixels of a convolutional stem's last map);
 * learned positions of all tokens or of the patches alone; blocks of any form (block.h); and either norm -> head on the
 * class token (distilled: the mean of head and head_dist, as timm evaluates) or a mean over tokens, before the norm
 * (fc_norm, timm's global_pool='avg') or after it (norm). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/detect.h"
#include "models/patch_rows.h"
#include "models/positions.h"
#include "models/readout.h"
#include "models/sincos.h"
#include "nn/nn.h"

/* layer 0, behind what patch_rows has there */
enum { CLS = VT_ROWS_SLOTS, DIST, REG, POS, NORM_PRE };

typedef struct state {
    VT_R(vt_block_shape) shape;      /* of every block; b, layer, index and tail are set for each */
    VT_R(vt_patch_rows) rows;        /* image -> embed [b*N, D] */
    real *places;                    /* [N, D] computed positions, or NULL */
    real *pre, *pre_mean, *pre_rstd; /* [b*T, D] input of norm_pre, [b*T] */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    VT_R(vt_positions) positions; /* of pos_grid */
    VT_R(vt_readout) end;
    real *stream; /* [b*T, D] gradient */
} state;

static void params(vt_param_list *l, const vt_config *c) {
    int64_t d = c->dim, grid = vt_config_grid(c), placed = grid * grid + vt_config_placed(c);
    if (!c->no_cls) vt_param_add(l, 0, CLS, false, VT_INIT_TINY, "cls_token", (int64_t[4]){1, 1, d});
    if (c->dist_token) vt_param_add(l, 0, DIST, false, VT_INIT_TRUNC02, "dist_token", (int64_t[4]){1, 1, d});
    if (c->registers) vt_param_add(l, 0, REG, false, VT_INIT_TINY, "reg_token", (int64_t[4]){1, c->registers, d});
    if (c->positions == VT_POSITIONS_LEARNED)
        vt_param_add(l, 0, POS, false, VT_INIT_TRUNC02, "pos_embed", (int64_t[4]){1, placed, d});
    vt_rows_params(l, c);
    if (c->norm_pre) vt_param_add_norm(l, 0, NORM_PRE, c->norm, "norm_pre", c->dim);
    VT_R(vt_block_shape) sh = VT_R(vt_block_of)(c);
    for (int i = 0; i < c->depth; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d.", i);
        sh.layer = 1 + i;
        VT_R(vt_block_params)(l, &sh, prefix);
    }
    vt_readout_params(l, c);
}

static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    VT_TRY(vt_sincos_check(c, p, e));
    VT_TRY(vt_readout_check(c, p, e));
    if (c->no_embed_reg && (c->no_embed_class || !c->registers))
        return vt_fail(e, VT_E_SHAPE, "%s: no_embed_reg is said of a model %s", p,
                       c->registers ? "without positions but the patches'" : "without register tokens");
    if (c->dist_token && c->registers)
        return vt_fail(e, VT_E_SHAPE, "%s: a distillation token and register tokens exclude each other", p);
    if (c->registers < 0 || c->registers > 1024)
        return vt_fail(e, VT_E_RANGE, "%s: register tokens are %d, must be between 0 and 1024", p, c->registers);
    if (c->norm_pre && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: norm_pre and blocks without a norm exclude each other", p);
    if (c->post_norm && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: post_norm and blocks without a norm exclude each other", p);
    if (c->qk_norm && c->tied_qk)
        return vt_fail(e, VT_E_SHAPE, "%s: q/k norm and W_Q = W_K exclude each other (two norms would untie them)", p);
    return c->conv_stem ? vt_conv_stem_check(c, p, e) : VT_OK;
}

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
        st->pre_mean = vt_arena_take(a, m, sizeof(real)), st->pre_rstd = vt_arena_take(a, m, sizeof(real));
    }
    if (c->pos_grid) VT_R(vt_positions_plan)(&st->positions, c, a);
    VT_R(vt_readout_plan)(s, &st->end, a);
    st->shape = VT_R(vt_block_of)(c);
    VT_R(vt_block_shape) sh = block_of(st, c, 0, s->capacity);
    VT_R(vt_block_room) room = {0};
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
    const real *from[3] = {s->w[CLS], s->w[DIST], s->w[REG]}, *pos = s->w[POS];
    const int rows[3] = {1, 1, c->registers}, placed = vt_config_placed(c) * c->dim;
    for (int k = 0, at = 0; k < 3; k++)
        for (int j = 0; from[k] && j < rows[k] * c->dim; j++, at++)
            out[at] = at < placed ? from[k][j] + pos[at] : from[k][j];
}

static void embed(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int t = vt_config_tokens(c), d = c->dim;
    size_t skip = (size_t)(vt_config_prefix(c) * d), body = (size_t)(t * d) - skip;
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_rows_forward)(s, &st->rows, x, b);
    const real *pos = s->w[POS] ? s->w[POS] + vt_config_placed(c) * d : st->places;
    if (c->pos_grid) pos = VT_R(vt_positions_forward)(&st->positions, pos, c);
    real *to = c->norm_pre ? st->pre : tokens;
    for (int i = 0; i < b; i++) {
        real *out = to + (size_t)i * (size_t)(t * d);
        put_prefix(s, out, c);
        const real *from = st->rows.embed + (size_t)i * body;
        for (size_t j = 0; j < body; j++) out[skip + j] = pos ? from[j] + pos[j] : from[j];
    }
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM_PRE, c->norm, c->ln_eps);
    if (c->norm_pre) VT_R(vt_norm_forward)(tokens, st->pre_mean, st->pre_rstd, st->pre, &norm, b * t, d);
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed(s, st->blocks[0].x, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(st, c, i, b);
        real *out = i == c->depth - 1 ? st->end.last : st->blocks[keep ? i + 1 : 0].x;
        VT_R(vt_block_forward)(s, out, &st->blocks[keep ? i : 0], &st->scratch, &sh);
        VT_R(vt_readout_keep)(s, &st->end, out, i, b);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

static void prefix_backward(VT_R(vt_session) *s, const real *g, int d, int registers) {
    real *const to[3] = {s->dw[CLS], s->dw[DIST], s->dw[REG]};
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
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM_PRE, c->norm, c->ln_eps);
    if (c->norm_pre)
        VT_R(vt_norm_backward)(dtokens, s->dw[NORM_PRE + VT_NORM_W], s->dw[NORM_PRE + VT_NORM_B], NULL, dtokens,
                               st->pre, st->pre_mean, st->pre_rstd, &norm, b * t, d);
    real *dpos = c->pos_grid ? st->positions.rows : s->dw[POS] ? s->dw[POS] + placed : NULL;
    if (c->pos_grid) memset(dpos, 0, (size_t)(n * d) * sizeof(real));
    for (int i = 0; i < b; i++) {
        const real *g = dtokens + (size_t)i * (size_t)(t * d);
        prefix_backward(s, g, d, c->registers);
        if (s->dw[POS]) VT_R(vt_add_to)(s->dw[POS], g, (size_t)placed);
        if (s->dw[POS]) VT_R(vt_add_to)(dpos, g + skip, (size_t)(n * d));
        memcpy(st->rows.embed + (size_t)i * (size_t)(n * d), g + skip, (size_t)(n * d) * sizeof(real));
    }
    if (c->pos_grid && s->dw[POS]) VT_R(vt_positions_backward)(s->dw[POS] + placed, &st->positions, c);
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
    int b = s->batch, top = dlogits ? c->depth - 1 : s->pull_last;
    real *dy = dlogits ? VT_R(vt_readout_backward)(s, &st->end, dlogits) : no_gradient(s, top);
    for (int i = top; i >= 0; i--, dy = st->stream) {
        VT_R(vt_block_shape) sh = block_of(st, c, i, b);
        if (dlogits && i < top) VT_R(vt_readout_add)(s, &st->end, dy, i);
        VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[i], &st->scratch, &sh);
    }
    embed_backward(s, dx, st->stream);
}

static void view(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v) {
    const state *st = s->state;
    const VT_R(vt_block_shape) sh = block_of(st, &s->model->config, block, s->batch);
    VT_R(vt_block_view)(v, &st->blocks[block], &sh);
    v->prefix = vt_config_prefix(&s->model->config);
}

/* Matrix products that are really executed: the last block's output projection and MLP run on the tokens that the
 * head reads alone. Backward to the input repeats every product once, attention twice. */
static void flops(const vt_config *c, double *forward, double *gradient) {
    double t = vt_config_tokens(c), d = c->dim, a = vt_config_attn_dim(c), proj = c->proj == VT_PROJ_NONE ? 0 : a * d;
    double embed = vt_rows_products(c), rows = vt_readout_tail(c) ? vt_readout_tail(c) : t;
    double linear = 0, mix = c->depth * 2 * t * t * a;
    for (int i = 0; i < c->depth; i++)
        linear += t * (c->tied_qk ? 2 : 3) * a * d + (i == c->depth - 1 ? rows : t) * (proj + 2 * d * c->hidden);
    *forward = 2 * (embed + linear + mix);
    *gradient = 2 * (2 * embed + 2 * linear + 3 * mix);
}

/* ---- detection ---- */

/* ConViT has the same embedding; its gate tells. Without stored positions it is a ViT if blocks have no other kind of
 * them (BEiT's tables). */
static bool probe(const vt_st *st) {
    if (!vt_st_find(st, "patch_embed.proj.weight") && !vt_conv_stem_probe(st)) return false;
    if (vt_detect_any(st, "blocks.", ".attn.gating_param")) return false;
    return vt_st_find(st, "pos_embed") ||
           (vt_st_find(st, "blocks.0.attn.qkv.weight") && !vt_detect_any(st, "", "relative_position_bias_table"));
}

/* Side of a square grid of n tokens, 0: no square. */
static int64_t side_of(int64_t n) {
    int64_t side = (int64_t)llround(sqrt((double)(n > 0 ? n : 0)));
    return side * side == n ? side : 0;
}

/* The tokens before the patches. */
static vt_status detect_prefix(const vt_st *st, vt_config *c, vt_err *e) {
    const vt_tensor *reg = NULL;
    if (vt_st_find(st, "reg_token")) VT_TRY(vt_detect_need(st, "reg_token", 3, &reg, e));
    c->registers = reg ? (int)reg->shape[1] : 0;
    c->dist_token = vt_st_find(st, "dist_token") != NULL;
    return VT_OK;
}

/* Image side, class token and which tokens have a position: rows of pos_embed less the tokens before the patches make a
 * square, or with register tokens (DINOv2), or rows themselves do (timm's no_embed_class). Where two hold (5 of 9), the
 * file's metadata say. */
static vt_status detect_tokens(const vt_st *st, vt_config *c, const vt_tensor *pos, vt_err *e) {
    c->no_cls = !vt_st_find(st, "cls_token") && !c->dist_token && side_of(pos->shape[1] - c->registers) > 0;
    int64_t all = side_of(pos->shape[1]), less = side_of(pos->shape[1] - vt_config_prefix(c));
    const char *says = vt_st_meta(st, "no_embed_class");
    int64_t bare = c->registers ? side_of(pos->shape[1] - vt_config_prefix(c) + c->registers) : 0;
    c->no_embed_class =
        vt_config_prefix(c) > 0 && all > 0 && ((less == 0 && bare == 0) || (says && !strcmp(says, "1")));
    says = vt_st_meta(st, "no_embed_reg");
    c->no_embed_reg = !c->no_embed_class && bare > 0 && (less == 0 || (says && !strcmp(says, "1")));
    int64_t side = c->no_embed_class ? all : c->no_embed_reg ? bare : less;
    if (side < 1)
        return vt_fail(e, VT_E_SHAPE,
                       "%s: pos_embed has %lld positions: less %d for the class%s that is not a square of patches",
                       vt_st_path(st), (long long)pos->shape[1], vt_config_prefix(c),
                       c->dist_token  ? " and distillation tokens"
                       : c->registers ? " and register tokens"
                                      : " token");
    if (side * c->patch > 4096)
        return vt_fail(e, VT_E_RANGE, "%s: image side is %lld pixels by pos_embed, must be at most 4096",
                       vt_st_path(st), (long long)side * c->patch);
    c->image = (int)side * c->patch;
    return VT_OK;
}

/* Norms and factors. That a mean is over all tokens, or that a final norm before the head is followed by one, no tensor
 * says: models/resolve may change the pool. */
static void detect_forms(const vt_st *st, vt_config *c, vt_source src) {
    bool after = vt_detect_norm(st, "fc_norm", "") != VT_NORM_NONE;
    c->norm = vt_detect_norm(st, "blocks.", ".norm1");
    c->final_norm = vt_detect_norm(st, after ? "fc_norm" : "norm", "");
    c->pool = after || c->no_cls ? VT_POOL_AVG : VT_POOL_TOKEN;
    c->norm_first = !after && c->final_norm != VT_NORM_NONE;
    c->norm_pre = vt_detect_any(st, "norm_pre.", "");
    c->patch_norm = (vt_detect_any(st, "patch_embed.norm_in.", "") ? VT_PATCH_NORM_IN : 0) |
                    (vt_detect_any(st, "patch_embed.norm.", "") ? VT_PATCH_NORM_OUT : 0);
    c->no_patch_bias = c->norm_pre && !vt_st_find(st, "patch_embed.proj.bias");
    c->qk_norm = vt_detect_any(st, "blocks.", ".attn.q_norm.weight");
    c->factor = vt_detect_any(st, "blocks.", ".ls1.gamma") ? VT_FACTOR_LAYER_SCALE
                : vt_detect_any(st, "blocks.", ".alpha1")  ? VT_FACTOR_ALPHA
                                                           : VT_FACTOR_NONE;
    static const vt_field told[] = {VT_FIELD_ARCH,          VT_FIELD_IMAGE,      VT_FIELD_PATCH,
                                    VT_FIELD_DIM,           VT_FIELD_DEPTH,      VT_FIELD_HIDDEN,
                                    VT_FIELD_CLASSES,       VT_FIELD_QKV_BIAS,   VT_FIELD_DIST,
                                    VT_FIELD_POOL,          VT_FIELD_NO_CLS,     VT_FIELD_NORM_PRE,
                                    VT_FIELD_NO_PATCH_BIAS, VT_FIELD_FACTOR,     VT_FIELD_NO_EMBED_CLASS,
                                    VT_FIELD_TIED_QK,       VT_FIELD_QK_NORM,    VT_FIELD_NORM_FIRST,
                                    VT_FIELD_REGISTERS,     VT_FIELD_CONV_STEM,  VT_FIELD_NO_EMBED_REG,
                                    VT_FIELD_HEAD_LAYERS,   VT_FIELD_PATCH_NORM, VT_FIELD_ATTN_DIM,
                                    VT_FIELD_PROJ};
    vt_detect_told(src, told, sizeof told / sizeof *told);
    if (c->norm != VT_NORM_LAYER) vt_detect_told(src, &(vt_field){VT_FIELD_NORM}, 1); /* or CenterNorm */
    if (c->final_norm != VT_NORM_LAYER) vt_detect_told(src, &(vt_field){VT_FIELD_FINAL_NORM}, 1);
}

/* A convolution over patches. */
static vt_status detect_patches(const vt_st *st, vt_config *c, vt_err *e) {
    const vt_tensor *w = NULL;
    char shape[96];
    VT_TRY(vt_detect_need(st, "patch_embed.proj.weight", 4, &w, e));
    vt_shape_text(shape, sizeof shape, w->shape, w->ndim);
    if (w->shape[1] != 3 || w->shape[2] != w->shape[3])
        return vt_fail(e, VT_E_SHAPE, "%s: tensor patch_embed.proj.weight has shape %s, must be [dim,3,patch,patch]",
                       vt_st_path(st), shape);
    c->dim = (int)w->shape[0], c->patch = (int)w->shape[2];
    return VT_OK;
}

/* By all blocks, and by any other name behind the weight's: one tensor that is missing or misspelt is missed by name.
 */
static vt_proj detect_proj(const vt_st *st) {
    bool weight = false, other = false;
    for (int i = 0; i < vt_st_count(st); i++) {
        const char *at = strstr(vt_st_at(st, i)->name, ".attn.proj.");
        if (!at || strncmp(vt_st_at(st, i)->name, "blocks.", 7)) continue;
        *(strcmp(at, ".attn.proj.weight") ? &other : &weight) = true;
    }
    return other ? VT_PROJ_BIAS : weight ? VT_PROJ_PLAIN : VT_PROJ_NONE;
}

/* Attention's width is what its projection reads; without one it is the model's. */
static void detect_attention(const vt_st *st, vt_config *c, const vt_tensor *proj) {
    const vt_tensor *qkv = vt_st_find(st, "blocks.0.attn.qkv.weight");
    int64_t width = proj && proj->ndim == 2 && proj->shape[1] > 0 && proj->shape[1] <= 65536 ? proj->shape[1] : c->dim;
    c->attn_dim = width == c->dim ? 0 : (int)width;
    c->tied_qk = qkv && qkv->ndim == 2 && qkv->shape[0] == 2 * width;
    c->proj = detect_proj(st);
}

static vt_status detect(const vt_st *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *pos = NULL, *head = NULL, *fc1 = NULL;
    VT_TRY(vt_conv_stem_probe(st) ? vt_conv_stem_detect(st, c, e) : detect_patches(st, c, e));
    if (vt_st_find(st, "pos_embed")) VT_TRY(vt_detect_need(st, "pos_embed", 3, &pos, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    if (vt_detect_any(st, "pre_logits.", ""))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: has a representation layer (pre_logits, of in21k heads), which vitrine does not compute; "
                       "timm drops it when the classes change",
                       vt_st_path(st));
    const vt_tensor *proj = vt_st_find(st, "blocks.0.attn.proj.weight");
    c->depth = vt_detect_blocks(st, "blocks.", proj ? 6 : 4); /* of 7 tensors at least, without a projection 5 */
    c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_st_find(st, "blocks.0.attn.qkv.bias") != NULL;
    c->patch_gate = vt_st_find(st, "patch_gate") != NULL;
    detect_attention(st, c, proj);
    VT_TRY(detect_prefix(st, c, e));
    if (pos)
        VT_TRY(detect_tokens(st, c, pos, e));
    else
        c->no_cls = !vt_st_find(st, "cls_token") && !c->dist_token;
    detect_forms(st, c, src);
    vt_readout_detect(c, head->shape[1]);
    vt_detect_told(src, &(vt_field){VT_FIELD_POSITIONS}, pos != NULL);
    if (!pos) *src[VT_FIELD_IMAGE] = 0; /* models/resolve finds it, or asks */
    return VT_OK;
}

const VT_R(vt_arch_def) VT_R(vt_arch_def_vit) = {
    .name = "vit",
    .summary = "Vision Transformer and DeiT: plain or distilled, pre- or post-norm, class token or mean",
    .probe = probe,
    .detect = detect,
    .check = check,
    .params = params,
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .view = view,
};
