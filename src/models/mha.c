/* Multi-head attention as a block's mixer: one product for q, k, v, an optional LayerNorm of each head's q and k
 * (timm's qk_norm), the variant's attention. With tied q and k one tensor row block serves both. */
#include <string.h>
#include "models/block.h"
#include "nn/nn.h"

static int qkv_parts(const VT_R(vt_block_shape) *sh) { return sh->tied_qk ? 2 : 3; }

static void params(vt_param_list *l, const VT_R(vt_block_shape) *sh, const char *prefix) {
    const int64_t d = sh->attn.c, n = qkv_parts(sh) * d, head = d / sh->attn.heads;
    VT_R(vt_block_add)(l, sh, VT_SLOT_QKV_W, true, VT_INIT_LINEAR, prefix, "attn.qkv.weight", n, d);
    if (sh->qkv_bias) VT_R(vt_block_add)(l, sh, VT_SLOT_QKV_B, false, VT_INIT_ZERO, prefix, "attn.qkv.bias", n, 0);
    if (!sh->qk_norm) return;
    VT_R(vt_block_add)(l, sh, VT_SLOT_Q_NORM_W, false, VT_INIT_ONE, prefix, "attn.q_norm.weight", head, 0);
    VT_R(vt_block_add)(l, sh, VT_SLOT_Q_NORM_B, false, VT_INIT_ZERO, prefix, "attn.q_norm.bias", head, 0);
    VT_R(vt_block_add)(l, sh, VT_SLOT_K_NORM_W, false, VT_INIT_ONE, prefix, "attn.k_norm.weight", head, 0);
    VT_R(vt_block_add)(l, sh, VT_SLOT_K_NORM_B, false, VT_INIT_ZERO, prefix, "attn.k_norm.bias", head, 0);
}

static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    size_t b = (size_t)sh->attn.b, m = b * (size_t)sh->attn.t, d = (size_t)sh->attn.c, h = (size_t)sh->attn.heads;
    k->qkv = vt_arena_take(a, 3 * m * d, sizeof(real));
    k->p = vt_arena_take(a, b * VT_R(vt_attn_p_len)(&sh->attn), sizeof(real));
    k->saved = vt_arena_take(a, b * VT_R(vt_attn_saved_len)(&sh->attn), sizeof(real));
    if (!sh->qk_norm) return;
    k->qk = vt_arena_take(a, 2 * m * d, sizeof(real));
    k->qk_mean = vt_arena_take(a, 2 * m * h, sizeof(real));
    k->qk_r = vt_arena_take(a, 2 * m * h, sizeof(real));
}

/* The q (part 0) or k (1) of row i in qkv [M,3D], before its norm in qk [M,2D], and its statistics [M,2,heads]. */
typedef struct part {
    size_t qkv, qk, stat;
    int slot;
} part;

static part part_of(int i, int which, const VT_R(vt_block_shape) *sh) {
    size_t d = (size_t)sh->attn.c, row = (size_t)i, w = (size_t)which;
    return (part){.qkv = row * 3 * d + w * d,
                  .qk = row * 2 * d + w * d,
                  .stat = (row * 2 + w) * (size_t)sh->attn.heads,
                  .slot = which ? VT_SLOT_K_NORM_W : VT_SLOT_Q_NORM_W};
}

/* A row's heads lie one after the other: they are the rows of a LayerNorm. */
static void norm_forward(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, int m) {
    int heads = sh->attn.heads, d = sh->attn.c;
    for (int i = 0; i < m; i++)
        for (int which = 0; which < 2; which++) {
            part p = part_of(i, which, sh);
            memcpy(k->qk + p.qk, k->qkv + p.qkv, (size_t)d * sizeof(real));
            VT_R(vt_layernorm_forward)(k->qkv + p.qkv, k->qk_mean + p.stat, k->qk_r + p.stat, k->qk + p.qk,
                                       s->w[p.slot], s->w[p.slot + 1], heads, d / heads, sh->eps);
        }
}

static void norm_backward(VT_R(vt_session) *s, real *dqkv, const VT_R(vt_block_cache) *k,
                          const VT_R(vt_block_shape) *sh, int m) {
    int heads = sh->attn.heads, d = sh->attn.c;
    for (int i = 0; i < m; i++)
        for (int which = 0; which < 2; which++) {
            part p = part_of(i, which, sh);
            VT_R(vt_layernorm_backward)(dqkv + p.qkv, s->dw[p.slot], s->dw[p.slot + 1], NULL, dqkv + p.qkv,
                                        k->qk + p.qk, s->w[p.slot], k->qk_mean + p.stat, k->qk_r + p.stat, heads,
                                        d / heads);
        }
}

static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    int m = sh->attn.b * sh->attn.t, d = sh->attn.c, n = qkv_parts(sh) * d;
    real *out = sh->tied_qk ? t->wide : k->qkv;
    VT_R(vt_linear_forward)(out, x, s->w[VT_SLOT_QKV_W], s->wt[VT_SLOT_QKV_W], s->w[VT_SLOT_QKV_B], m, n, d);
    size_t row = (size_t)d * sizeof(real);
    for (int i = 0; sh->tied_qk && i < m; i++) { /* q | v -> q | q | v */
        const real *from = out + (size_t)i * (size_t)(2 * d);
        real *to = k->qkv + (size_t)i * (size_t)(3 * d);
        memcpy(to, from, row), memcpy(to + d, from, row), memcpy(to + 2 * d, from + d, row);
    }
    if (sh->qk_norm) norm_forward(s, k, sh, m);
    VT_R(vt_attention_forward)(o, k->p, k->saved, k->qkv, s->w + VT_SLOT_ATTN, &sh->attn);
}

/* k = q:  dq += dk. [M,3D] becomes [M,2D] in place, front to back. */
static void fold(real *dqkv, int m, int d) {
    for (int i = 0; i < m; i++) {
        const real *from = dqkv + (size_t)i * (size_t)(3 * d);
        real *to = dqkv + (size_t)i * (size_t)(2 * d);
        for (int j = 0; j < d; j++) to[j] = from[j] + from[d + j];
        memmove(to + d, from + 2 * d, (size_t)d * sizeof(real));
    }
}

static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    int m = sh->attn.b * sh->attn.t, d = sh->attn.c, n = qkv_parts(sh) * d;
    VT_R(vt_attn_shape) attn = sh->attn;
    attn.ortho = s->ortho, attn.ortho_value = 0;
    VT_R(vt_attention_backward)(t->wide, s->grad ? s->dw + VT_SLOT_ATTN : NULL, t->score, d_o, k->p, k->saved, k->qkv,
                                s->w + VT_SLOT_ATTN, &attn);
    s->ortho_value += attn.ortho_value;
    if (sh->qk_norm) norm_backward(s, t->wide, k, sh, m);
    if (sh->tied_qk) fold(t->wide, m, d);
    VT_R(vt_linear_backward)(dx, s->dw[VT_SLOT_QKV_W], s->dw[VT_SLOT_QKV_B], t->wide, x, s->w[VT_SLOT_QKV_W], m, n, d);
}

const VT_R(vt_mixer) VT_R(vt_mha) = {.params = params, .plan = plan, .forward = forward, .backward = backward};
