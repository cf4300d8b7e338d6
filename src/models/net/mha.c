/* SPDX-License-Identifier: MIT */
/* Multi-head attention as a block's mixer: one product for q, k, v, an optional LayerNorm of each head's q and k
 * (timm's qk_norm), the variant's attention. With tied q and k one row block of the tensor, and of the activations,
 * serves both. */
#include <string.h>
#include "models/net/attention_few.h"
#include "models/net/block.h"
#include "nn/nn.h"

static int qkv_parts(const VT_R(vt_block_shape) *sh) { return sh->tied_qk ? 2 : 3; }

static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    size_t b = (size_t)sh->attn.b, m = b * (size_t)sh->attn.t, d = (size_t)attn.c, h = (size_t)sh->attn.heads;
    k->qkv = vt_arena_take(a, 3 * m * d, sizeof(real));
    k->p = vt_arena_take(a, b * VT_R(vt_attn_p_len)(&attn), sizeof(real));
    k->saved = vt_arena_take(a, b * VT_R(vt_attn_saved_len)(&attn), sizeof(real));
    if (!sh->qk_norm) return;
    k->qk = vt_arena_take(a, 2 * m * d, sizeof(real));
    k->qk_stat = vt_arena_take(a, 4 * m * h, sizeof(real));
}

/* The q (part 0) or k (1) of row i in qkv [M,3A], before its norm in qk [M,2A], and its statistics [M,2,heads,2]. */
typedef struct part {
    size_t qkv, qk, stat;
    const VT_R(vt_norm) norm;
} part;

static part part_of(const VT_R(vt_session) *s, int i, int which, const VT_R(vt_block_shape) *sh) {
    size_t d = (size_t)VT_R(vt_block_inner)(sh), row = (size_t)i, w = (size_t)which;
    return (part){.qkv = row * 3 * d + w * d,
                  .qk = row * 2 * d + w * d,
                  .stat = 2 * (row * 2 + w) * (size_t)sh->attn.heads,
                  .norm = VT_R(vt_norm_bound)(s, which ? VT_SLOT_K_NORM_W : VT_SLOT_Q_NORM_W, VT_NORM_LAYER, sh->eps)};
}

/* A row's heads lie one after the other: they are the rows of a LayerNorm. */
static void norm_forward(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, int m) {
    int heads = sh->attn.heads, d = VT_R(vt_block_inner)(sh);
    for (int i = 0; i < m; i++)
        for (int which = 0; which < 2; which++) {
            part p = part_of(s, i, which, sh);
            memcpy(k->qk + p.qk, k->qkv + p.qkv, (size_t)d * sizeof(real));
            VT_R(vt_norm_forward)(k->qkv + p.qkv, k->qk_stat + p.stat, k->qk + p.qk, p.norm, heads, d / heads);
        }
}

static void norm_backward(VT_R(vt_session) *s, real *dqkv, const VT_R(vt_block_cache) *k,
                          const VT_R(vt_block_shape) *sh, int m) {
    int heads = sh->attn.heads, d = VT_R(vt_block_inner)(sh);
    for (int i = 0; i < m; i++)
        for (int which = 0; which < 2; which++) {
            part p = part_of(s, i, which, sh);
            VT_R(vt_norm_backward)
            (dqkv + p.qkv, NULL, dqkv + p.qkv, k->qk + p.qk, k->qk_stat + p.stat, p.norm, heads, d / heads);
        }
}

/* Where q, k, v lie: rows of q | k | v, or of q | v when q is also k. In the full form v is no part of the product: it
 * has rows of its own behind all of the others. */
static VT_R(vt_attn_in) split(const real *qkv, const VT_R(vt_block_shape) *sh) {
    int d = VT_R(vt_block_inner)(sh), n = qkv_parts(sh) * d;
    bool full = sh->needs & VT_ATTN_FULL;
    size_t m = (size_t)sh->attn.b * (size_t)sh->attn.t;
    VT_R(vt_attn_in) in = {.q = qkv, .k = sh->tied_qk ? qkv : qkv + d, .v = qkv + n - d, .ldq = n, .ldk = n, .ldv = n};
    if (full) in.v = qkv + m * (size_t)(n - d), in.ldq = in.ldk = n - d, in.ldv = d;
    return in;
}

/* x after the forward, d_o after attention's backward, which leaves it as it is. */
static void observe_attention(const VT_R(vt_session) *s, const VT_R(vt_block_cache) *k, const VT_R(vt_attn_shape) *attn,
                              const VT_R(vt_attn_in) *in, const real *x, const real *d_o,
                              const VT_R(vt_block_shape) *sh) {
    size_t d = (size_t)VT_R(vt_block_inner)(sh), v = (size_t)(qkv_parts(sh) - 1) * d;
    const real *w = s->w[VT_SLOT_QKV_W], *b = s->w[VT_SLOT_QKV_B];
    VT_R(vt_block_observe)
    (s, k,
     &(VT_R(vt_attn_record)){.shape = attn,
                             .in = in,
                             .x = x,
                             .d_o = d_o,
                             .w_q = w,
                             .w_v = w + v * (size_t)sh->attn.c,
                             .b_q = b,
                             .b_v = b ? b + v : NULL},
     sh);
}

static bool looked_at(const VT_R(vt_session) *s) { return s->watch || s->ortho > 0; }

/* The last block's attention where the head reads its first tokens alone and nothing looks at it: an attack's on one
 * image. */
static bool has_few_queries(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    bool plain = !sh->attn.pos && !sh->attn.bias && !sh->attn.mask;
    return sh->attn.b == 1 && !looked_at(s) && plain && vt_attn_may_be_few(&s->model->config, sh->tail, sh->attn.t);
}

static VT_R(vt_few) few_of(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    int c = sh->attn.c, v = (qkv_parts(sh) - 1) * c;
    const real *w = s->w[VT_SLOT_QKV_W], *b = s->w[VT_SLOT_QKV_B];
    return (VT_R(vt_few)){.tq = sh->tail,
                          .t = sh->attn.t,
                          .c = c,
                          .heads = sh->attn.heads,
                          .scale = sh->attn.scale,
                          .w_q = w,
                          .w_k = sh->tied_qk ? w : w + (size_t)c * (size_t)c,
                          .w_v = w + (size_t)v * (size_t)c,
                          .b_q = b,
                          .b_v = b ? b + v : NULL};
}

static void attend_all_queries(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, const real *x,
                               const VT_R(vt_block_shape) *sh) {
    int m = sh->attn.b * sh->attn.t, c = sh->attn.c, d = VT_R(vt_block_inner)(sh), n = qkv_parts(sh) * d;
    const VT_R(vt_attn_in) in = split(k->qkv, sh);
    const VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    VT_R(vt_linear) l = VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W);
    const bool full = sh->needs & VT_ATTN_FULL;
    if (full) l.n = n - d, l.wt = NULL;
    VT_R(vt_linear_forward)(k->qkv, NULL, x, l, m);
    if (full) VT_R(vt_full_values)(k, k->qkv + (in.v - k->qkv), &in, l.w, l.w + l.n * c, sh);
    if (sh->qk_norm) norm_forward(s, k, sh, m);
    VT_R(vt_attn_forward)(o, k->p, k->saved, &in, s->w + VT_SLOT_ATTN, &attn);
    k->formed = true;
}

static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    k->few = has_few_queries(s, sh), k->formed = false;
    if (k->few) {
        const VT_R(vt_few) f = few_of(s, sh);
        VT_R(vt_few_forward)(o, t->kept, t->wide, x, &f);
        return;
    }
    attend_all_queries(s, o, k, x, sh);
    const VT_R(vt_attn_in) in = split(k->qkv, sh);
    const VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    if (s->watch) observe_attention(s, k, &attn, &in, x, NULL, sh);
}

/* Forms what few queries left out, of the block's input, with which begins what they keep. */
static void ensure_attention_formed(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                                    const VT_R(vt_block_shape) *sh) {
    if (!k->formed) attend_all_queries(s, t->wide, k, t->kept, sh);
}

static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_attn_inject) *inject = VT_R(vt_session_inject)(s, sh->index);
    if (k->few && !s->grad && !looked_at(s) && !inject) {
        const VT_R(vt_few) f = few_of(s, sh);
        VT_R(vt_few_backward)(dx, t->wide, d_o, t->kept, &f);
        return;
    }
    ensure_attention_formed(s, k, t, sh);
    int m = sh->attn.b * sh->attn.t, c = sh->attn.c, d = VT_R(vt_block_inner)(sh), n = qkv_parts(sh) * d;
    const VT_R(vt_attn_in) in = split(k->qkv, sh), to = split(t->wide, sh);
    const VT_R(vt_attn_grad) g = {.q = t->wide,
                                  .k = t->wide + (to.k - t->wide),
                                  .v = t->wide + (to.v - t->wide),
                                  .ldq = to.ldq,
                                  .ldk = to.ldk,
                                  .ldv = to.ldv};
    VT_R(vt_linear) l = VT_R(vt_linear_bound)(s, VT_SLOT_QKV_W);
    VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    attn.ortho = s->ortho, attn.ortho_value = 0, attn.inject = inject;
    VT_R(vt_attn_backward)(&g, s->grad ? s->dw + VT_SLOT_ATTN : NULL, t->score, d_o, k->p, k->saved, &in,
                           s->w + VT_SLOT_ATTN, &attn);
    s->ortho_value += attn.ortho_value;
    if (s->watch) observe_attention(s, k, &attn, &in, NULL, d_o, sh);
    if (sh->qk_norm) norm_backward(s, t->wide, k, sh, m);
    if (sh->needs & VT_ATTN_FULL) {
        l.n = n - d;
        VT_R(vt_full_values_backward)(k, &g, l.dw, l.dw ? l.dw + l.n * c : NULL, &in, l.w, l.w + l.n * c, sh);
    }
    VT_R(vt_linear_backward)(dx, NULL, t->wide, x, l, m);
}

static void view(VT_R(vt_session) *s, VT_R(vt_attn_view) *v, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                 const VT_R(vt_block_shape) *sh) {
    ensure_attention_formed(s, k, t, sh);
    *v = (VT_R(vt_attn_view)){.in = split(k->qkv, sh),
                              .p = k->p,
                              .t = sh->attn.t,
                              .d = VT_R(vt_block_inner)(sh) / sh->attn.heads,
                              .heads = sh->attn.heads,
                              .scale = sh->attn.scale};
}

const VT_R(vt_mixer) VT_R(vt_mha) = {.plan = plan, .forward = forward, .backward = backward, .view = view};
