/* SPDX-License-Identifier: MIT */
/* ConViT (d'Ascoli et al. 2021), timm's tensor names and conventions: patches with learned positions go through
 * `local_blocks` blocks of gated positional attention (gpsa.h); then the class token, which has no position, joins in
 * front, and the rest are blocks of a ViT; norm -> head on the class token. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "models/detect.h"
#include "models/gpsa.h"
#include "nn/nn.h"

/* layer 0 */
enum { EMBED_W, EMBED_B, CLS, POS };
/* layer depth + 1 */
enum { NORM, HEAD_W = NORM + VT_NORM_SLOTS, HEAD_B };

typedef struct state {
    VT_R(vt_block_shape) shape; /* of every block, as a ViT has it */
    VT_R(vt_gpsa_room) gpsa;
    real *patches;  /* [b*N, 3ps^2] normalised */
    real *dpatches; /* their gradient; shares the memory of patches unless weight gradients need both */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    real *last, *normed, *dnormed; /* [b, D] class rows after the last block, after the norm; gradient of either */
    real *mean, *rstd;             /* [b] */
    real *stream;                  /* [b*T, D] gradient */
} state;

static int patch_count(const vt_config *c) { return vt_config_side(c) * vt_config_side(c); }

/* Block i with b images. */
static VT_R(vt_block_shape) block_of(const VT_R(vt_block_shape) *all, const VT_R(vt_gpsa_room) *gpsa,
                                     const vt_config *c, int i, int b) {
    VT_R(vt_block_shape) sh = *all;
    sh.attn.b = b, sh.layer = 1 + i, sh.index = i, sh.tail = i == c->depth - 1;
    if (i < c->local_blocks) sh.attn.t = patch_count(c), sh.mixer = &VT_R(vt_gpsa), sh.own = gpsa;
    return sh;
}

static void params(vt_param_list *l, const vt_config *c) {
    int64_t d = c->dim, k = c->classes, p = c->patch;
    vt_param_add(l, 0, CLS, false, VT_INIT_TRUNC02, "cls_token", (int64_t[4]){1, 1, d});
    vt_param_add(l, 0, POS, false, VT_INIT_TRUNC02, "pos_embed", (int64_t[4]){1, patch_count(c), d});
    vt_param_add(l, 0, EMBED_W, true, VT_INIT_CONV, "patch_embed.proj.weight", (int64_t[4]){d, 3, p, p});
    vt_param_add(l, 0, EMBED_B, false, VT_INIT_CONV, "patch_embed.proj.bias", (int64_t[4]){d});
    const VT_R(vt_block_shape) all = VT_R(vt_block_of)(c);
    for (int i = 0; i < c->depth; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blocks.%d.", i);
        VT_R(vt_block_shape) sh = block_of(&all, NULL, c, i, 1);
        VT_R(vt_block_params)(l, &sh, prefix);
    }
    vt_param_add_norm(l, 1 + c->depth, NORM, c->final_norm, "norm", c->dim);
    vt_param_add(l, 1 + c->depth, HEAD_W, false, VT_INIT_LINEAR, "head.weight", (int64_t[4]){k, d});
    vt_param_add(l, 1 + c->depth, HEAD_B, false, VT_INIT_ZERO, "head.bias", (int64_t[4]){k});
}

/* timm's local_init with locality strength 1: values are the tokens, and the heads of the largest square look at the
 * tokens around their query, each at another offset. Heads beyond the square keep their random weights. */
static void init(vt_model *m, uint64_t seed) {
    (void)seed;
    const vt_config *c = &m->config;
    int kernel = (int)sqrt((double)c->heads);
    float centre = (float)(kernel - 1) / 2;
    if (kernel % 2) centre = (float)(kernel / 2);
    for (int i = 0; i < c->local_blocks; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.v.weight", i);
        float *v = m->w + vt_model_param(m, name)->offset;
        for (int r = 0; r < c->dim; r++)
            for (int k = 0; k < c->dim; k++) v[r * c->dim + k] = r == k;
        snprintf(name, sizeof name, "blocks.%d.attn.pos_proj.weight", i);
        float *w = m->w + vt_model_param(m, name)->offset;
        for (int y = 0; y < kernel; y++)
            for (int x = 0; x < kernel; x++) {
                float *head = w + 3 * (y + kernel * x);
                head[0] = 2 * ((float)x - centre), head[1] = 2 * ((float)y - centre), head[2] = -1;
            }
    }
}

static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const struct {
        bool has;
        const char *what;
    } never[] = {{c->dist_token, "distillation token"},
                 {c->registers, "register tokens"},
                 {c->no_cls, "form without class token"},
                 {c->pool != VT_POOL_TOKEN, "pooling but by the class token"},
                 {c->patch_gate, "patch gate"},
                 {c->norm_pre, "norm before the first block"},
                 {c->no_patch_bias, "patch embedding without bias"},
                 {c->qk_norm, "q/k norm"}};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (never[i].has) return vt_fail(e, VT_E_SHAPE, "%s: ConViT has no %s", p, never[i].what);
    if (c->local_blocks < 1 || c->local_blocks >= c->depth)
        return vt_fail(e, VT_E_RANGE,
                       "%s: local_blocks is %d, must be between 1 and %d: the class token joins before the last of %d "
                       "blocks at the latest",
                       p, c->local_blocks, c->depth - 1, c->depth);
    if (c->post_norm && c->norm == VT_NORM_NONE)
        return vt_fail(e, VT_E_SHAPE, "%s: post_norm and blocks without a norm exclude each other", p);
    return VT_OK;
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)patch_count(c),
           row = 3 * (size_t)(c->patch * c->patch);
    st->patches = vt_arena_take(a, b * n * row, sizeof(real));
    st->dpatches = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, b * n * row, sizeof(real)) : st->patches;
    st->last = vt_arena_take(a, b * d, sizeof(real)), st->normed = vt_arena_take(a, b * d, sizeof(real));
    s->features = st->normed, s->feature_len = s->feature_stride = c->dim;
    st->dnormed = vt_arena_take(a, b * d, sizeof(real));
    st->mean = vt_arena_take(a, b, sizeof(real)), st->rstd = vt_arena_take(a, b, sizeof(real));
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, b * (n + 1) * d, sizeof(real));
    st->shape = VT_R(vt_block_of)(c);
    st->gpsa.side = vt_config_side(c);
    VT_R(vt_block_room) room = {0};
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

static void embed(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int n = patch_count(c), d = c->dim, row = 3 * c->patch * c->patch;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_forward)(st->patches + (size_t)i * (size_t)(n * row), x + (size_t)i * vt_config_pixels(c),
                                  c->mean, c->std, c->image, c->image, c->patch);
    VT_R(vt_linear_forward)(tokens, st->patches, s->w[EMBED_W], s->wt[EMBED_W], s->w[EMBED_B], b * n, d, row);
    for (int i = 0; i < b; i++) VT_R(vt_add_to)(tokens + (size_t)i * (size_t)(n * d), s->w[POS], (size_t)(n * d));
}

/* [b, N, D] -> [b, 1 + N, D] in place, from the last image on: the class token in front. */
static void join(VT_R(vt_session) *s, real *tokens, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)patch_count(&s->model->config) * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = (size_t)b; i-- > 0;) {
        real *to = tokens + i * (d + body);
        memmove(to + d, tokens + i * body, body * sizeof(real));
        memcpy(to, s->w[CLS], d * sizeof(real));
    }
}

/* The gradient's way back. */
static void part(VT_R(vt_session) *s, real *dtokens, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)patch_count(&s->model->config) * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++) {
        const real *from = dtokens + i * (d + body);
        if (s->dw[CLS]) VT_R(vt_add_to)(s->dw[CLS], from, d);
        memmove(dtokens + i * body, from + d, body * sizeof(real));
    }
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed(s, cache_of(st, c, 0, keep)->x, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, b);
        VT_R(vt_block_cache) *k = cache_of(st, c, i, keep);
        if (i == c->local_blocks) join(s, k->x, b);
        real *out = i == c->depth - 1 ? st->last : cache_of(st, c, i + 1, keep)->x;
        VT_R(vt_block_forward)(s, out, k, &st->scratch, &sh);
    }
    VT_R(vt_session_bind)(s, 1 + c->depth);
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM, c->final_norm, c->ln_eps);
    VT_R(vt_norm_forward)(st->normed, st->mean, st->rstd, st->last, &norm, b, c->dim);
    VT_R(vt_head_forward)(s->logits, st->normed, s->w[HEAD_W], s->w[HEAD_B], b, 1, c->classes, c->dim);
}

static void embed_backward(VT_R(vt_session) *s, real *dx, const real *dtokens) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, n = patch_count(c), d = c->dim, row = 3 * c->patch * c->patch;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; s->dw[POS] && i < b; i++)
        VT_R(vt_add_to)(s->dw[POS], dtokens + (size_t)i * (size_t)(n * d), (size_t)(n * d));
    VT_R(vt_linear_backward)(NULL, s->dw[EMBED_W], s->dw[EMBED_B], dtokens, st->patches, s->w[EMBED_W], b * n, d, row);
    if (!dx) return;
    VT_R(vt_linear_backward)(st->dpatches, NULL, NULL, dtokens, NULL, s->w[EMBED_W], b * n, d, row);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * vt_config_pixels(c), st->dpatches + (size_t)i * (size_t)(n * row),
                                   c->std, c->image, c->image, c->patch);
}

/* dlogits -> the gradient of the last block's output, which it returns */
static real *head_backward(VT_R(vt_session) *s, const real *dlogits) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, d = c->dim;
    VT_R(vt_session_bind)(s, 1 + c->depth);
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM, c->final_norm, c->ln_eps);
    VT_R(vt_head_backward)(st->dnormed, s->dw[HEAD_W], s->dw[HEAD_B], dlogits, st->normed, s->w[HEAD_W], 1, b, 1,
                           c->classes, d);
    real *dy = st->dnormed;
    VT_R(vt_norm_backward)(dy, s->dw[NORM + VT_NORM_W], s->dw[NORM + VT_NORM_B], NULL, dy, st->last, st->mean, st->rstd,
                           &norm, b, d);
    return dy;
}

/* Nothing comes from above block `top`: zeros where its backward reads. */
static real *no_gradient(VT_R(vt_session) *s, int top) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    bool last = top == c->depth - 1;
    real *dy = last ? st->dnormed : st->stream;
    memset(dy, 0, (size_t)(s->batch * (last ? 1 : patch_count(c) + 1) * c->dim) * sizeof(real));
    return dy;
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, top = dlogits ? c->depth - 1 : s->pull_last;
    real *dy = dlogits ? head_backward(s, dlogits) : no_gradient(s, top);
    for (int i = top; i >= 0; i--, dy = st->stream) {
        VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, i, b);
        VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[i], &st->scratch, &sh);
        if (i == c->local_blocks) part(s, st->stream, b);
    }
    embed_backward(s, dx, st->stream);
}

/* The class token stands in front once it has joined. */
static void view(VT_R(vt_session) *s, int block, VT_R(vt_attn_view) *v) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const VT_R(vt_block_shape) sh = block_of(&st->shape, &st->gpsa, c, block, s->batch);
    VT_R(vt_block_view)(v, &st->blocks[block], &sh);
    v->prefix = block >= c->local_blocks;
}

/* Matrix products that are really executed; the last block ends with the class token alone. Backward to the input
 * repeats every product once, attention twice. */
static void flops(const vt_config *c, double *forward, double *gradient) {
    double n = patch_count(c), d = c->dim, embed = n * 3 * c->patch * c->patch * d, linear = 0, mix = 0;
    for (int i = 0; i < c->depth; i++) {
        double t = i < c->local_blocks ? n : n + 1, rows = i == c->depth - 1 ? 1 : t;
        linear += t * (c->tied_qk ? 2 : 3) * d * d + rows * (d * d + 2 * d * c->hidden);
        mix += 2 * t * t * d;
    }
    *forward = 2 * (embed + linear + mix);
    *gradient = 2 * (2 * embed + 2 * linear + 3 * mix);
}

static int tokens(const vt_config *c) { return patch_count(c); }

/* W_Q and W_K are halves of attn.qk.weight (tied: one matrix), W_V is attn.v.weight; as in a ViT once the class token
 * has joined. */
static bool matrix(const vt_model *m, int block, vt_role role, vt_matrix *out) {
    const vt_config *c = &m->config;
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.", block);
    if (block >= c->local_blocks || role > VT_ROLE_V) return vt_matrix_packed(m, name, c->heads, role, out);
    bool value = role == VT_ROLE_V, second = role == VT_ROLE_K;
    snprintf(name, sizeof name, "blocks.%d.attn.%s.weight", block, value ? "v" : "qk");
    if (!vt_matrix_part(m, name, second && !c->tied_qk, value || c->tied_qk ? 1 : 2, c->heads, out)) return false;
    out->again = second && c->tied_qk;
    return true;
}

/* ---- detection ---- */

static bool probe(const vt_st *st) {
    return vt_st_find(st, "patch_embed.proj.weight") && vt_detect_any(st, "blocks.", ".attn.gating_param");
}

/* Blocks with positional attention. timm's stand in front; others are missed by name when tensors are read. */
static int count_local(const vt_st *st, int depth) {
    int n = 0;
    for (int i = 0; i < depth; i++) {
        char name[64];
        snprintf(name, sizeof name, "blocks.%d.attn.pos_proj.weight", i);
        n += vt_st_find(st, name) != NULL;
    }
    return n;
}

static vt_status detect_image(const vt_st *st, vt_config *c, const vt_tensor *conv, vt_err *e) {
    const vt_tensor *pos = NULL;
    VT_TRY(vt_detect_need(st, "pos_embed", 3, &pos, e));
    char shape[96];
    vt_shape_text(shape, sizeof shape, conv->shape, conv->ndim);
    if (conv->shape[1] != 3 || conv->shape[2] != conv->shape[3])
        return vt_fail(e, VT_E_SHAPE, "%s: tensor patch_embed.proj.weight has shape %s, must be [dim,3,patch,patch]",
                       vt_st_path(st), shape);
    int64_t side = (int64_t)llround(sqrt((double)pos->shape[1]));
    if (side * side != pos->shape[1])
        return vt_fail(e, VT_E_SHAPE,
                       "%s: pos_embed has %lld positions, which is no square of patches (ConViT's class "
                       "token has none)",
                       vt_st_path(st), (long long)pos->shape[1]);
    c->dim = (int)conv->shape[0], c->patch = (int)conv->shape[2];
    if (side * c->patch > 4096)
        return vt_fail(e, VT_E_RANGE, "%s: image side is %lld pixels by pos_embed, must be at most 4096",
                       vt_st_path(st), (long long)side * c->patch);
    c->image = (int)side * c->patch;
    return VT_OK;
}

static vt_status detect(const vt_st *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *conv = NULL, *head = NULL, *fc1 = NULL, *gate = NULL, *qk = NULL;
    VT_TRY(vt_detect_need(st, "patch_embed.proj.weight", 4, &conv, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.gating_param", 1, &gate, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.qk.weight", 2, &qk, e));
    VT_TRY(detect_image(st, c, conv, e));
    c->depth = vt_detect_blocks(st, "blocks.", 6);
    c->local_blocks = count_local(st, c->depth);
    c->heads = (int)gate->shape[0], c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_st_find(st, "blocks.0.attn.qk.bias") != NULL;
    c->tied_qk = qk->shape[0] == c->dim;
    c->norm = vt_detect_norm(st, "blocks.", ".norm1");
    c->final_norm = vt_detect_norm(st, "norm", "");
    c->factor = vt_detect_any(st, "blocks.", ".ls1.gamma") ? VT_FACTOR_LAYER_SCALE
                : vt_detect_any(st, "blocks.", ".alpha1")  ? VT_FACTOR_ALPHA
                                                           : VT_FACTOR_NONE;
    c->ln_eps = 1e-6;
    static const vt_field told[] = {VT_FIELD_ARCH,    VT_FIELD_IMAGE,        VT_FIELD_PATCH,   VT_FIELD_DIM,
                                    VT_FIELD_DEPTH,   VT_FIELD_LOCAL_BLOCKS, VT_FIELD_HEADS,   VT_FIELD_HIDDEN,
                                    VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS,     VT_FIELD_TIED_QK, VT_FIELD_FACTOR};
    vt_detect_told(src, told, sizeof told / sizeof *told);
    if (c->norm != VT_NORM_LAYER) vt_detect_told(src, &(vt_field){VT_FIELD_NORM}, 1); /* or CenterNorm */
    if (c->final_norm != VT_NORM_LAYER) vt_detect_told(src, &(vt_field){VT_FIELD_FINAL_NORM}, 1);
    return VT_OK;
}

const VT_R(vt_arch_def) VT_R(vt_arch_def_convit) = {
    .name = "convit",
    .summary = "ConViT: gated positional attention, class token joining late",
    .probe = probe,
    .detect = detect,
    .check = check,
    .params = params,
    .init = init,
    .tokens = tokens,
    .matrix = matrix,
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .view = view,
};
