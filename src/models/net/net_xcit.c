/* SPDX-License-Identifier: MIT */
/* What an XCiT (models/arch_xcit.c) computes (El-Nouby et al. 2021), by timm 0.9.16's xcit.py and cait.py: a stem, XCA
 * blocks,  x += gamma1 XCA(norm1 x),  x += gamma3 LPI(norm3 x),  x += gamma2 MLP(norm2 x),  and class-attention blocks
 * (class_attention.h). */
#include <math.h>
#include <string.h>
#include "models/net/class_attention.h"
#include "models/net/patch_rows.h"
#include "models/net/readout.h"
#include "nn/nn.h"

enum { PLACE = VT_XCIT_PLACE, WAVES = PLACE / 2 }; /* channels of a place, of a coordinate */

/* What an XCA block keeps. */
typedef struct cache {
    VT_R(vt_block_cache) block;
    real *x, *stat;    /* [M,D] input of the LPI, norm3's statistics [M,2] */
    real *slope, *act; /* [M,D]; act, the input of BatchNorm, for parameter gradients */
    real *branch;      /* [M,D] before gamma3, for parameter gradients */
} cache;

typedef struct state {
    VT_R(vt_block_shape) shape; /* as a ViT's block has it */
    int side, tokens;           /* of the grid of patches: a side, all */
    VT_R(vt_stem_maps) stem;
    real *places, *encoded; /* [N, 64] sines and cosines, constant; [N, D] after the projection */
    bool placed;            /* `places` is filled */
    cache *blocks;
    VT_R(vt_class_cache) *heads;
    VT_R(vt_block_scratch) scratch;
    real *taps;    /* [9, D] of a depthwise convolution */
    real *rows[2]; /* [b, D] class rows */
    real *patches; /* [b*N, D] output of the last XCA block */
    VT_R(vt_readout) end;
    real *stream; /* [b*(N+1), D] gradient */
} state;

/* ---- the stem: 3 x 3 convolutions, then a 1 x 1 convolution of the Fourier encoding of each token's place is added,
 * if the network has positions (timm's ConvPatchEmbed and PositionalEncodingFourier) ---- */

/* to[32] of coordinate `at` in 1..n: t = 2 pi at / (n + 1e-6), then sin and cos of t / 10000^(2 floor(i/2) / 32) in
 * turn. In double; timm computes in float even in a double model. */
static void fill_sinusoids(real *to, int at, int n) {
    const double t = at / (n + 1e-6) * 2 * 3.14159265358979323846;
    for (int i = 0; i < WAVES; i++) {
        double angle = t / pow(10000, (i - i % 2) / (double)WAVES);
        to[i] = (real)(i % 2 ? cos(angle) : sin(angle));
    }
}

/* places [N, 64]: the row's 32 channels, then the column's */
static void fill_places(real *places, int side) {
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++, places += PLACE) {
            fill_sinusoids(places, y + 1, side);
            fill_sinusoids(places + WAVES, x + 1, side);
        }
}

/* x [b,3,h,w] -> tokens [b*N, D], with the encoded places if the network has positions; fills st->places once. */
static void stem_forward(VT_R(vt_session) *s, real *tokens, const real *x, int b) {
    state *st = s->state;
    const int d = st->shape.dim;
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_stem_maps_forward)(s, tokens, &st->stem, x, b);
    if (!s->w[VT_STEM_POS_W]) return;
    if (!st->placed) fill_places(st->places, st->side);
    st->placed = true;
    VT_R(vt_linear_forward)(st->encoded, NULL, st->places, VT_R(vt_linear_bound)(s, VT_STEM_POS_W), st->tokens);
    for (int i = 0; i < b; i++) VT_R(vt_add_to)(tokens + i * st->tokens * d, st->encoded, (size_t)(st->tokens * d));
}

/* Adds the stem's and the places' parameter gradients from dtokens [b*N, D], which is overwritten; dx [b,3,h,w] or
 * NULL. */
static void stem_backward(VT_R(vt_session) *s, real *dx, real *dtokens) {
    state *st = s->state;
    const int d = st->shape.dim;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < s->batch && s->grad && s->w[VT_STEM_POS_W]; i++)
        VT_R(vt_linear_backward)(NULL, NULL, dtokens + i * st->tokens * d, st->places,
                                 VT_R(vt_linear_bound)(s, VT_STEM_POS_W), st->tokens);
    VT_R(vt_stem_maps_backward)(s, dx, &st->stem, dtokens, s->batch);
}

/* ---- cross-covariance attention (sec. 3.2; timm's XCA), a block's token mixer: attention between the channels of a
 * head. With q_i, k_i, v_i the columns of a head's Q, K, V [N, d], that is one channel over all tokens: R_ij = <q_i,
 * k_j> / (|q_i| |k_j|),  A = softmax_j(tau R),  o_i = sum_j A_ij v_j norms at least 1e-12; tau is learned, one a head;
 * there is no d^-0.5. Attention variants, which score tokens, have no meaning here. ---- */

static const real FLOOR = (real)1e-12;

/* Saved of a head: R [d, d], norms of q and of k [d] each. */
static size_t head_saved(int d) { return (size_t)d * (size_t)d + 2 * (size_t)d; }

/* Takes the memory of attention between channels. */
static void plan_xca(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    size_t d = (size_t)(sh->attn.c / sh->attn.heads), n = (size_t)sh->attn.b * (size_t)sh->attn.heads;
    k->qkv = VT_R(vt_reals)(a, (size_t)sh->attn.b * (size_t)sh->attn.t * 3 * (size_t)sh->attn.c);
    k->p = VT_R(vt_reals)(a, n * d * d);
    k->saved = VT_R(vt_reals)(a, n * head_saved((int)d));
}

/* One head of one image: offset of its columns in qkv [., 3D] and in o [., D], its pieces of the cache. */
typedef struct place {
    int n, d, ld; /* tokens, channels, row stride of q, k, v */
    const real *q, *k, *v;
    real *p, *r, *nq, *nk;
    size_t qkv, o;
    const vt_products *by;
} place;

/* Returns where one image's head has its inputs, map and saved norms. */
static place place_at(const VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, int image, int head) {
    int c = sh->attn.c, d = c / sh->attn.heads, n = sh->attn.t;
    size_t row = (size_t)image * (size_t)n, item = (size_t)image * (size_t)sh->attn.heads + (size_t)head;
    place l = {.n = n, .d = d, .ld = 3 * c, .by = sh->attn.by};
    l.qkv = row * (size_t)l.ld + (size_t)(head * d), l.o = row * (size_t)c + (size_t)(head * d);
    l.q = k->qkv + l.qkv, l.k = l.q + c, l.v = l.k + c;
    l.p = k->p + item * (size_t)(d * d);
    l.r = k->saved + item * head_saved(d), l.nq = l.r + d * d, l.nk = l.nq + d;
    return l;
}

/* norm [d] of the columns of x [n, d], over the tokens */
static void column_norms(real *norm, const real *x, int n, int d, int ld) {
    for (int j = 0; j < d; j++) norm[j] = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            norm[j] += x[(size_t)i * (size_t)ld + (size_t)j] * x[(size_t)i * (size_t)ld + (size_t)j];
    for (int j = 0; j < d; j++) {
        real r = (real)sqrt((double)norm[j]);
        norm[j] = r < FLOOR ? FLOOR : r; /* NaN stays NaN */
    }
}

/* Computes attention between channels (vt_token_mixer). */
static void xca_forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                        const VT_R(vt_block_shape) *sh) {
    (void)t;
    int c = sh->attn.c, m = sh->attn.b * sh->attn.t;
    VT_R(vt_linear_forward)(k->qkv, NULL, x, VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W), m);
    for (int i = 0; i < sh->attn.b; i++)
        for (int h = 0; h < sh->attn.heads; h++) {
            place l = place_at(k, sh, i, h);
            int d = l.d;
            column_norms(l.nq, l.q, l.n, d, l.ld);
            column_norms(l.nk, l.k, l.n, d, l.ld);
            VT_GEMM(l.by, true, false, d, d, l.n, 1, l.q, l.ld, l.k, l.ld, 0, l.r, d);
            for (int a = 0; a < d; a++)
                for (int b = 0; b < d; b++) l.r[a * d + b] = l.r[a * d + b] / l.nq[a] / l.nk[b];
            VT_R(vt_softmax_forward)(l.p, l.r, s->w[VT_XCA_TAU][h], d, d, d);
            /* o = V A^T */
            VT_GEMM(l.by, false, true, l.n, d, d, 1, l.v, l.ld, l.p, d, 0, o + l.o, c);
        }
}

/* q^ = q / |q| column by column:  dq_i = (dq^_i - q^_i <q^_i, dq^_i>) / |q_i|, without the second part where the floor
 * stood in for the norm. dx [n, d] holds dq^ / |q| and becomes dq; dot [d] is <q^, dq^>, overwritten. */
static void norms_backward(real *dx, const real *x, const real *norm, real *dot, int n, int d, int ld) {
    for (int j = 0; j < d; j++) dot[j] = norm[j] > FLOOR ? dot[j] / norm[j] / norm[j] : 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < d; j++)
            dx[(size_t)i * (size_t)ld + (size_t)j] -= x[(size_t)i * (size_t)ld + (size_t)j] * dot[j];
}

/* o = V A^T:  dV = dO A,  dA = dO^T V.  Z = tau R:  dtau += <dZ, R> (or NULL),  dR = tau dZ. S = Q^T K, R = S / (|q_i|
 * |k_j|):  dS likewise from dR,  dQ = K dS^T, dK = Q dS, to the head's columns of dqkv, and <q^_i, dq^_i> = sum_j dR_ij
 * R_ij. scratch: [d, d] and twice [d]. */
static void head_backward(real *dqkv, real *dtau, real *scratch, const real *d_o, const place *l, real tau, int c) {
    int d = l->d;
    real *g = scratch, *dot_q = g + d * d, *dot_k = dot_q + d;
    real *dq = dqkv + l->qkv, *dk = dq + c, *dv = dk + c;
    VT_GEMM(l->by, false, false, l->n, d, d, 1, d_o + l->o, c, l->p, d, 0, dv, l->ld);
    VT_GEMM(l->by, true, false, d, d, l->n, 1, d_o + l->o, c, l->v, l->ld, 0, g, d);
    VT_R(vt_softmax_backward)(g, g, l->p, 1, d, d, d);
    real sum = 0;
    for (int j = 0; j < d; j++) dot_k[j] = 0;
    for (int i = 0; i < d; i++) {
        dot_q[i] = 0;
        for (int j = 0; j < d; j++) {
            real z = g[i * d + j] * l->r[i * d + j];
            sum += z, dot_q[i] += tau * z, dot_k[j] += tau * z;
            g[i * d + j] = tau * g[i * d + j] / l->nq[i] / l->nk[j];
        }
    }
    if (dtau) *dtau += sum;
    VT_GEMM(l->by, false, true, l->n, d, d, 1, l->k, l->ld, g, d, 0, dq, l->ld);
    VT_GEMM(l->by, false, false, l->n, d, d, 1, l->q, l->ld, g, d, 0, dk, l->ld);
    norms_backward(dq, l->q, l->nq, dot_q, l->n, d, l->ld);
    norms_backward(dk, l->k, l->nk, dot_k, l->n, d, l->ld);
}

/* Computes dx of attention between channels and adds the gradients of its parameters (vt_token_mixer). */
static void xca_backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                         const real *d_o, const real *x, const VT_R(vt_block_shape) *sh) {
    int c = sh->attn.c, m = sh->attn.b * sh->attn.t;
    real *dtau = s->dw[VT_XCA_TAU];
    for (int i = 0; i < sh->attn.b; i++)
        for (int h = 0; h < sh->attn.heads; h++) {
            place l = place_at(k, sh, i, h);
            head_backward(t->wide, dtau ? dtau + h : NULL, t->score, d_o, &l, s->w[VT_XCA_TAU][h], c);
        }
    VT_R(vt_linear_backward)(dx, NULL, t->wide, x, VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W), m);
}

static const VT_R(vt_token_mixer) xca = {.plan = plan_xca, .forward = xca_forward, .backward = xca_backward};

/* ---- local patch interaction (sec. 3.3; timm's LPI): tokens as a map, where channels talk to their neighbours:
 *   y = x + gamma3 conv2(BatchNorm(act(conv1(norm3 x))))
 * both convolutions depthwise 3 x 3 with bias, BatchNorm with frozen statistics ---- */

/* Returns the norm before local patch interaction. */
static VT_R(vt_norm) norm3(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    return VT_R(vt_norm_bound)(s, VT_LPI_NORM, sh->norm, sh->eps);
}

/* Returns the BatchNorm of local patch interaction, by running statistics. */
static VT_R(vt_norm) frozen_norm(const VT_R(vt_session) *s) {
    return VT_R(vt_norm_bound)(s, VT_LPI_BN, VT_NORM_BATCH, VT_XCIT_BN_EPS);
}

/* Local patch interaction, k->x -> y [M,D]; keeps in k what lpi_backward reads. */
static void lpi_forward(VT_R(vt_session) *s, real *y, cache *k, const VT_R(vt_block_shape) *sh) {
    const state *st = s->state;
    const VT_R(vt_block_scratch) *t = &st->scratch;
    const VT_R(vt_linear) conv1 = VT_R(vt_linear_bound)(s, VT_LPI_CONV1_W);
    const VT_R(vt_linear) conv2 = VT_R(vt_linear_bound)(s, VT_LPI_CONV2_W);
    int d = sh->dim, b = sh->attn.b, m = b * sh->attn.t;
    real *act = k->act ? k->act : t->full, *branch = k->branch ? k->branch : t->full;
    VT_R(vt_norm_forward)(t->norm, k->stat, k->x, norm3(s, sh), m, d);
    VT_R(vt_depthwise_forward)(t->full, st->taps, t->norm, conv1, b, st->side, st->side);
    VT_R(vt_act_forward)(sh->act, act, s->kept ? k->slope : NULL, t->full, NULL, m, d);
    VT_R(vt_norm_forward)(t->norm, NULL, act, frozen_norm(s), m, d);
    VT_R(vt_depthwise_forward)(branch, st->taps, t->norm, conv2, b, st->side, st->side);
    VT_R(vt_branch_scale)(s, y, k->x, branch, VT_LPI_FACTOR, VT_BRANCH_LPI, m, d);
}

/* dy, the gradient of local patch interaction's output, becomes that of k->x, in place; adds the parameters'
 * gradients. */
static void lpi_backward(VT_R(vt_session) *s, real *dy, cache *k, const VT_R(vt_block_shape) *sh) {
    const state *st = s->state;
    const VT_R(vt_block_scratch) *t = &st->scratch;
    const VT_R(vt_linear) conv1 = VT_R(vt_linear_bound)(s, VT_LPI_CONV1_W);
    const VT_R(vt_linear) conv2 = VT_R(vt_linear_bound)(s, VT_LPI_CONV2_W);
    int d = sh->dim, b = sh->attn.b, m = b * sh->attn.t;
    const real *in = s->grad ? t->norm : NULL;
    VT_R(vt_branch_scale_backward)(s, t->full, dy, k->branch, VT_LPI_FACTOR, VT_BRANCH_LPI, m, d);
    if (in) VT_R(vt_norm_again)(t->norm, NULL, k->act, frozen_norm(s), m, d);
    VT_R(vt_depthwise_backward)(t->rows, st->taps, t->full, in, conv2, b, st->side, st->side);
    VT_R(vt_norm_backward)(t->rows, NULL, t->rows, k->act, NULL, frozen_norm(s), m, d);
    VT_R(vt_act_backward)(t->rows, t->rows, k->slope, (size_t)m * (size_t)d);
    if (in) VT_R(vt_norm_again)(t->norm, k->stat, k->x, norm3(s, sh), m, d);
    VT_R(vt_depthwise_backward)(t->full, st->taps, t->rows, in, conv1, b, st->side, st->side);
    VT_R(vt_norm_backward)(dy, dy, t->full, k->x, k->stat, norm3(s, sh), m, d);
}

/* ---- blocks ---- */

/* Returns the shape of block i for b images. */
static VT_R(vt_block_shape) xca_block(const state *st, int i, int b) {
    VT_R(vt_block_shape) sh = st->shape;
    sh.attn.b = b, sh.attn.t = st->tokens, sh.layer = 1 + i, sh.index = i;
    sh.mixer = &xca, sh.tied_qk = false, sh.needs = 0;
    return sh;
}

/* Returns the shape of class-attention block i for b images. */
static VT_R(vt_class_shape) class_block(const state *st, const vt_config *c, int i, int b) {
    VT_R(vt_class_shape) sh = {.block = st->shape, .tokens_norm = c->tokens_norm, .last = i == c->class_blocks - 1};
    sh.block.attn.b = b, sh.block.attn.t = 1 + st->tokens, sh.block.attn.tq = 1;
    sh.block.layer = 1 + c->depth + i, sh.block.index = c->depth + i;
    return sh;
}

/* Takes the memory of all blocks. */
static void plan_blocks(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const bool one = s->mode == VT_GRAD_NONE, params = s->mode == VT_GRAD_PARAMS; /* forward only: one set serves all */
    const int depth = one ? 1 : c->depth, heads = one ? 1 : c->class_blocks;
    const VT_R(vt_block_shape) sh = xca_block(st, 0, s->capacity);
    const size_t m = (size_t)s->capacity * (size_t)st->tokens, n = m * (size_t)c->dim;
    cache *blocks = vt_arena_take(a, (size_t)depth, sizeof *blocks), measured;
    VT_R(vt_class_cache) *classes = vt_arena_take(a, (size_t)heads, sizeof *classes), h;
    st->blocks = blocks, st->heads = classes;
    for (int i = 0; i < depth; i++) {
        cache *k = blocks ? &blocks[i] : &measured;
        VT_R(vt_block_plan)(&k->block, &sh, s->mode, a);
        k->x = VT_R(vt_reals)(a, n), k->stat = VT_R(vt_reals)(a, 2 * m), k->slope = VT_R(vt_reals)(a, one ? 0 : n);
        k->act = VT_R(vt_reals)(a, params ? n : 0), k->branch = VT_R(vt_reals)(a, params ? n : 0);
    }
    for (int i = 0; i < heads; i++) {
        const VT_R(vt_class_shape) of = class_block(st, c, one ? -1 : i, s->capacity);
        VT_R(vt_class_plan)(classes ? &classes[i] : &h, &of, s->mode, a);
    }
}

/* Takes the memory of the whole network from the arena. */
static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const vt_stem stem = vt_stem_of(c);
    VT_R(vt_stem_maps_plan)(&st->stem, &stem, s->capacity, s->mode, a);
    st->side = stem.sides[stem.convs], st->tokens = vt_stem_tokens(&stem), st->placed = false;
    st->shape = VT_R(vt_block_of)(s), st->shape.factor = VT_FACTOR_LAYER_SCALE; /* gamma1, gamma2 */
    size_t b = (size_t)s->capacity, d = (size_t)c->dim, n = (size_t)st->tokens, head = d / (size_t)c->heads;
    st->places = VT_R(vt_reals)(a, n * PLACE), st->encoded = VT_R(vt_reals)(a, n * d);
    VT_R(vt_block_sizes) room = {0};
    const VT_R(vt_class_shape) classes = class_block(st, c, 0, s->capacity);
    VT_R(vt_block_measure)(&room, &classes.block); /* its sequences are the longer ones */
    size_t of_xca = head * head + 2 * head, of_class = VT_R(vt_class_score)(&classes);
    room.score = of_xca > of_class ? of_xca : of_class;
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    plan_blocks(s, a);
    st->taps = VT_R(vt_reals)(a, 9 * d);
    for (int k = 0; k < 2; k++) st->rows[k] = VT_R(vt_reals)(a, b * d);
    st->patches = VT_R(vt_reals)(a, b * n * d);
    VT_R(vt_readout_plan)(s, &st->end, vt_xcit_last_layer(c), 1 + st->tokens, c->dim, a);
    st->stream = VT_R(vt_reals)(a, s->mode == VT_GRAD_NONE ? 0 : b * (n + 1) * d);
}

/* ---- forward and backward ---- */

/* k->block.x -> y: attention half (to the LPI's input), LPI (to the MLP half's), MLP half. Binds the layer. */
static void block_forward(VT_R(vt_session) *s, real *y, cache *k, const VT_R(vt_block_shape) *sh) {
    state *st = s->state;
    VT_R(vt_block_cache) first = k->block;
    first.mid = k->x;
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_attend)(s, &first, &st->scratch, sh);
    lpi_forward(s, k->block.mid, k, sh);
    VT_R(vt_block_mlp)(s, y, &k->block, &st->scratch, sh);
}

/* Turns dy into the gradient of a block's input, in place: MLP, local patch interaction, attention; adds the
 * parameters' gradients. Binds the layer. */
static void block_backward(VT_R(vt_session) *s, real *dy, cache *k, const VT_R(vt_block_shape) *sh) {
    state *st = s->state;
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_mlp_backward)(s, dy, &k->block, &st->scratch, sh);
    lpi_backward(s, dy, k, sh);
    VT_R(vt_block_attend_backward)(s, dy, dy, &k->block, &st->scratch, sh);
}

/* patches [b, N, D] -> to [b, 1 + N, D], the class token in front of each image's; binds layer 0. */
static void insert_class_token(VT_R(vt_session) *s, real *to, const real *patches, int b) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)((state *)s->state)->tokens * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)b; i++, to += d + body) {
        memcpy(to, s->w[VT_STEM_CLS], d * sizeof(real));
        memcpy(to + d, patches + i * body, body * sizeof(real));
    }
}

/* Undoes insert_class_token on a gradient: dtokens [b, 1 + N, D] -> [b, N, D], in place; adds the first rows to the
 * class token's. Binds layer 0. */
static void class_token_backward(VT_R(vt_session) *s, real *dtokens) {
    size_t d = (size_t)s->model->config.dim, body = (size_t)((state *)s->state)->tokens * d;
    VT_R(vt_session_bind)(s, 0);
    for (size_t i = 0; i < (size_t)s->batch; i++) {
        const real *from = dtokens + i * (d + body);
        if (s->dw[VT_STEM_CLS]) VT_R(vt_add_to)(s->dw[VT_STEM_CLS], from, d);
        memmove(dtokens + i * body, from + d, body * sizeof(real));
    }
}

/* Computes the logits of b images x; keep: stores what backward reads. */
static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    stem_forward(s, st->blocks[0].block.x, x, b);
    for (int i = 0; i < c->depth; i++) {
        const VT_R(vt_block_shape) sh = xca_block(st, i, b);
        cache *k = &st->blocks[keep ? i : 0];
        block_forward(s, i == c->depth - 1 ? st->patches : k[keep].block.x, k, &sh);
    }
    insert_class_token(s, st->heads[0].x, st->patches, b);
    for (int i = 0; i < c->class_blocks; i++) {
        const VT_R(vt_class_shape) sh = class_block(st, c, i, b);
        VT_R(vt_class_cache) *k = &st->heads[keep ? i : 0];
        VT_R(vt_class_forward)(s, sh.last ? st->end.last : k[keep].x, k, &st->scratch, st->rows, &sh);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

/* Computes dx (NULL: not wanted) from dlogits and adds the gradients of the parameters. */
static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    real *dy = VT_R(vt_readout_backward)(s, &st->end, dlogits);
    for (int i = c->class_blocks - 1; i >= 0; i--, dy = st->stream) {
        const VT_R(vt_class_shape) sh = class_block(st, c, i, s->batch);
        VT_R(vt_class_backward)(s, st->stream, dy, &st->heads[i], &st->scratch, st->rows, &sh);
    }
    class_token_backward(s, st->stream);
    for (int i = c->depth - 1; i >= 0; i--) {
        const VT_R(vt_block_shape) sh = xca_block(st, i, s->batch);
        block_backward(s, st->stream, &st->blocks[i], &sh);
    }
    stem_backward(s, dx, st->stream);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_xcit) = {
    .name = "xcit",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
