/* SPDX-License-Identifier: MIT */
/* XCiT (El-Nouby et al. 2021), timm's tensor names and conventions: a stem of convolutions, blocks that attend between
 * channels and talk to neighbours, then class-attention blocks, norm -> head on the class token. The rooms are listed
 * in xcit.h. Attention variants act where tokens are scored: in the class attention alone. */
#include <stdio.h>
#include <string.h>
#include "models/detect.h"
#include "models/xcit.h"
#include "nn/nn.h"

/* layer 1 + depth + class_blocks */
enum { NORM, HEAD_W = NORM + VT_NORM_SLOTS, HEAD_B };

typedef struct state {
    VT_R(vt_block_shape) shape; /* as a ViT's block has it */
    int side, tokens;           /* of the grid of patches: a side, all */
    VT_R(vt_stem_state) stem;
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_lpi) *lpi;
    VT_R(vt_class_cache) *heads;
    VT_R(vt_block_scratch) scratch;
    real *taps;                                  /* [9, D] of a depthwise convolution */
    real *rows[2];                               /* [b, D] class rows */
    real *patches;                               /* [b*N, D] output of the last XCA block */
    real *last, *normed, *dnormed, *mean, *rstd; /* [b, D] class rows, their norm and its gradient; [b] */
    real *stream;                                /* [b*(N+1), D] gradient */
} state;

static int last_layer(const vt_config *c) { return 1 + c->depth + c->class_blocks; }

/* What both kinds of block have in common: the branch factors have names and places of their own. */
static VT_R(vt_block_shape) common(const vt_config *c) {
    VT_R(vt_block_shape) sh = VT_R(vt_block_of)(c);
    sh.factor = VT_FACTOR_LAYER_SCALE, sh.factor_start = c->eta > 0 ? (float)c->eta : 1;
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

static void xca_params(vt_param_list *l, const VT_R(vt_block_shape) *sh, const char *prefix) {
    const int d = sh->attn.c, h = sh->hidden;
    char name[96];
    VT_R(vt_block_add)(l, sh, VT_SLOT_FACTOR1, false, VT_INIT_VALUE, prefix, "gamma1", d, 0);
    VT_R(vt_block_add)(l, sh, VT_LPI_FACTOR, false, VT_INIT_VALUE, prefix, "gamma3", d, 0);
    VT_R(vt_block_add)(l, sh, VT_SLOT_FACTOR2, false, VT_INIT_VALUE, prefix, "gamma2", d, 0);
    snprintf(name, sizeof name, "%snorm1", prefix);
    vt_param_add_norm(l, sh->layer, VT_SLOT_NORM1, sh->norm, name, d);
    VT_R(vt_xca).params(l, sh, prefix);
    VT_R(vt_block_add)(l, sh, VT_SLOT_PROJ_W, true, VT_INIT_LINEAR, prefix, "attn.proj.weight", d, d);
    VT_R(vt_block_add)(l, sh, VT_SLOT_PROJ_B, false, VT_INIT_ZERO, prefix, "attn.proj.bias", d, 0);
    VT_R(vt_lpi_params)(l, sh, prefix);
    snprintf(name, sizeof name, "%snorm2", prefix);
    vt_param_add_norm(l, sh->layer, VT_SLOT_NORM2, sh->norm, name, d);
    VT_R(vt_block_add)(l, sh, VT_SLOT_FC1_W, true, VT_INIT_LINEAR, prefix, "mlp.fc1.weight", h, d);
    VT_R(vt_block_add)(l, sh, VT_SLOT_FC1_B, false, VT_INIT_ZERO, prefix, "mlp.fc1.bias", h, 0);
    VT_R(vt_block_add)(l, sh, VT_SLOT_FC2_W, true, VT_INIT_LINEAR, prefix, "mlp.fc2.weight", d, h);
    VT_R(vt_block_add)(l, sh, VT_SLOT_FC2_B, false, VT_INIT_ZERO, prefix, "mlp.fc2.bias", d, 0);
}

static void params(vt_param_list *l, const vt_config *c) {
    const VT_R(vt_block_shape) all = common(c);
    const int last = last_layer(c);
    char prefix[40];
    VT_R(vt_stem_params)(l, c);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_shape) sh = xca_block(&all, 1, i, 1);
        snprintf(prefix, sizeof prefix, "blocks.%d.", i);
        xca_params(l, &sh, prefix);
    }
    for (int i = 0; i < c->class_blocks; i++) {
        VT_R(vt_class_shape) sh = class_block(&all, c, 1, i, 1);
        snprintf(prefix, sizeof prefix, "cls_attn_blocks.%d.", i);
        VT_R(vt_class_params)(l, &sh, prefix);
    }
    vt_param_add_norm(l, last, NORM, c->final_norm, "norm", c->dim);
    vt_param_add(l, last, HEAD_W, false, VT_INIT_LINEAR, "head.weight", (int64_t[4]){c->classes, c->dim});
    vt_param_add(l, last, HEAD_B, false, VT_INIT_ZERO, "head.bias", (int64_t[4]){c->classes});
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
    st->shape = common(c);
    st->side = st->stem.maps.stem.sides[st->stem.maps.stem.convs], st->tokens = st->side * st->side;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)st->tokens, head = d / (size_t)c->heads;
    VT_R(vt_block_room) room = {0};
    VT_R(vt_class_shape) classes = class_block(&st->shape, c, st->tokens, 0, s->capacity);
    VT_R(vt_block_measure)(&room, &classes.block); /* its sequences are the longer ones */
    size_t of_xca = head * head + 2 * head, of_class = VT_R(vt_class_score)(&classes);
    room.score = of_xca > of_class ? of_xca : of_class;
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    plan_blocks(s, a);
    st->taps = vt_arena_take(a, 9 * d, sizeof(real));
    for (int k = 0; k < 2; k++) st->rows[k] = vt_arena_take(a, b * d, sizeof(real));
    st->patches = vt_arena_take(a, b * n * d, sizeof(real));
    st->last = vt_arena_take(a, b * d, sizeof(real)), st->normed = vt_arena_take(a, b * d, sizeof(real));
    s->features = st->normed, s->feature_len = s->feature_stride = c->dim;
    st->mean = vt_arena_take(a, b, sizeof(real)), st->rstd = vt_arena_take(a, b, sizeof(real));
    if (s->mode == VT_GRAD_NONE) return;
    st->dnormed = vt_arena_take(a, b * d, sizeof(real));
    st->stream = vt_arena_take(a, b * (n + 1) * d, sizeof(real));
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
static void join(VT_R(vt_session) *s, real *to, const real *patches, int n, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)n * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++, to += d + body) {
        memcpy(to, s->w[VT_STEM_CLS], d * sizeof(real));
        memcpy(to + d, patches + i * body, body * sizeof(real));
    }
}

/* The gradient's way back, in place. */
static void part(VT_R(vt_session) *s, real *dtokens, int n, int b) {
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
    join(s, st->heads[0].x, st->patches, st->tokens, b);
    for (int i = 0; i < c->class_blocks; i++) {
        VT_R(vt_class_shape) sh = class_block(&st->shape, c, st->tokens, i, b);
        int at = keep ? i : 0, next = keep ? i + 1 : 0;
        VT_R(vt_class_forward)(s, sh.last ? st->last : st->heads[next].x, &st->heads[at], &st->scratch, st->rows, &sh);
    }
    VT_R(vt_session_bind)(s, last_layer(c));
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM, c->final_norm, c->ln_eps);
    VT_R(vt_norm_forward)(st->normed, st->mean, st->rstd, st->last, &norm, b, c->dim);
    VT_R(vt_head_forward)(s->logits, st->normed, s->w[HEAD_W], s->w[HEAD_B], b, 1, c->classes, c->dim);
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, d = c->dim;
    VT_R(vt_session_bind)(s, last_layer(c));
    VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, NORM, c->final_norm, c->ln_eps);
    VT_R(vt_head_backward)(st->dnormed, s->dw[HEAD_W], s->dw[HEAD_B], dlogits, st->normed, s->w[HEAD_W], 1, b, 1,
                           c->classes, d);
    real *dy = st->dnormed;
    VT_R(vt_norm_backward)(dy, s->dw[NORM + VT_NORM_W], s->dw[NORM + VT_NORM_B], NULL, dy, st->last, st->mean, st->rstd,
                           &norm, b, d);
    for (int i = c->class_blocks - 1; i >= 0; i--, dy = st->stream) {
        VT_R(vt_class_shape) sh = class_block(&st->shape, c, st->tokens, i, b);
        VT_R(vt_class_backward)(s, st->stream, dy, &st->heads[i], &st->scratch, st->rows, &sh);
    }
    part(s, st->stream, st->tokens, b);
    for (int i = c->depth - 1; i >= 0; i--) {
        VT_R(vt_block_shape) sh = xca_block(&st->shape, st->tokens, i, b);
        xca_backward(s, st->stream, &st->blocks[i], &st->lpi[i], &sh);
    }
    VT_R(vt_stem_backward)(s, dx, &st->stem, st->stream, b);
}

/* Matrix products that are really executed, and the depthwise convolutions. Backward to the input repeats every product
 * once, those of an attention twice. */
static void flops(const vt_config *c, double *forward, double *gradient) {
    const vt_stem stem = vt_stem_of(c);
    double n = vt_stem_tokens(&stem), d = c->dim, h = c->hidden, mix = 0, once = n * 64 * d;
    double linear = vt_stem_products(&stem);
    linear += c->depth * (n * (4 * d * d + 2 * d * h) + 2 * 9 * n * d);
    mix += c->depth * 2 * n * d * d / c->heads;
    linear += c->class_blocks * (2 * (n + 1) * d * d + (c->tied_qk ? 0 : d * d) + d * d + 2 * d * h);
    mix += c->class_blocks * 2 * (n + 1) * d;
    *forward = 2 * (once + linear + mix);
    *gradient = 2 * (once + 2 * linear + 3 * mix);
}

static int tokens(const vt_config *c) {
    const vt_stem stem = vt_stem_of(c);
    return vt_stem_tokens(&stem);
}

static int blocks(const vt_config *c) { return c->depth + c->class_blocks; }

/* XCA blocks: row blocks of attn.qkv.weight; class-attention blocks: attn.q, attn.k (tied: attn.q again), attn.v. */
static bool matrix(const vt_model *m, int block, vt_role role, vt_matrix *out) {
    static const char *const tensors[VT_ROLE_COUNT] = {"attn.q", "attn.k", "attn.v", "attn.proj", "mlp.fc1", "mlp.fc2"};
    const vt_config *c = &m->config;
    const bool xca = block < c->depth, second = role == VT_ROLE_K && c->tied_qk && !xca;
    const bool packed = xca && role <= VT_ROLE_V;
    char name[96];
    snprintf(name, sizeof name, "%sblocks.%d.%s.weight", xca ? "" : "cls_attn_", xca ? block : block - c->depth,
             packed ? "attn.qkv" : tensors[second ? VT_ROLE_Q : role]);
    if (!vt_matrix_part(m, name, packed ? (int)role : 0, packed ? 3 : 1, c->heads, out)) return false;
    out->again = second;
    return true;
}

/* ---- what files tell ---- */

static vt_status check(const vt_config *c, const char *p, vt_err *e) {
    const struct {
        bool set;
        const char *what;
    } none[] = {{c->dist_token, "distillation token"},
                {c->registers > 0, "register tokens"},
                {c->no_cls, "form without a class token"},
                {c->pool != VT_POOL_TOKEN, "pooling but by the class token"},
                {c->post_norm, "post-norm form"},
                {c->norm_pre, "norm before the blocks"},
                {c->norm == VT_NORM_BATCH || c->norm == VT_NORM_NONE, "blocks but with norm layer or center"},
                {c->qk_norm, "q/k norm (its q and k are normalised already)"},
                {c->factor != VT_FACTOR_NONE, "factors but gamma1, gamma2, gamma3, which it always has"},
                {c->patch_gate, "patch gate"},
                {c->no_patch_bias || c->no_embed_class, "position or bias to leave out"}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (none[i].set) return vt_fail(e, VT_E_SHAPE, "%s: XCiT has no %s", p, none[i].what);
    if (c->patch != 16 && c->patch != 8)
        return vt_fail(e, VT_E_RANGE, "%s: XCiT's patch is %d, must be 16 or 8 (a stem of four or three convolutions)",
                       p, c->patch);
    const int convs = c->patch == 8 ? 3 : 4, share = 1 << (convs - 1);
    if (c->dim % share)
        return vt_fail(e, VT_E_SHAPE, "%s: width %d is not a multiple of %d, the share of the stem's first convolution",
                       p, c->dim, share);
    if (c->class_blocks < 1 || c->class_blocks > 64)
        return vt_fail(e, VT_E_RANGE, "%s: class-attention blocks are %d, must be between 1 and 64", p,
                       c->class_blocks);
    for (int k = 0; k < 4 && c->stem_stride[0]; k++)
        if (k < convs ? c->stem_stride[k] < 1 || c->stem_stride[k] > 2 : c->stem_stride[k] != 0)
            return vt_fail(e, VT_E_RANGE, "%s: stem_stride is %d,%d,%d,%d, must be %d strides of 1 or 2", p,
                           c->stem_stride[0], c->stem_stride[1], c->stem_stride[2], c->stem_stride[3], convs);
    if (!c->stem_stride[0] && (c->stem_stride[1] || c->stem_stride[2] || c->stem_stride[3]))
        return vt_fail(e, VT_E_RANGE, "%s: stem_stride begins with 0 and goes on", p);
    VT_R(vt_attn_spec) spec;
    VT_TRY(VT_R(vt_attn_parse)(&spec, c->attn, e));
    if (spec.needs & VT_ATTN_FULL && !c->tied_qk)
        return vt_fail(e, VT_E_SHAPE, "%s: attention %s in XCiT needs W_Q = W_K (--form tied_qk=1)", p, c->attn);
    return VT_OK;
}

/* What neither tensors nor the user tell: timm's norm over all tokens (nano's files say so by width). */
static void defaults(vt_config *c) { c->tokens_norm = true; }

static bool probe(const vt_st *st) {
    return vt_st_find(st, "patch_embed.proj.0.0.weight") && vt_detect_any(st, "cls_attn_blocks.", ".gamma1");
}

static vt_status detect_stem(const vt_st *st, vt_config *c, vt_err *e) {
    int convs = 0;
    const vt_tensor *w = NULL;
    for (char name[64]; convs < VT_STEM_CONVS; convs++) {
        snprintf(name, sizeof name, "patch_embed.proj.%d.0.weight", 2 * convs);
        if (!vt_st_find(st, name)) break;
        VT_TRY(vt_detect_need(st, name, 4, &w, e));
    }
    if (convs < 3)
        return vt_fail(e, VT_E_SHAPE, "%s: the stem has %d convolutions, XCiT's have 3 (patch 8) or 4 (patch 16)",
                       vt_st_path(st), convs);
    c->patch = convs == 3 ? 8 : 16, c->dim = (int)w->shape[0];
    return VT_OK;
}

static vt_status detect(const vt_st *st, vt_config *c, vt_source src, vt_err *e) {
    const vt_tensor *head = NULL, *fc1 = NULL, *tau = NULL;
    VT_TRY(detect_stem(st, c, e));
    VT_TRY(vt_detect_need(st, "head.weight", 2, &head, e));
    VT_TRY(vt_detect_need(st, "blocks.0.mlp.fc1.weight", 2, &fc1, e));
    VT_TRY(vt_detect_need(st, "blocks.0.attn.temperature", 3, &tau, e));
    c->depth = vt_detect_blocks(st, "blocks.", 20);                 /* of 25 tensors at least */
    c->class_blocks = vt_detect_blocks(st, "cls_attn_blocks.", 12); /* of 14 */
    c->heads = (int)tau->shape[0], c->hidden = (int)fc1->shape[0], c->classes = (int)head->shape[0];
    c->qkv_bias = vt_st_find(st, "blocks.0.attn.qkv.bias") != NULL;
    c->tied_qk = !vt_st_find(st, "cls_attn_blocks.0.attn.k.weight");
    c->image = 224; /* a guess, which resolve mends */
    c->ln_eps = 1e-6;
    static const vt_field told[] = {VT_FIELD_ARCH,    VT_FIELD_PATCH,       VT_FIELD_DIM,     VT_FIELD_DEPTH,
                                    VT_FIELD_HEADS,   VT_FIELD_HIDDEN,      VT_FIELD_CLASSES, VT_FIELD_QKV_BIAS,
                                    VT_FIELD_TIED_QK, VT_FIELD_CLASS_BLOCKS};
    vt_detect_told(src, told, sizeof told / sizeof *told);
    defaults(c);
    if (c->dim == 128) c->tokens_norm = false; /* timm's nano alone */
    snprintf(src[VT_FIELD_STEM_STRIDE], sizeof src[0], "default: 1,1,2,2 at 32 pixels (CIFAR), else 2");
    snprintf(src[VT_FIELD_TOKENS_NORM], sizeof src[0], "default: %s",
             c->dim == 128 ? "timm's nano has none" : "timm's");
    return VT_OK;
}

const VT_R(vt_arch_def) VT_R(vt_arch_def_xcit) = {
    .name = "xcit",
    .summary = "XCiT: attention between channels, local patch interaction, class attention",
    .probe = probe,
    .detect = detect,
    .defaults = defaults,
    .check = check,
    .params = params,
    .tokens = tokens,
    .blocks = blocks,
    .matrix = matrix,
    .no_token_maps = true,
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .flops = flops,
    .any_image = true,
};
