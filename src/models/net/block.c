/* SPDX-License-Identifier: MIT */
#include "models/net/block.h"

#include <string.h>
#include "nn/nn.h"

VT_R(vt_block_shape) VT_R(vt_block_of)(const VT_R(vt_session) *s) {
    const vt_config *c = &s->model->config;
    vt_attn_spec spec;
    vt_attn_parse(&spec, c->attn, NULL); /* checked by vt_config_check */
    return (VT_R(vt_block_shape)){.attn = {.def = VT_R(vt_attn_ops_find)(c->attn),
                                           .t = vt_config_tokens(c),
                                           .c = vt_config_attn_dim(c),
                                           .heads = c->heads,
                                           .scale = (real)c->attn_scale,
                                           .options = spec.options,
                                           .by = s->products},
                                  .needs = spec.needs,
                                  .dim = c->dim,
                                  .hidden = c->hidden,
                                  .eps = c->ln_eps,
                                  .norm = c->norm,
                                  .act = c->act,
                                  .factor = c->factor,
                                  .post_norm = c->post_norm,
                                  .tied_qk = c->tied_qk,
                                  .qk_norm = c->qk_norm};
}

/* Returns the block's token mixer, multi-head attention by default. */
static const VT_R(vt_token_mixer) *mixer(const VT_R(vt_block_shape) *sh) {
    return sh->mixer ? sh->mixer : &VT_R(vt_mha);
}

static int input_rows(const VT_R(vt_block_shape) *sh) { return sh->attn.b * sh->attn.t; }
static int rows_after(const VT_R(vt_block_shape) *sh) { return sh->n_read ? sh->attn.b * sh->n_read : input_rows(sh); }

/* ---- memory ---- */

void VT_R(vt_block_plan)(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    const size_t m = (size_t)input_rows(sh), d = (size_t)sh->dim, inner = (size_t)sh->attn.c, h = (size_t)sh->hidden;
    const bool params = mode == VT_GRAD_PARAMS, post = sh->post_norm && mode != VT_GRAD_NONE;
    const size_t branch = params && sh->factor ? m * d : 0;
    *k = (VT_R(vt_block_cache)){.x = VT_R(vt_reals)(a, m * d), .stat1 = VT_R(vt_reals)(a, 2 * m)};
    mixer(sh)->plan(k, sh, mode, a);
    k->mix = VT_R(vt_reals)(a, sh->needs & VT_ATTN_FULL ? 2 * inner * (inner / (size_t)sh->attn.heads) : 0);
    k->mid = VT_R(vt_reals)(a, m * d), k->stat2 = VT_R(vt_reals)(a, 2 * m);
    k->slope = VT_R(vt_reals)(a, mode != VT_GRAD_NONE ? m * h : 0);
    k->o = VT_R(vt_reals)(a, params ? m * inner : 0), k->act = VT_R(vt_reals)(a, params ? m * h : 0);
    k->sum1 = VT_R(vt_reals)(a, post ? m * d : 0), k->sum2 = VT_R(vt_reals)(a, post ? m * d : 0);
    k->branch1 = VT_R(vt_reals)(a, branch), k->branch2 = VT_R(vt_reals)(a, branch);
}

static void raise_to(size_t *most, size_t n) { *most = n > *most ? n : *most; }

void VT_R(vt_block_measure)(VT_R(vt_block_sizes) *room, const VT_R(vt_block_shape) *sh) {
    const size_t m = (size_t)input_rows(sh), d = (size_t)sh->dim, a = (size_t)sh->attn.c, h = (size_t)sh->hidden;
    raise_to(&room->rows, m * (a > d ? a : d)), raise_to(&room->wide, m * (3 * a > h ? 3 * a : h));
    raise_to(&room->score, VT_R(vt_attn_scratch_len)(&sh->attn)), raise_to(&room->kept, VT_R(vt_mha_kept_len)(sh));
}

void VT_R(vt_block_plan_scratch)(VT_R(vt_block_scratch) *t, const VT_R(vt_block_sizes) *room, vt_arena *a) {
    t->norm = VT_R(vt_reals)(a, room->rows), t->full = VT_R(vt_reals)(a, room->rows);
    t->rows = VT_R(vt_reals)(a, room->rows), t->wide = VT_R(vt_reals)(a, room->wide);
    t->score = VT_R(vt_reals)(a, room->score), t->kept = VT_R(vt_reals)(a, room->kept);
}

/* ---- parts ---- */

void VT_R(vt_branch_scale)(const VT_R(vt_session) *s, real *y, const real *res, const real *x, int factor, int branch,
                           int r, int n) {
    const real *f = s->w[factor], *u = VT_R(vt_session_drop)(s, branch);
    for (int i = 0; i < r; i++) {
        real image = u ? u[i / (r / s->batch)] : 1;
        for (int j = 0; j < n; j++) {
            size_t at = (size_t)i * (size_t)n + (size_t)j;
            y[at] = res[at] + (f ? f[j] * image : image) * x[at];
        }
    }
}

void VT_R(vt_branch_scale_backward)(const VT_R(vt_session) *s, real *dx, const real *dy, const real *x, int factor,
                                    int branch, int r, int n) {
    const real *f = s->w[factor], *u = VT_R(vt_session_drop)(s, branch);
    real *df = s->dw[factor];
    for (int i = 0; i < r; i++) {
        real image = u ? u[i / (r / s->batch)] : 1;
        for (int j = 0; j < n; j++) {
            size_t at = (size_t)i * (size_t)n + (size_t)j;
            if (df) df[j] += image * dy[at] * x[at];
            dx[at] = (f ? f[j] * image : image) * dy[at];
        }
    }
}

static int branch_of(int factor) { return factor == VT_SLOT_FACTOR1 ? VT_BRANCH_ATTN : VT_BRANCH_MLP; }

/* Is a branch multiplied: by a learned factor, or by what stochastic depth drew? */
static bool is_scaled(const VT_R(vt_session) *s, int factor) {
    return s->w[factor] || VT_R(vt_session_drop)(s, branch_of(factor));
}

void VT_R(vt_branch_end)(VT_R(vt_session) *s, real *y, real *branch, const real *res, const real *x, int w, int factor,
                         int r, int n) {
    const VT_R(vt_linear) l = VT_R(vt_linear_bound)(s, w);
    if (l.w && !is_scaled(s, factor)) {
        VT_R(vt_linear_forward)(y, res, x, l, r);
        return;
    }
    if (l.w)
        VT_R(vt_linear_forward)(branch = branch ? branch : y, NULL, x, l, r);
    else if (branch)
        memcpy(branch, x, (size_t)r * (size_t)n * sizeof(real));
    VT_R(vt_branch_scale)(s, y, res, l.w ? branch : x, factor, branch_of(factor), r, n);
}

void VT_R(vt_branch_end_backward)(VT_R(vt_session) *s, real *dx, real *scratch, const real *dy, const real *branch,
                                  const real *x, int w, int factor, int r, int n) {
    const bool scaled = is_scaled(s, factor);
    const real *dbranch = scaled ? scratch : dy;
    if (scaled) VT_R(vt_branch_scale_backward)(s, scratch, dy, branch, factor, branch_of(factor), r, n);
    if (s->w[w])
        VT_R(vt_linear_backward)(dx, NULL, dbranch, x, VT_R(vt_linear_bound)(s, w), r);
    else
        memcpy(dx, dbranch, (size_t)r * (size_t)n * sizeof(real));
}

void VT_R(vt_full_values)(VT_R(vt_block_cache) *k, real *v, const VT_R(vt_attn_in) *in, const real *wq, const real *wv,
                          const VT_R(vt_block_shape) *sh) {
    VT_R(vt_attn_full_mix)(k->mix, wq, wv, &sh->attn, sh->dim);
    VT_R(vt_attn_full_values)(v, in->ldv, in->q, in->ldq, k->mix, &sh->attn);
}

void VT_R(vt_full_values_backward)(VT_R(vt_block_cache) *k, const VT_R(vt_attn_grad) *g, real *dwq, real *dwv,
                                   const VT_R(vt_attn_in) *in, const real *wq, const real *wv,
                                   const VT_R(vt_block_shape) *sh) {
    size_t len = (size_t)(sh->attn.c * (sh->attn.c / sh->attn.heads));
    real *dmix = dwq ? k->mix + len : NULL;
    if (dmix) memset(dmix, 0, len * sizeof(real));
    VT_R(vt_attn_full_dvalues)(g->q, g->ldq, dmix, g->v, g->ldv, in->q, in->ldq, k->mix, &sh->attn);
    if (dmix) VT_R(vt_attn_full_dmix)(dwq, dwv, dmix, wq, wv, &sh->attn, sh->dim);
}

void VT_R(vt_mlp_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                          const real *res, const real *x, int r, const VT_R(vt_block_shape) *sh) {
    VT_R(vt_linear) fc1 = VT_R(vt_linear_bound)(s, VT_SLOT_FC1_W);
    const real *b = fc1.b; /* the activation adds it */
    real *act = k->act ? k->act : t->wide;
    fc1.b = NULL;
    VT_R(vt_linear_forward)(t->wide, NULL, x, fc1, r);
    VT_R(vt_act_forward)(sh->act, act, s->kept ? k->slope : NULL, t->wide, b, r, sh->hidden);
    VT_R(vt_branch_end)(s, y, k->branch2, res, act, VT_SLOT_FC2_W, VT_SLOT_FACTOR2, r, sh->dim);
}

void VT_R(vt_mlp_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                           const real *dy, const real *x, int r, const VT_R(vt_block_shape) *sh) {
    VT_R(vt_branch_end_backward)
    (s, t->wide, t->rows, dy, k->branch2, k->act, VT_SLOT_FC2_W, VT_SLOT_FACTOR2, r, sh->dim);
    VT_R(vt_act_backward)(t->wide, t->wide, k->slope, (size_t)r * (size_t)sh->hidden);
    VT_R(vt_linear_backward)(dx, NULL, t->wide, x, VT_R(vt_linear_bound)(s, VT_SLOT_FC1_W), r);
}

/* ---- halves ---- */

/* Packs the rows [d] of the first `n_read` tokens of each sequence, out [b n_read, d]; in may be out. */
static void pack_read_rows(real *out, const real *in, const VT_R(vt_block_shape) *sh, int d) {
    size_t from = (size_t)sh->attn.t * (size_t)d, to = (size_t)sh->n_read * (size_t)d;
    for (size_t i = 0; i < (size_t)sh->attn.b; i++) memmove(out + i * to, in + i * from, to * sizeof(real));
}

/* Writes the first n_read rows of each sequence back to their places among zeros. */
static void unpack_read_rows(real *out, const real *in, const VT_R(vt_block_shape) *sh, int d) {
    size_t to = (size_t)sh->attn.t * (size_t)d, from = (size_t)sh->n_read * (size_t)d;
    memset(out, 0, (size_t)sh->attn.b * to * sizeof(real));
    for (size_t i = 0; i < (size_t)sh->attn.b; i++) memcpy(out + i * to, in + i * from, from * sizeof(real));
}

void VT_R(vt_block_attend)(VT_R(vt_session) *s, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                           const VT_R(vt_block_shape) *sh) {
    int d = sh->dim, a = sh->attn.c, r = rows_after(sh);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SLOT_NORM1, sh->norm, sh->eps);
    real *o = k->o ? k->o : t->full;
    const real *in = sh->post_norm ? k->x : t->norm, *res = k->x;
    if (!sh->post_norm) VT_R(vt_norm_forward)(t->norm, k->stat1, k->x, norm, input_rows(sh), d);
    mixer(sh)->forward(s, o, k, t, in, sh);
    if (sh->n_read) {
        pack_read_rows(o, o, sh, a);
        pack_read_rows(t->norm, k->x, sh, d);
        res = t->norm;
    }
    real *sum = k->sum1 ? k->sum1 : k->mid;
    VT_R(vt_branch_end)(s, sum, k->branch1, res, o, VT_SLOT_PROJ_W, VT_SLOT_FACTOR1, r, d);
    if (sh->post_norm) VT_R(vt_norm_forward)(k->mid, k->stat1, sum, norm, r, d);
}

void VT_R(vt_block_mlp)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                        const VT_R(vt_block_shape) *sh) {
    int d = sh->dim, r = rows_after(sh);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SLOT_NORM2, sh->norm, sh->eps);
    if (!sh->post_norm) {
        VT_R(vt_norm_forward)(t->norm, k->stat2, k->mid, norm, r, d);
        VT_R(vt_mlp_forward)(s, y, k, t, k->mid, t->norm, r, sh);
        return;
    }
    real *sum = k->sum2 ? k->sum2 : y;
    VT_R(vt_mlp_forward)(s, sum, k, t, k->mid, k->mid, r, sh);
    VT_R(vt_norm_forward)(y, k->stat2, sum, norm, r, d);
}

void VT_R(vt_block_mlp_backward)(VT_R(vt_session) *s, real *dy, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                                 const VT_R(vt_block_shape) *sh) {
    int d = sh->dim, r = rows_after(sh);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SLOT_NORM2, sh->norm, sh->eps);
    if (sh->post_norm) { /* y = norm2(sum),  sum = mid + f mlp(mid) */
        VT_R(vt_norm_backward)(dy, NULL, dy, k->sum2, k->stat2, norm, r, d);
        VT_R(vt_mlp_backward)(s, t->full, k, t, dy, k->mid, r, sh);
        VT_R(vt_add_to)(dy, t->full, (size_t)r * (size_t)d);
        return;
    }
    /* y = mid + f mlp(norm2 mid) */
    if (s->grad) VT_R(vt_norm_again)(t->norm, k->stat2, k->mid, norm, r, d);
    VT_R(vt_mlp_backward)(s, t->full, k, t, dy, t->norm, r, sh);
    VT_R(vt_norm_backward)(dy, dy, t->full, k->mid, k->stat2, norm, r, d);
}

void VT_R(vt_block_attend_backward)(VT_R(vt_session) *s, real *dx, real *dmid, VT_R(vt_block_cache) *k,
                                    VT_R(vt_block_scratch) *t, const VT_R(vt_block_shape) *sh) {
    int m = input_rows(sh), d = sh->dim, a = sh->attn.c, r = rows_after(sh);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SLOT_NORM1, sh->norm, sh->eps);
    if (sh->post_norm) VT_R(vt_norm_backward)(dmid, NULL, dmid, k->sum1, k->stat1, norm, r, d);
    if (s->branch_open && !s->branch_open[sh->index]) { /* ARD: the skip path alone */
        if (sh->n_read)
            unpack_read_rows(dx, dmid, sh, d);
        else if (dx != dmid)
            memcpy(dx, dmid, (size_t)m * (size_t)d * sizeof(real));
        return;
    }
    /* sum = x + f proj(mix(in)), in = norm1 x, or x itself when the norm comes after */
    const real *res = dmid, *d_o = t->full, *in = NULL;
    VT_R(vt_branch_end_backward)(s, t->full, t->rows, dmid, k->branch1, k->o, VT_SLOT_PROJ_W, VT_SLOT_FACTOR1, r, d);
    if (sh->n_read) {
        unpack_read_rows(t->rows, t->full, sh, a);
        unpack_read_rows(dx, dmid, sh, d);
        res = dx, d_o = t->rows;
    }
    if (s->grad && sh->post_norm) in = k->x;
    if (s->grad && !sh->post_norm) {
        VT_R(vt_norm_again)(t->norm, k->stat1, k->x, norm, m, d);
        in = t->norm;
    }
    mixer(sh)->backward(s, t->full, k, t, d_o, in, sh);
    if (!sh->post_norm) {
        VT_R(vt_norm_backward)(dx, res, t->full, k->x, k->stat1, norm, m, d);
        return;
    }
    if (res != dx) memcpy(dx, res, (size_t)m * (size_t)d * sizeof(real));
    VT_R(vt_add_to)(dx, t->full, (size_t)m * (size_t)d);
}

/* ---- whole blocks ---- */

void VT_R(vt_block_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                            const VT_R(vt_block_shape) *sh) {
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_attend)(s, k, t, sh);
    VT_R(vt_block_mlp)(s, y, k, t, sh);
}

void VT_R(vt_block_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_block_cache) *k,
                             VT_R(vt_block_scratch) *t, const VT_R(vt_block_shape) *sh) {
    VT_R(vt_session_bind)(s, sh->layer);
    VT_R(vt_block_mlp_backward)(s, dy, k, t, sh);
    VT_R(vt_block_attend_backward)(s, dx, dy, k, t, sh);
}
