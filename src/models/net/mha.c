/* SPDX-License-Identifier: MIT */
/* Multi-head attention as a block's token mixer: a product for q, k, v (or one for q and k, one for v), an optional
 * LayerNorm of each head's q and k (timm's qk_norm), the variant's attention. With tied q and k one row block of the
 * tensor, and of the activations, serves both. */
#include <string.h>
#include "models/net/block.h"
#include "nn/nn.h"

/* Takes the memory of attention from the arena: q, k, v, maps and what backward reads. */
static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    size_t b = (size_t)sh->attn.b, m = b * (size_t)sh->attn.t, d = (size_t)sh->attn.c, h = (size_t)sh->attn.heads;
    k->qkv = VT_R(vt_reals)(a, 3 * m * d);
    k->p = VT_R(vt_reals)(a, b * VT_R(vt_attn_p_len)(&sh->attn));
    k->saved = VT_R(vt_reals)(a, b * VT_R(vt_attn_saved_len)(&sh->attn));
    k->qk = VT_R(vt_reals)(a, sh->qk_norm ? 2 * m * d : 0);
    k->qk_stat = VT_R(vt_reals)(a, sh->qk_norm ? 4 * m * h : 0);
}

/* ---- q, k, v ---- */

/* v has a product of its own, or none: in the full form it is made of q. */
static bool is_apart(const VT_R(vt_block_shape) *sh) { return sh->v_slot || sh->needs & VT_ATTN_FULL; }

/* The tensors of q and k (tied: of both at once), and of v: rows of the same, or another tensor. If v is not apart, qk
 * is the map to all three. */
typedef struct projections {
    VT_R(vt_linear) qk, v;
} projections;

/* Returns W_q, W_k and W_v of the bound layer. */
static projections projections_of(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    projections p = {.qk = VT_R(vt_linear_bound)(s, sh->v_slot ? sh->qk_slot : VT_SLOT_QKV_W)};
    const int rows = (sh->tied_qk ? 1 : 2) * sh->attn.c;
    if (sh->v_slot) {
        p.v = VT_R(vt_linear_bound)(s, sh->v_slot);
        return p;
    }
    p.v = (VT_R(vt_linear)){.w = p.qk.w + (size_t)rows * (size_t)p.qk.k, .b = p.qk.b ? p.qk.b + rows : NULL};
    if (p.qk.dw) p.v.dw = p.qk.dw + (size_t)rows * (size_t)p.qk.k;
    if (is_apart(sh)) p.qk.n = rows, p.qk.wt = NULL;
    return p;
}

/* Where q, k, v (or their gradients) lie: rows of q | k | v, or of q | v when q is also k; apart, v has rows of its own
 * behind all of the others. */
static VT_R(vt_attn_grad) split(real *qkv, const VT_R(vt_block_shape) *sh) {
    const int d = sh->attn.c, qk = (sh->tied_qk ? 1 : 2) * d, ld = is_apart(sh) ? qk : qk + d;
    const size_t m = (size_t)sh->attn.b * (size_t)sh->attn.t;
    return (VT_R(vt_attn_grad)){.q = qkv,
                                .k = qkv + qk - d,
                                .v = is_apart(sh) ? qkv + m * (size_t)qk : qkv + qk,
                                .ldq = ld,
                                .ldk = ld,
                                .ldv = is_apart(sh) ? d : ld};
}

/* Returns q, k and v of a cache. */
static VT_R(vt_attn_in) inputs_of(const VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_attn_grad) g = split(k->qkv, sh);
    return (VT_R(vt_attn_in)){g.q, g.k, g.v, g.ldq, g.ldk, g.ldv};
}

/* The LayerNorm of q and k, a row's heads being its rows. dqkv NULL: forward, in place in k->qkv, whose q and k go to
 * k->qk, statistics to k->qk_stat; else backward, in place in dqkv [M,3A], adding to the parameters' gradients. */
static void norm_heads(VT_R(vt_session) *s, real *dqkv, VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh) {
    const int m = sh->attn.b * sh->attn.t, heads = sh->attn.heads, d = sh->attn.c;
    for (int which = 0; which < 2; which++) {
        const int slot = which ? VT_SLOT_K_NORM_W : VT_SLOT_Q_NORM_W;
        const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, slot, VT_NORM_LAYER, sh->eps);
        for (int i = 0; i < m; i++) {
            real *x = k->qk + (2 * i + which) * d, *y = (dqkv ? dqkv : k->qkv) + (3 * i + which) * d;
            real *stat = k->qk_stat + 2 * (2 * i + which) * heads;
            if (dqkv) {
                VT_R(vt_norm_backward)(y, NULL, y, x, stat, norm, heads, d / heads);
            } else {
                memcpy(x, y, (size_t)d * sizeof(real));
                VT_R(vt_norm_forward)(y, stat, x, norm, heads, d / heads);
            }
        }
    }
}

/* ---- few queries ----
 *
 * Attention of few queries leaves keys and values unformed: with k_j = W_K x_j + b_K,
 *
 *   q . k_j = (W_K^T q) . x_j + q . b_K,    sum_j p_j v_j = W_V (sum_j p_j x_j) + b_V,
 *
 * and a softmax does not see q . b_K, nor what all x_j share. For one token of t that is a row's work a head in the
 * place of 2 t rows of projections: DeepSeek-AI 2024, "DeepSeek-V2", section 2.1.2 (there "absorbed" projections). Its
 * products are few and stay in float32 (double in the double copy) whatever the session's are. It is of dot products
 * and one width c, of x and of all heads together (vt_attn_may_be_few). */

/* Pieces of t->kept. Rows of heads: head h's begin at h n_read. Two sums of the backward stand one below the other, for
 * one product of both. */
typedef struct pieces {
    real *x, *apart;                       /* [t,c]: the tokens, and less their mean */
    real *dy, *u;                          /* [heads n_read, c] each: dY, and below it U = W_K^T q */
    real *p, *ds;                          /* [heads n_read, ldp] each: P, and below it dS */
    int t, c, d, n_read, rows, heads, ldp; /* width, of a head; heads n_read */
    size_t head;                           /* numbers of a head's projection [d,c] */
    size_t len;                            /* of all */
} pieces;

/* Returns the pieces with their places in `kept`, or with NULL their sizes alone. */
static pieces pieces_of(real *kept, const VT_R(vt_block_shape) *sh) {
    int c = sh->attn.c, t = sh->attn.t, heads = sh->attn.heads, rows = heads * sh->n_read, ldp = vt_attn_ldp(t);
    size_t tokens = (size_t)t * (size_t)c, block = (size_t)rows * (size_t)c, map = (size_t)rows * (size_t)ldp;
    pieces k = {.t = t, .c = c, .d = c / heads, .n_read = sh->n_read, .rows = rows, .heads = heads, .ldp = ldp};
    k.head = (size_t)k.d * (size_t)c, k.len = 2 * (tokens + block + map);
    if (!kept) return k;
    k.x = kept, k.apart = k.x + tokens, k.dy = k.apart + tokens, k.u = k.dy + block, k.p = k.u + block;
    k.ds = k.p + map;
    return k;
}

size_t VT_R(vt_mha_kept_len)(const VT_R(vt_block_shape) *sh) { return sh->n_read ? pieces_of(NULL, sh).len : 0; }

/* to [heads n_read, c] = rows of x [n_read, heads d] times each head's projection in w */
static void project_heads(real *to, const real *x, const real *w, const pieces *k) {
    for (int h = 0; h < k->heads; h++)
        VT_GEMM(NULL, false, false, k->n_read, k->c, k->d, 1, x + h * k->d, k->c, w + (size_t)h * k->head, k->c, 0,
                to + h * k->n_read * k->c, k->c);
}

/* The way of project_heads back: to [n_read, heads d] = x W_h^T + beta to, for each head's rows of x and its projection
 * in w. */
static void unproject_heads(real *to, const real *x, const real *w, real beta, const pieces *k) {
    for (int h = 0; h < k->heads; h++)
        VT_GEMM(NULL, false, true, k->n_read, k->d, k->c, 1, x + h * k->n_read * k->c, k->c, w + (size_t)h * k->head,
                k->c, beta, to + h * k->d, k->c);
}

/* to [t, c] = x - mean, mean [c] over the rows of x. Softmax sees no common part of the scores, its adjoint none of dP,
 * and dS has none: what all tokens share would only cost digits. */
static void centre_over_tokens(real *to, real *mean, const real *x, int t, int c) {
    memset(mean, 0, (size_t)c * sizeof(real));
    for (int i = 0; i < t; i++) VT_R(vt_add_to)(mean, x + (size_t)i * (size_t)c, (size_t)c);
    for (int j = 0; j < c; j++) mean[j] /= (real)t;
    for (int i = 0; i < t; i++)
        for (int j = 0; j < c; j++)
            to[(size_t)i * (size_t)c + (size_t)j] = x[(size_t)i * (size_t)c + (size_t)j] - mean[j];
}

/* Returns W_K, which is W_Q if they are tied. */
static const real *key_weights(const projections *w, const VT_R(vt_block_shape) *sh) {
    return sh->tied_qk ? w->qk.w : w->qk.w + (size_t)sh->attn.c * (size_t)sh->attn.c;
}

/* x [t,c] -> o [n_read,c]; sets kept's tokens, U and P for backward_few. scratch: [t, 3 c] are enough */
static void forward_few(real *o, real *kept, real *scratch, const real *x, const projections *w,
                        const VT_R(vt_block_shape) *sh) {
    const pieces k = pieces_of(kept, sh);
    const int c = k.c;
    real *q = scratch, *mean = q + k.n_read * c, *y = mean + c;
    memcpy(k.x, x, (size_t)k.t * (size_t)c * sizeof(real));
    centre_over_tokens(k.apart, mean, x, k.t, c);
    VT_R(vt_linear_forward)(q, NULL, x, (VT_R(vt_linear)){.w = w->qk.w, .b = w->qk.b, .n = c, .k = c}, k.n_read);
    project_heads(k.u, q, key_weights(w, sh), &k);
    VT_GEMM(NULL, false, true, k.rows, k.t, c, 1, k.u, c, k.apart, c, 0, k.p, k.ldp);
    VT_R(vt_softmax_forward)(k.p, k.p, sh->attn.scale, k.rows, k.t, k.ldp);
    VT_GEMM(NULL, false, false, k.rows, c, k.t, 1, k.p, k.ldp, k.apart, c, 0, y, c);
    for (int i = 0; i < k.rows; i++) VT_R(vt_add_to)(y + i * c, mean, (size_t)c);
    for (int i = 0; w->v.b && i < k.n_read; i++) memcpy(o + i * c, w->v.b, (size_t)c * sizeof(real));
    unproject_heads(o, y, w->v.w, w->v.b ? 1 : 0, &k);
}

/* d_o [n_read,c] -> dx [t,c], which may be d_o's memory; overwrites kept's dY and dS alone. dY = do W_V,  dP = dY x^T,
 * dS by the softmax, dU = dS x,  dq = dU W_K^T,  dx = P^T dY + dS^T U, and dq W_Q to the rows of the queries. */
static void backward_few(real *dx, real *scratch, const real *d_o, real *kept, const projections *w,
                         const VT_R(vt_block_shape) *sh) {
    const pieces k = pieces_of(kept, sh);
    const int c = k.c;
    real *du = scratch, *dq = du + k.rows * c;
    project_heads(k.dy, d_o, w->v.w, &k);
    VT_GEMM(NULL, false, true, k.rows, k.t, c, 1, k.dy, c, k.apart, c, 0, k.ds, k.ldp);
    VT_R(vt_softmax_backward)(k.ds, k.ds, k.p, sh->attn.scale, k.rows, k.t, k.ldp);
    VT_GEMM(NULL, false, false, k.rows, c, k.t, 1, k.ds, k.ldp, k.apart, c, 0, du, c);
    unproject_heads(dq, du, key_weights(w, sh), 0, &k);
    VT_GEMM(NULL, true, false, k.t, c, 2 * k.rows, 1, k.p, k.ldp, k.dy, c, 0, dx, c);
    VT_GEMM(NULL, false, false, k.n_read, c, c, 1, dq, c, w->qk.w, c, 1, dx, c);
}

/* ---- the token mixer ---- */

/* Shows the session's watcher x after the forward, d_o after attention's backward, which leaves it as it is. */
static void observe_attention(const VT_R(vt_session) *s, const VT_R(vt_block_cache) *k, const real *x, const real *d_o,
                              const projections *w, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_attn_in) in = inputs_of(k, sh);
    const int rows = sh->tied_qk ? 0 : sh->attn.c;
    VT_R(vt_attn_record) a = {.block = sh->index,
                              .dim = sh->dim,
                              .shape = &sh->attn,
                              .in = &in,
                              .x = x,
                              .p = k->p,
                              .saved = k->saved,
                              .d_o = d_o,
                              .w_q = w->qk.w,
                              .w_k = w->qk.w + (size_t)rows * (size_t)sh->dim,
                              .w_v = w->v.w,
                              .w_o = s->w[VT_SLOT_PROJ_W],
                              .b_q = w->qk.b,
                              .b_k = w->qk.b ? w->qk.b + rows : NULL,
                              .b_v = w->v.b,
                              .eps = sh->eps,
                              .tied = sh->tied_qk,
                              .full = (sh->needs & VT_ATTN_FULL) != 0};
    for (int i = 0; i < 2; i++) a.q_norm[i] = s->w[VT_SLOT_Q_NORM_W + i], a.k_norm[i] = s->w[VT_SLOT_K_NORM_W + i];
    s->watch(s->watch_ctx, &a);
}

/* Returns whether a hook or the penalty L_AM needs the attention of all queries. */
static bool needs_all_queries(const VT_R(vt_session) *s) { return s->watch || s->ortho > 0; }

/* The last block's attention where the head reads its first tokens alone and nothing looks at it: an attack's on one
 * image. */
static bool has_few_queries(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    bool plain = !sh->attn.pos && !sh->attn.bias && !sh->attn.mask;
    return sh->attn.b == 1 && !needs_all_queries(s) && plain &&
           vt_attn_may_be_few(&s->model->config, sh->n_read, sh->attn.t);
}

/* Computes attention of all tokens to all tokens, o [b t, c]; sets k's qkv, p, saved and formed. */
static void attend_all_queries(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, const real *x,
                               const projections *w, const VT_R(vt_block_shape) *sh) {
    const int m = sh->attn.b * sh->attn.t;
    const VT_R(vt_attn_in) in = inputs_of(k, sh);
    real *v = split(k->qkv, sh).v;
    VT_R(vt_linear_forward)(k->qkv, NULL, x, w->qk, m);
    if (sh->needs & VT_ATTN_FULL)
        VT_R(vt_full_values)(k, v, &in, w->qk.w, w->v.w, sh);
    else if (is_apart(sh))
        VT_R(vt_linear_forward)(v, NULL, x, w->v, m);
    if (sh->qk_norm) norm_heads(s, NULL, k, sh);
    VT_R(vt_attn_forward)(o, k->p, k->saved, &in, &sh->attn);
    k->formed = true;
}

/* Computes o, attention before the projection, of tokens x (vt_token_mixer), of all queries or, for an attack's last
 * block, of few: k->few says which. Shows it to the session's watcher. */
static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    const projections w = projections_of(s, sh);
    k->few = has_few_queries(s, sh), k->formed = false;
    if (k->few)
        forward_few(o, t->kept, t->wide, x, &w, sh);
    else
        attend_all_queries(s, o, k, x, &w, sh);
    if (s->watch) observe_attention(s, k, x, NULL, &w, sh);
}

/* Forms what few queries left out, of the block's input, with which begins what they keep; nothing if it is formed.
 * Overwrites t->wide. */
static void ensure_attention_formed(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                                    const projections *w, const VT_R(vt_block_shape) *sh) {
    if (!k->formed) attend_all_queries(s, t->wide, k, t->kept, w, sh);
}

/* Computes dx from d_o; adds the gradients of the parameters and, with s->ortho, to s->ortho_value. Shows d_o to the
 * session's watcher. */
static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    const projections w = projections_of(s, sh);
    const VT_R(vt_attn_inject) *inject = VT_R(vt_session_inject)(s, sh->index);
    if (k->few && !s->grad && !needs_all_queries(s) && !inject) {
        backward_few(dx, t->wide, d_o, t->kept, &w, sh);
        return;
    }
    ensure_attention_formed(s, k, t, &w, sh);
    const int m = sh->attn.b * sh->attn.t;
    const VT_R(vt_attn_in) in = inputs_of(k, sh);
    const VT_R(vt_attn_grad) g = split(t->wide, sh);
    VT_R(vt_attn_shape) attn = sh->attn;
    attn.ortho = s->ortho, attn.ortho_value = 0, attn.inject = inject;
    VT_R(vt_attn_backward)(&g, t->score, d_o, k->p, k->saved, &in, &attn);
    s->ortho_value += attn.ortho_value;
    if (s->watch) observe_attention(s, k, NULL, d_o, &w, sh);
    if (sh->qk_norm) norm_heads(s, t->wide, k, sh);
    const bool full = sh->needs & VT_ATTN_FULL;
    if (full) VT_R(vt_full_values_backward)(k, &g, w.qk.dw, w.v.dw, &in, w.qk.w, w.v.w, sh);
    VT_R(vt_linear_backward)(dx, NULL, t->wide, x, w.qk, m);
    if (is_apart(sh) && !full) VT_R(vt_linear_backward)(dx, dx, g.v, x, w.v, m);
}

void VT_R(vt_block_view)(VT_R(vt_session) *s, VT_R(vt_attn_view) *v, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                         const VT_R(vt_block_shape) *sh) {
    VT_R(vt_session_bind)(s, sh->layer);
    const projections w = projections_of(s, sh);
    ensure_attention_formed(s, k, t, &w, sh);
    *v = (VT_R(vt_attn_view)){.in = inputs_of(k, sh),
                              .p = k->p,
                              .t = sh->attn.t,
                              .d = sh->attn.c / sh->attn.heads,
                              .heads = sh->attn.heads,
                              .scale = sh->attn.scale};
}

const VT_R(vt_token_mixer) VT_R(vt_mha) = {.plan = plan, .forward = forward, .backward = backward};
