/* SPDX-License-Identifier: MIT */
/* Class attention (Touvron et al. 2021, CaiT), as timm's XCiT computes it. Of a sequence x_0 (class), x_1..x_N
 * (patches):
 *   u = norm1 x,  a = proj(attention of the query of u_0 over the keys and values of all u)
 *   x_0 += gamma1 a,  x_j += gamma1 u_j
 *   r = norm2 x (tokens_norm), or of the class row alone;  y_0 = r_0 + gamma2 mlp(r_0),  y_j = 2 r_j
 * The residual starts again from r, and timm adds the patch rows to themselves. The branch that ARD closes is all that
 * gamma1 multiplies. With tied_qk attn.q serves as attn.k. */
#include "models/net/class_attention.h"

#include <string.h>
#include "nn/nn.h"

typedef VT_R(vt_class_shape) shape;
typedef VT_R(vt_class_cache) cache;
typedef VT_R(vt_block_scratch) scratch;

static bool is_full_form(const shape *sh) { return sh->block.needs & VT_ATTN_FULL; }

void VT_R(vt_class_plan)(cache *k, const shape *sh, vt_grad_mode mode, vt_arena *a) {
    const VT_R(vt_attn_shape) *at = &sh->block.attn;
    const size_t b = (size_t)at->b, m = b * (size_t)at->t, d = (size_t)at->c, h = b * (size_t)sh->block.hidden;
    const size_t rest = sh->last ? 0 : m - b, params = mode == VT_GRAD_PARAMS;
    *k = (cache){.x = VT_R(vt_reals)(a, m * d), .stat1 = VT_R(vt_reals)(a, 2 * m)};
    k->q = VT_R(vt_reals)(a, sh->block.tied_qk ? 0 : b * d), k->k = VT_R(vt_reals)(a, m * d);
    k->v = VT_R(vt_reals)(a, m * d), k->p = VT_R(vt_reals)(a, b * VT_R(vt_attn_p_len)(at));
    k->saved = VT_R(vt_reals)(a, b * VT_R(vt_attn_saved_len)(at));
    k->o = VT_R(vt_reals)(a, b * d), k->branch = VT_R(vt_reals)(a, params * b * d);
    k->mid = VT_R(vt_reals)(a, b * d), k->stat2 = VT_R(vt_reals)(a, 2 * b);
    k->rest = VT_R(vt_reals)(a, rest * d), k->rest_stat = VT_R(vt_reals)(a, 2 * rest);
    k->cls = VT_R(vt_reals)(a, b * d);
    k->mlp.slope = VT_R(vt_reals)(a, mode != VT_GRAD_NONE ? h : 0);
    k->mlp.act = VT_R(vt_reals)(a, params * h), k->mlp.branch2 = VT_R(vt_reals)(a, params * b * d);
    k->mlp.mix = VT_R(vt_reals)(a, is_full_form(sh) ? 2 * d * (d / (size_t)at->heads) : 0);
}

/* Returns how many numbers of scratch one class query needs: dP [1, ldp], and what a variant's own values take. */
size_t VT_R(vt_class_score)(const shape *sh) {
    const VT_R(vt_attn_shape) *at = &sh->block.attn;
    return (size_t)vt_attn_ldp(at->t) + (size_t)at->t * (size_t)(at->c / at->heads);
}

/* ---- rows of a sequence ---- */

/* to [b,D] = the class rows of from [b*T,D] */
static void pack_class_rows(real *to, const real *from, const VT_R(vt_attn_shape) *at) {
    size_t row = (size_t)at->c, seq = (size_t)at->t * row;
    for (int i = 0; i < at->b; i++) memcpy(to + (size_t)i * row, from + (size_t)i * seq, row * sizeof(real));
}

/* Sets the class rows of to [b*T,D] to from [b,D]; its other rows stay. */
static void unpack_class_rows(real *to, const real *from, const VT_R(vt_attn_shape) *at) {
    size_t row = (size_t)at->c, seq = (size_t)at->t * row;
    for (int i = 0; i < at->b; i++) memcpy(to + (size_t)i * seq, from + (size_t)i * row, row * sizeof(real));
}

/* Returns the row, in sequences [b*T,D], of patch row j of [b*N,D]. */
static size_t patch_at(size_t j, const VT_R(vt_attn_shape) *at) {
    size_t n = (size_t)at->t - 1;
    return j + j / n + 1;
}
static size_t count_patch_rows(const VT_R(vt_attn_shape) *at) { return (size_t)at->b * ((size_t)at->t - 1); }

/* Returns what attention reads of the cache; a tied query is the class row's key. */
static VT_R(vt_attn_in) reads(const cache *k, const VT_R(vt_attn_shape) *at) {
    return (VT_R(vt_attn_in)){.q = k->q ? k->q : k->k,
                              .k = k->k,
                              .v = k->v,
                              .ldq = k->q ? at->c : at->t * at->c,
                              .ldk = at->c,
                              .ldv = at->c};
}

/* Returns q, k, v of all rows, for the full form of l2, which multiplies the queries of all rows; they are the keys: it
 * goes with tied_qk. */
static VT_R(vt_attn_in) all_rows(const cache *k, int d) {
    return (VT_R(vt_attn_in)){.q = k->k, .k = k->k, .v = k->v, .ldq = d, .ldk = d, .ldv = d};
}

/* ---- forward ---- */

/* Sets k->rest = x_j + gamma1 u_j and the patch rows of y to twice that, or (tokens_norm) twice its norm2, whose
 * statistics k->rest_stat keeps; the class rows of y stay. */
static void pass_patches(VT_R(vt_session) *s, real *y, cache *k, const real *u, VT_R(vt_norm) norm2, const shape *sh) {
    const VT_R(vt_attn_shape) *at = &sh->block.attn;
    const size_t d = (size_t)at->c, n = count_patch_rows(at);
    const real *f = s->w[VT_SLOT_FACTOR1];
    for (size_t j = 0; j < n; j++) {
        size_t row = patch_at(j, at) * d;
        for (size_t c = 0; c < d; c++) k->rest[j * d + c] = k->x[row + c] + f[c] * u[row + c];
    }
    for (size_t j = 0; j < n; j++) {
        real *out = y + patch_at(j, at) * d;
        const real *from = k->rest + j * d;
        if (sh->tokens_norm) VT_R(vt_norm_forward)(out, k->rest_stat + 2 * j, from, norm2, 1, at->c);
        for (size_t c = 0; c < d; c++) out[c] = 2 * (sh->tokens_norm ? out[c] : from[c]);
    }
}

void VT_R(vt_class_forward)(VT_R(vt_session) *s, real *y, cache *k, scratch *t, real *const rows[2], const shape *sh) {
    const VT_R(vt_block_shape) *blk = &sh->block;
    const VT_R(vt_attn_shape) at = blk->attn;
    int b = at.b, m = b * at.t, d = at.c;
    VT_R(vt_session_bind)(s, blk->layer);
    const VT_R(vt_norm) norm1 = VT_R(vt_norm_bound)(s, VT_SLOT_NORM1, blk->norm, blk->eps);
    const VT_R(vt_norm) norm2 = VT_R(vt_norm_bound)(s, VT_SLOT_NORM2, blk->norm, blk->eps);
    VT_R(vt_norm_forward)(t->norm, k->stat1, k->x, norm1, m, d);
    pack_class_rows(rows[0], t->norm, &at);
    if (k->q) VT_R(vt_linear_forward)(k->q, NULL, rows[0], VT_R(vt_linear_bound)(s, VT_CLASS_Q_W), b);
    VT_R(vt_linear_forward)(k->k, NULL, t->norm, VT_R(vt_linear_bound)(s, k->q ? VT_CLASS_K_W : VT_CLASS_Q_W), m);
    const VT_R(vt_attn_in) in = reads(k, &at), every = all_rows(k, d);
    if (is_full_form(sh))
        VT_R(vt_full_values)(&k->mlp, k->v, &every, s->w[VT_CLASS_Q_W], s->w[VT_CLASS_V_W], blk);
    else
        VT_R(vt_linear_forward)(k->v, NULL, t->norm, VT_R(vt_linear_bound)(s, VT_CLASS_V_W), m);
    VT_R(vt_attn_forward)(k->o, k->p, k->saved, &in, &at);
    pack_class_rows(rows[0], k->x, &at);
    VT_R(vt_branch_end)(s, k->mid, k->branch, rows[0], k->o, VT_SLOT_PROJ_W, VT_SLOT_FACTOR1, b, d);
    VT_R(vt_norm_forward)(k->cls, k->stat2, k->mid, norm2, b, d);
    VT_R(vt_mlp_forward)(s, sh->last ? y : rows[0], &k->mlp, t, k->cls, k->cls, b, blk);
    if (sh->last) return;
    pass_patches(s, y, k, t->norm, norm2, sh);
    unpack_class_rows(y, rows[0], &at);
}

/* ---- backward ---- */

/* Takes patch rows of dy to the gradient of rest, packed in drest: doubled and, with tokens_norm, through norm2, whose
 * parameters' gradients are added to. */
static void patches_backward(real *drest, const real *dy, const cache *k, VT_R(vt_norm) norm2, const shape *sh) {
    const VT_R(vt_attn_shape) *at = &sh->block.attn;
    const size_t d = (size_t)at->c, n = count_patch_rows(at);
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < d; c++) drest[j * d + c] = 2 * dy[patch_at(j, at) * d + c];
    if (sh->tokens_norm) VT_R(vt_norm_backward)(drest, NULL, drest, k->rest, k->rest_stat, norm2, (int)n, at->c);
}

/* One of q, k, v = u w^T + b:  du += dv w,  dw, db accumulate */
static void add_linear_backward(VT_R(vt_session) *s, real *du, const real *dv, const real *u, int slot, int m) {
    VT_R(vt_linear_backward)(du, du, dv, u, VT_R(vt_linear_bound)(s, slot), m);
}

/* Takes dmid [b,D], the gradient of x_0 + gamma1 a, to du [M,D] (overwritten) through a alone; adds parameter
 * gradients, for which u [M,D] is given, else NULL. row [b,D]: scratch. */
static void attend_backward(VT_R(vt_session) *s, real *du, const real *dmid, const real *u, cache *k, scratch *t,
                            real *row, const shape *sh) {
    VT_R(vt_attn_shape) at = sh->block.attn;
    int b = at.b, m = b * at.t, d = at.c;
    size_t all = (size_t)m * (size_t)d;
    real *dk = t->wide, *dv = dk + all, *dq = dv + all;
    VT_R(vt_branch_end_backward)(s, row, du, dmid, k->branch, k->o, VT_SLOT_PROJ_W, VT_SLOT_FACTOR1, b, d);
    const VT_R(vt_attn_in) in = reads(k, &at);
    const VT_R(vt_attn_grad) g = {.q = dq, .k = dk, .v = dv, .ldq = d, .ldk = d, .ldv = d};
    VT_R(vt_attn_backward)(&g, t->score, row, k->p, k->saved, &in, &at);
    memset(du, 0, all * sizeof(real));
    if (k->q) {
        real *u0 = dq + (size_t)b * (size_t)d;
        if (u) pack_class_rows(u0, u, &at);
        memset(row, 0, (size_t)b * (size_t)d * sizeof(real));
        add_linear_backward(s, row, dq, u0, VT_CLASS_Q_W, b);
        unpack_class_rows(du, row, &at);
    } else { /* the query is the class row's key */
        for (int i = 0; i < b; i++)
            VT_R(vt_add_to)(dk + (size_t)i * (size_t)at.t * (size_t)d, dq + (size_t)i * (size_t)d, (size_t)d);
    }
    if (is_full_form(sh)) {
        const VT_R(vt_attn_in) every = all_rows(k, d);
        const VT_R(vt_attn_grad) of_keys = {.q = dk, .k = dk, .v = dv, .ldq = d, .ldk = d, .ldv = d};
        VT_R(vt_full_values_backward)(&k->mlp, &of_keys, s->dw[VT_CLASS_Q_W], s->dw[VT_CLASS_V_W], &every,
                                      s->w[VT_CLASS_Q_W], s->w[VT_CLASS_V_W], &sh->block);
    } else {
        add_linear_backward(s, du, dv, u, VT_CLASS_V_W, m);
    }
    add_linear_backward(s, du, dk, u, k->q ? VT_CLASS_K_W : VT_CLASS_Q_W, m);
}

/* rest = x + gamma1 u:  du += gamma1 drest,  dgamma1 += drest u */
static void scale_backward(VT_R(vt_session) *s, real *du, const real *drest, const real *u,
                           const VT_R(vt_attn_shape) *at) {
    const size_t d = (size_t)at->c, n = count_patch_rows(at);
    const real *f = s->w[VT_SLOT_FACTOR1];
    real *df = s->dw[VT_SLOT_FACTOR1];
    for (size_t j = 0; j < n; j++) {
        size_t row = patch_at(j, at) * d;
        for (size_t c = 0; c < d; c++) {
            du[row + c] += f[c] * drest[j * d + c];
            if (df) df[c] += drest[j * d + c] * u[row + c];
        }
    }
}

void VT_R(vt_class_backward)(VT_R(vt_session) *s, real *dx, real *dy, cache *k, scratch *t, real *const rows[2],
                             const shape *sh) {
    const VT_R(vt_block_shape) *blk = &sh->block;
    const VT_R(vt_attn_shape) *at = &blk->attn;
    int b = at->b, m = b * at->t, d = at->c;
    real *drest = t->rows, *u = s->grad ? t->norm : NULL;
    VT_R(vt_session_bind)(s, blk->layer);
    const VT_R(vt_norm) norm1 = VT_R(vt_norm_bound)(s, VT_SLOT_NORM1, blk->norm, blk->eps);
    const VT_R(vt_norm) norm2 = VT_R(vt_norm_bound)(s, VT_SLOT_NORM2, blk->norm, blk->eps);
    if (sh->last)
        memcpy(rows[1], dy, (size_t)b * (size_t)d * sizeof(real));
    else
        pack_class_rows(rows[1], dy, at);
    VT_R(vt_mlp_backward)(s, rows[0], &k->mlp, t, rows[1], k->cls, b, blk);
    VT_R(vt_add_to)(rows[0], rows[1], (size_t)b * (size_t)d);
    VT_R(vt_norm_backward)(rows[1], NULL, rows[0], k->mid, k->stat2, norm2, b, d);
    /* the skip path */
    if (!sh->last) patches_backward(drest, dy, k, norm2, sh);
    if (sh->last) memset(dx, 0, (size_t)m * (size_t)d * sizeof(real));
    for (size_t j = 0, n = sh->last ? 0 : count_patch_rows(at); j < n; j++)
        memcpy(dx + patch_at(j, at) * (size_t)d, drest + j * (size_t)d, (size_t)d * sizeof(real));
    unpack_class_rows(dx, rows[1], at);
    if (s->branch_open && !s->branch_open[blk->index]) return; /* ARD */
    if (u) VT_R(vt_norm_again)(u, k->stat1, k->x, norm1, m, d);
    attend_backward(s, t->full, rows[1], u, k, t, rows[0], sh);
    if (!sh->last) scale_backward(s, t->full, drest, u, at);
    VT_R(vt_norm_backward)(dx, dx, t->full, k->x, k->stat1, norm1, m, d);
}
