/* Vision Transformer and DeiT (Dosovitskiy et al. 2021; Touvron et al. 2021), timm's tensor names and conventions:
 * class token, optional distillation token, learned positions added after concatenation, pre-norm blocks, and either
 * norm -> head on the class token (distilled: the mean of head and head_dist, as timm evaluates) or the mean over the
 * patch tokens -> fc_norm -> head (global_pool='avg'). */
#include <string.h>
#include "models/block.h"
#include "nn/nn.h"

enum { EMBED_W, EMBED_B, CLS, DIST, POS, GATE };                   /* layer 0 */
enum { NORM_W, NORM_B, HEAD_W, HEAD_B, HEAD_DIST_W, HEAD_DIST_B }; /* layer depth + 1 */

typedef struct state {
    real *patches;  /* [b*N, 3ps^2] normalised */
    real *dpatches; /* their gradient; shares the memory of patches unless weight gradients need both */
    real *gated;    /* patches times the gate, or patches itself */
    real *embed;    /* [b*N, D]; later its gradient */
    VT_R(vt_block_cache) *blocks;
    VT_R(vt_block_scratch) scratch;
    real *last;                 /* [b*R, D] output of the last block; later the gradient of the stream */
    real *stream;               /* [b*T, D] gradient */
    real *pooled;               /* [b*P, D] input of the final norm: class (and distillation) rows, or patch means */
    real *normed, *mean, *rstd; /* [b*P, D], [b*P] */
    real *dnormed;              /* [b*P, D] */
    real *aux;                  /* [b, K] logits of head_dist; later gradient */
} state;

static void params(vt_param_list *l, const vt_config *c) {
    int64_t d = c->dim, k = c->classes, p = c->patch;
    vt_param_add(l, 0, CLS, false, VT_INIT_TINY, "cls_token", (int64_t[4]){1, 1, d});
    if (c->dist_token) vt_param_add(l, 0, DIST, false, VT_INIT_TRUNC02, "dist_token", (int64_t[4]){1, 1, d});
    vt_param_add(l, 0, POS, false, VT_INIT_TRUNC02, "pos_embed", (int64_t[4]){1, vt_config_tokens(c), d});
    vt_param_add(l, 0, EMBED_W, true, VT_INIT_CONV, "patch_embed.proj.weight", (int64_t[4]){d, 3, p, p});
    vt_param_add(l, 0, EMBED_B, false, VT_INIT_CONV, "patch_embed.proj.bias", (int64_t[4]){d});
    if (c->patch_gate)
        vt_param_add(l, 0, GATE, false, VT_INIT_ONE, "patch_gate",
                     (int64_t[4]){(int64_t)vt_config_side(c) * vt_config_side(c)});
    for (int i = 0; i < c->depth; i++) VT_R(vt_block_params)(l, c, 1 + i, i);
    int last = 1 + c->depth;
    bool avg = c->pool == VT_POOL_AVG;
    vt_param_add(l, last, NORM_W, false, VT_INIT_ONE, avg ? "fc_norm.weight" : "norm.weight", (int64_t[4]){d});
    vt_param_add(l, last, NORM_B, false, VT_INIT_ZERO, avg ? "fc_norm.bias" : "norm.bias", (int64_t[4]){d});
    vt_param_add(l, last, HEAD_W, false, VT_INIT_TRUNC02, "head.weight", (int64_t[4]){k, d});
    vt_param_add(l, last, HEAD_B, false, VT_INIT_ZERO, "head.bias", (int64_t[4]){k});
    if (!c->dist_token) return;
    vt_param_add(l, last, HEAD_DIST_W, false, VT_INIT_TRUNC02, "head_dist.weight", (int64_t[4]){k, d});
    vt_param_add(l, last, HEAD_DIST_B, false, VT_INIT_ZERO, "head_dist.bias", (int64_t[4]){k});
}

/* Rows an image contributes to the final norm, and tokens the last block must deliver (0: all). */
static int pooled_rows(const vt_config *c) { return c->pool == VT_POOL_AVG ? 1 : vt_config_prefix(c); }
static int tail(const vt_config *c) { return c->pool == VT_POOL_AVG ? 0 : vt_config_prefix(c); }

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)(vt_config_side(c) * vt_config_side(c));
    size_t rows = b * (size_t)pooled_rows(c), m = b * (size_t)vt_config_tokens(c);
    st->patches = vt_arena_take(a, b * n * (size_t)(3 * c->patch * c->patch), sizeof(real));
    st->dpatches = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, b * n * (size_t)(3 * c->patch * c->patch), sizeof(real))
                                             : st->patches;
    st->gated = c->patch_gate ? vt_arena_take(a, b * n * (size_t)(3 * c->patch * c->patch), sizeof(real)) : st->patches;
    st->embed = vt_arena_take(a, b * n * d, sizeof(real));
    st->last = vt_arena_take(a, m * d, sizeof(real));
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, m * d, sizeof(real));
    st->pooled = vt_arena_take(a, rows * d, sizeof(real));
    st->normed = vt_arena_take(a, rows * d, sizeof(real));
    st->dnormed = vt_arena_take(a, rows * d, sizeof(real));
    st->mean = vt_arena_take(a, rows, sizeof(real));
    st->rstd = vt_arena_take(a, rows, sizeof(real));
    st->aux = vt_arena_take(a, b * (size_t)c->classes, sizeof(real));
    VT_R(vt_block_plan_scratch)(&st->scratch, s, a);
    size_t depth = s->mode == VT_GRAD_NONE ? 1 : (size_t)c->depth; /* forward only: one set serves all blocks */
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, depth, sizeof *blocks), measured;
    st->blocks = blocks;
    for (size_t i = 0; i < depth; i++) VT_R(vt_block_plan_cache)(blocks ? &blocks[i] : &measured, s, a);
}

static void embed(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int side = vt_config_side(c), n = side * side, t = vt_config_tokens(c), d = c->dim, row = 3 * c->patch * c->patch;
    size_t pixels = (size_t)(3 * c->image * c->image);
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_forward)(st->patches + (size_t)i * (size_t)(n * row), x + (size_t)i * pixels, c->mean, c->std,
                                  c->image, c->image, c->patch);
    if (c->patch_gate)
        for (int i = 0; i < b * n; i++)
            for (int j = 0; j < row; j++) st->gated[i * row + j] = s->w[GATE][i % n] * st->patches[i * row + j];
    VT_R(vt_linear_forward)(st->embed, st->gated, s->w[EMBED_W], s->wt[EMBED_W], s->w[EMBED_B], b * n, d, row);
    const real *pos = s->w[POS];
    for (int i = 0; i < b; i++) {
        real *out = tokens + (size_t)i * (size_t)(t * d);
        for (int j = 0; j < d; j++) out[j] = s->w[CLS][j] + pos[j];
        if (c->dist_token)
            for (int j = 0; j < d; j++) out[d + j] = s->w[DIST][j] + pos[d + j];
        size_t skip = (size_t)(vt_config_prefix(c) * d), body = (size_t)(n * d);
        for (size_t j = 0; j < body; j++) out[skip + j] = st->embed[(size_t)i * body + j] + pos[skip + j];
    }
}

/* st->last -> st->pooled */
static void pool(VT_R(vt_session) *s, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int d = c->dim, t = vt_config_tokens(c), first = vt_config_prefix(c);
    if (c->pool == VT_POOL_TOKEN) {
        memcpy(st->pooled, st->last, (size_t)(b * first * d) * sizeof(real));
        return;
    }
    for (int i = 0; i < b; i++) {
        real *out = st->pooled + (size_t)(i * d);
        memset(out, 0, (size_t)d * sizeof(real));
        for (int k = first; k < t; k++) VT_R(vt_add_to)(out, st->last + (size_t)(i * t + k) * (size_t)d, (size_t)d);
        for (int j = 0; j < d; j++) out[j] /= (real)(t - first);
    }
}

/* logits of `rows`-strided normed rows: the class rows (offset 0) or the distillation rows (offset 1). The head has its
 * own loop: a product with N = 10 columns sums in an order that depends on its neighbours in BLAS's small kernels. */
static void head_forward(real *z, const real *normed, const real *w, const real *bias, int b, int stride, int k,
                         int d) {
    for (int i = 0; i < b; i++)
        for (int j = 0; j < k; j++) {
            const real *x = normed + (size_t)(i * stride) * (size_t)d, *wj = w + (size_t)j * (size_t)d;
            real lane[16] = {0}, sum = 0;
            int l = 0;
            for (; l + 16 <= d; l += 16)
                for (int q = 0; q < 16; q++) lane[q] += x[l + q] * wj[l + q];
            for (; l < d; l++) lane[0] += x[l] * wj[l];
            for (int q = 0; q < 16; q++) sum += lane[q];
            z[i * k + j] = sum + bias[j];
        }
}

/* dnormed = scale dz w;  dw += scale dz^T normed;  db += scale dz */
static void head_backward(real *dnormed, real *dw, real *db, const real *dz, const real *normed, const real *w,
                          real scale, int b, int stride, int k, int d) {
    for (int i = 0; i < b; i++) {
        real *out = dnormed + (size_t)(i * stride) * (size_t)d;
        const real *x = normed + (size_t)(i * stride) * (size_t)d;
        memset(out, 0, (size_t)d * sizeof(real));
        for (int j = 0; j < k; j++) {
            real g = scale * dz[i * k + j];
            const real *wj = w + (size_t)j * (size_t)d;
            for (int l = 0; l < d; l++) out[l] += g * wj[l];
            if (dw)
                for (int l = 0; l < d; l++) dw[(size_t)j * (size_t)d + (size_t)l] += g * x[l];
            if (db) db[j] += g;
        }
    }
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    embed(s, st->blocks[0].x, x, b);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_block_cache) *k = &st->blocks[keep ? i : 0];
        bool end = i == c->depth - 1;
        real *out = end ? st->last : st->blocks[keep ? i + 1 : 0].x;
        VT_R(vt_block_forward)(s, out, k, &st->scratch, 1 + i, end ? tail(c) : 0);
    }
    pool(s, b);
    VT_R(vt_session_bind)(s, 1 + c->depth);
    int p = pooled_rows(c), d = c->dim, n = c->classes;
    VT_R(vt_layernorm_forward)(st->normed, st->mean, st->rstd, st->pooled, s->w[NORM_W], s->w[NORM_B], b * p, d,
                               c->ln_eps);
    head_forward(s->logits, st->normed, s->w[HEAD_W], s->w[HEAD_B], b, p, n, d);
    if (!c->dist_token) return;
    head_forward(st->aux, st->normed + d, s->w[HEAD_DIST_W], s->w[HEAD_DIST_B], b, p, n, d);
    for (int i = 0; i < b * n; i++) s->logits[i] = (s->logits[i] + st->aux[i]) / 2;
}

/* gated = gate_n patch_n:  dgate_n += <dgated_n, patch_n>,  dpatch_n = gate_n dgated_n (in place) */
static void gate_backward(real *dgate, real *dpatches, const real *patches, const real *gate, int b, int n, int row) {
    for (int i = 0; i < b * n; i++) {
        real sum = 0;
        for (int j = 0; j < row; j++) {
            if (dgate) sum += dpatches[i * row + j] * patches[i * row + j];
            dpatches[i * row + j] *= gate[i % n];
        }
        if (dgate) dgate[i % n] += sum;
    }
}

static void embed_backward(VT_R(vt_session) *s, real *dx, const real *dtokens) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int side = vt_config_side(c), n = side * side, t = vt_config_tokens(c), d = c->dim, row = 3 * c->patch * c->patch;
    int b = s->batch, first = vt_config_prefix(c);
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++) {
        const real *g = dtokens + (size_t)i * (size_t)(t * d);
        if (s->dw[CLS]) VT_R(vt_add_to)(s->dw[CLS], g, (size_t)d);
        if (s->dw[DIST]) VT_R(vt_add_to)(s->dw[DIST], g + d, (size_t)d);
        if (s->dw[POS]) VT_R(vt_add_to)(s->dw[POS], g, (size_t)(t * d));
        memcpy(st->embed + (size_t)i * (size_t)(n * d), g + (size_t)(first * d), (size_t)(n * d) * sizeof(real));
    }
    VT_R(vt_linear_backward)(NULL, s->dw[EMBED_W], s->dw[EMBED_B], st->embed, st->gated, s->w[EMBED_W], b * n, d, row);
    if (!dx && !s->dw[GATE]) return;
    VT_R(vt_linear_backward)(st->dpatches, NULL, NULL, st->embed, NULL, s->w[EMBED_W], b * n, d, row);
    if (c->patch_gate) gate_backward(s->dw[GATE], st->dpatches, st->patches, s->w[GATE], b, n, row);
    if (!dx) return;
    size_t pixels = (size_t)(3 * c->image * c->image);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * pixels, st->dpatches + (size_t)i * (size_t)(n * row), c->std,
                                   c->image, c->image, c->patch);
}

/* st->dnormed -> gradient of the pooled rows -> st->last [b*R, D] */
static void pool_backward(VT_R(vt_session) *s, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int d = c->dim, t = vt_config_tokens(c), first = vt_config_prefix(c), p = pooled_rows(c);
    bool avg = c->pool == VT_POOL_AVG;
    real *dpooled = avg ? st->dnormed : st->last;
    VT_R(vt_layernorm_backward)(dpooled, s->dw[NORM_W], s->dw[NORM_B], NULL, st->dnormed, st->pooled, s->w[NORM_W],
                                st->mean, st->rstd, b * p, d);
    if (!avg) return;
    memset(st->last, 0, (size_t)(b * t * d) * sizeof(real));
    for (int i = 0; i < b; i++)
        for (int k = first; k < t; k++)
            for (int j = 0; j < d; j++)
                st->last[(size_t)(i * t + k) * (size_t)d + (size_t)j] = dpooled[i * d + j] / (real)(t - first);
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    int b = s->batch, p = pooled_rows(c), d = c->dim, n = c->classes;
    VT_R(vt_session_bind)(s, 1 + c->depth);
    real scale = c->dist_token ? (real)0.5 : 1;
    head_backward(st->dnormed, s->dw[HEAD_W], s->dw[HEAD_B], dlogits, st->normed, s->w[HEAD_W], scale, b, p, n, d);
    if (c->dist_token)
        head_backward(st->dnormed + d, s->dw[HEAD_DIST_W], s->dw[HEAD_DIST_B], dlogits, st->normed + d,
                      s->w[HEAD_DIST_W], scale, b, p, n, d);
    pool_backward(s, b);
    for (int i = c->depth - 1; i >= 0; i--) {
        bool end = i == c->depth - 1;
        VT_R(vt_block_backward)(s, st->stream, end ? st->last : st->stream, &st->blocks[i], &st->scratch, 1 + i,
                                end ? tail(c) : 0);
    }
    embed_backward(s, dx, st->stream);
}

/* Matrix products that are really executed: the last block's output projection and MLP run on the tokens that the
 * head reads alone. Backward to the input repeats every product once, attention twice. */
static void flops(const vt_config *c, double *forward, double *gradient) {
    double n = (double)vt_config_side(c) * vt_config_side(c), t = vt_config_tokens(c), d = c->dim;
    double embed = n * 3 * c->patch * c->patch * d, rows = tail(c) ? tail(c) : t;
    double linear = 0, mix = c->depth * 2 * t * t * d;
    for (int i = 0; i < c->depth; i++)
        linear += t * 3 * d * d + (i == c->depth - 1 ? rows : t) * (d * d + 2 * d * c->hidden);
    *forward = 2 * (embed + linear + mix);
    *gradient = 2 * (2 * embed + 2 * linear + 3 * mix);
}

const VT_R(vt_arch_def) VT_R(vt_arch_def_vit) = {
    .name = "vit",
    .summary = "Vision Transformer and DeiT (plain, distilled), class token or mean pooling",
    .params = params,
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .flops = flops,
};
