#include "models/block.h"

#include <stdio.h>
#include <string.h>
#include "nn/nn.h"

void VT_R(vt_block_params)(vt_param_list *l, const vt_config *c, int layer, int i) {
    const int64_t d = c->dim, h = c->hidden;
    const struct {
        int slot;
        bool matrix, there;
        vt_init init;
        const char *name;
        int64_t shape[4];
    } table[] = {
        {VT_SLOT_NORM1_W, false, true, VT_INIT_ONE, "norm1.weight", {d}},
        {VT_SLOT_NORM1_B, false, true, VT_INIT_ZERO, "norm1.bias", {d}},
        {VT_SLOT_QKV_W, true, true, VT_INIT_TRUNC02, "attn.qkv.weight", {3 * d, d}},
        {VT_SLOT_QKV_B, false, c->qkv_bias, VT_INIT_ZERO, "attn.qkv.bias", {3 * d}},
        {VT_SLOT_PROJ_W, true, true, VT_INIT_TRUNC02, "attn.proj.weight", {d, d}},
        {VT_SLOT_PROJ_B, false, true, VT_INIT_ZERO, "attn.proj.bias", {d}},
        {VT_SLOT_NORM2_W, false, true, VT_INIT_ONE, "norm2.weight", {d}},
        {VT_SLOT_NORM2_B, false, true, VT_INIT_ZERO, "norm2.bias", {d}},
        {VT_SLOT_FC1_W, true, true, VT_INIT_TRUNC02, "mlp.fc1.weight", {h, d}},
        {VT_SLOT_FC1_B, false, true, VT_INIT_ZERO, "mlp.fc1.bias", {h}},
        {VT_SLOT_FC2_W, true, true, VT_INIT_TRUNC02, "mlp.fc2.weight", {d, h}},
        {VT_SLOT_FC2_B, false, true, VT_INIT_ZERO, "mlp.fc2.bias", {d}},
    };
    char name[64];
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, table[k].name);
        if (table[k].there) vt_param_add(l, layer, table[k].slot, table[k].matrix, table[k].init, name, table[k].shape);
    }
    const VT_R(vt_attn_def) *attn = VT_R(vt_attn_find)(c->attn);
    for (int k = 0; attn && k < attn->n_params; k++) {
        snprintf(name, sizeof name, "blocks.%d.%s", i, attn->params[k].name);
        int64_t shape[4] = {attn->params[k].per_head ? c->heads : 1};
        vt_param_add(l, layer, VT_SLOT_ATTN + k, false, attn->params[k].init, name, shape);
    }
}

static VT_R(vt_attn_shape) attn_shape(const VT_R(vt_session) *s, int b) {
    const vt_config *c = &s->model->config;
    return (VT_R(vt_attn_shape)){.def = s->attn.def,
                                 .options = &s->attn.options,
                                 .b = b,
                                 .t = vt_config_tokens(c),
                                 .c = c->dim,
                                 .heads = c->heads,
                                 .scale = (real)c->attn_scale};
}

void VT_R(vt_block_plan_cache)(VT_R(vt_block_cache) *k, VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    VT_R(vt_attn_shape) sh = attn_shape(s, 1);
    size_t b = (size_t)s->capacity, m = b * (size_t)vt_config_tokens(c), d = (size_t)c->dim, h = (size_t)c->hidden;
    k->x = vt_arena_take(a, m * d, sizeof(real));
    k->mean1 = vt_arena_take(a, m, sizeof(real));
    k->rstd1 = vt_arena_take(a, m, sizeof(real));
    k->qkv = vt_arena_take(a, 3 * m * d, sizeof(real));
    k->p = vt_arena_take(a, b * VT_R(vt_attn_p_len)(&sh), sizeof(real));
    k->saved = vt_arena_take(a, b * VT_R(vt_attn_saved_len)(&sh), sizeof(real));
    k->mid = vt_arena_take(a, m * d, sizeof(real));
    k->mean2 = vt_arena_take(a, m, sizeof(real));
    k->rstd2 = vt_arena_take(a, m, sizeof(real));
    k->slope = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, m * h, sizeof(real));
    k->o = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, m * d, sizeof(real)) : NULL;
    k->act = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, m * h, sizeof(real)) : NULL;
}

void VT_R(vt_block_plan_scratch)(VT_R(vt_block_scratch) *k, VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    size_t t = (size_t)vt_config_tokens(c), m = (size_t)s->capacity * t, d = (size_t)c->dim, h = (size_t)c->hidden;
    k->norm = vt_arena_take(a, m * d, sizeof(real));
    k->wide = vt_arena_take(a, m * (3 * d > h ? 3 * d : h), sizeof(real));
    k->full = vt_arena_take(a, m * d, sizeof(real));
    k->score = vt_arena_take(a, 2 * t * (size_t)vt_attn_ldp((int)t), sizeof(real));
}

/* Rows of the first `tail` tokens of each image, packed; and back, zero elsewhere. */
static void gather(real *out, const real *in, int b, int t, int tail, int d) {
    for (int i = 0; i < b; i++)
        memmove(out + (size_t)i * (size_t)(tail * d), in + (size_t)i * (size_t)(t * d),
                (size_t)(tail * d) * sizeof(real));
}

static void scatter(real *out, const real *in, int b, int t, int tail, int d) {
    memset(out, 0, (size_t)b * (size_t)t * (size_t)d * sizeof(real));
    for (int i = 0; i < b; i++)
        memcpy(out + (size_t)i * (size_t)(t * d), in + (size_t)i * (size_t)(tail * d),
               (size_t)(tail * d) * sizeof(real));
}

void VT_R(vt_block_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, int layer,
                            int tail) {
    const vt_config *c = &s->model->config;
    VT_R(vt_attn_shape) sh = attn_shape(s, s->batch);
    int m = s->batch * sh.t, d = c->dim, h = c->hidden, r = tail ? s->batch * tail : m;
    VT_R(vt_session_bind)(s, layer);
    const real *const *w = s->w, *const *wt = s->wt;
    real *o = k->o ? k->o : t->full;

    VT_R(vt_layernorm_forward)(t->norm, k->mean1, k->rstd1, k->x, w[VT_SLOT_NORM1_W], w[VT_SLOT_NORM1_B], m, d,
                               c->ln_eps);
    VT_R(vt_linear_forward)(k->qkv, t->norm, w[VT_SLOT_QKV_W], wt[VT_SLOT_QKV_W], w[VT_SLOT_QKV_B], m, 3 * d, d);
    VT_R(vt_attention_forward)(o, k->p, k->saved, k->qkv, w + VT_SLOT_ATTN, &sh);
    const real *res = k->x;
    if (tail) {
        gather(o, o, s->batch, sh.t, tail, d);
        gather(t->norm, k->x, s->batch, sh.t, tail, d);
        res = t->norm;
    }
    VT_R(vt_linear_residual)(k->mid, res, o, w[VT_SLOT_PROJ_W], wt[VT_SLOT_PROJ_W], w[VT_SLOT_PROJ_B], r, d, d);
    VT_R(vt_layernorm_forward)(t->norm, k->mean2, k->rstd2, k->mid, w[VT_SLOT_NORM2_W], w[VT_SLOT_NORM2_B], r, d,
                               c->ln_eps);
    VT_R(vt_linear_forward)(t->wide, t->norm, w[VT_SLOT_FC1_W], wt[VT_SLOT_FC1_W], NULL, r, h, d);
    real *act = k->act ? k->act : t->wide;
    VT_R(vt_gelu_forward)(act, s->kept ? k->slope : NULL, t->wide, w[VT_SLOT_FC1_B], r, h);
    VT_R(vt_linear_residual)(y, k->mid, act, w[VT_SLOT_FC2_W], wt[VT_SLOT_FC2_W], w[VT_SLOT_FC2_B], r, d, h);
}

/* The normalised rows again, for the weight gradients of the product that read them. */
static const real *renorm(real *out, const real *x, const real *mean, const real *rstd, const real *g, const real *b,
                          int m, int d) {
    for (int i = 0; i < m; i++)
        for (int j = 0; j < d; j++) {
            size_t at = (size_t)i * (size_t)d + (size_t)j;
            out[at] = (x[at] - mean[i]) * rstd[i] * g[j] + b[j];
        }
    return out;
}

void VT_R(vt_block_backward)(VT_R(vt_session) *s, real *dx, real *dy, VT_R(vt_block_cache) *k,
                             VT_R(vt_block_scratch) *t, int layer, int tail) {
    const vt_config *c = &s->model->config;
    VT_R(vt_attn_shape) sh = attn_shape(s, s->batch);
    int m = s->batch * sh.t, d = c->dim, h = c->hidden, r = tail ? s->batch * tail : m;
    VT_R(vt_session_bind)(s, layer);
    const real *const *w = s->w;
    real *const *dw = s->dw;
    bool params = s->grad != NULL;

    /* y = mid + fc2(gelu(fc1(LN2 mid))) */
    VT_R(vt_linear_backward)(t->wide, dw[VT_SLOT_FC2_W], dw[VT_SLOT_FC2_B], dy, k->act, w[VT_SLOT_FC2_W], r, d, h);
    VT_R(vt_gelu_backward)(t->wide, t->wide, k->slope, (size_t)r * (size_t)h);
    const real *n2 =
        params ? renorm(t->norm, k->mid, k->mean2, k->rstd2, w[VT_SLOT_NORM2_W], w[VT_SLOT_NORM2_B], r, d) : NULL;
    VT_R(vt_linear_backward)(t->full, dw[VT_SLOT_FC1_W], dw[VT_SLOT_FC1_B], t->wide, n2, w[VT_SLOT_FC1_W], r, h, d);
    VT_R(vt_layernorm_backward)(dy, dw[VT_SLOT_NORM2_W], dw[VT_SLOT_NORM2_B], dy, t->full, k->mid, w[VT_SLOT_NORM2_W],
                                k->mean2, k->rstd2, r, d);
    /* mid = x + proj(attention(LN1 x)) */
    if (s->branch_open && !s->branch_open[layer - 1]) { /* ARD: the skip path alone */
        if (tail)
            scatter(dx, dy, s->batch, sh.t, tail, d);
        else if (dx != dy)
            memcpy(dx, dy, (size_t)m * (size_t)d * sizeof(real));
        return;
    }
    const real *dmid = dy;
    VT_R(vt_linear_backward)(t->full, dw[VT_SLOT_PROJ_W], dw[VT_SLOT_PROJ_B], dy, k->o, w[VT_SLOT_PROJ_W], r, d, d);
    const real *d_o = t->full;
    if (tail) {
        scatter(t->norm, t->full, s->batch, sh.t, tail, d);
        scatter(dx, dy, s->batch, sh.t, tail, d);
        d_o = t->norm, dmid = dx;
    }
    sh.ortho = s->ortho;
    VT_R(vt_attention_backward)(t->wide, params ? dw + VT_SLOT_ATTN : NULL, t->score, d_o, k->p, k->saved, k->qkv,
                                w + VT_SLOT_ATTN, &sh);
    s->ortho_value += sh.ortho_value;
    const real *n1 =
        params ? renorm(t->norm, k->x, k->mean1, k->rstd1, w[VT_SLOT_NORM1_W], w[VT_SLOT_NORM1_B], m, d) : NULL;
    VT_R(vt_linear_backward)(t->full, dw[VT_SLOT_QKV_W], dw[VT_SLOT_QKV_B], t->wide, n1, w[VT_SLOT_QKV_W], m, 3 * d, d);
    VT_R(vt_layernorm_backward)(dx, dw[VT_SLOT_NORM1_W], dw[VT_SLOT_NORM1_B], dmid, t->full, k->x, w[VT_SLOT_NORM1_W],
                                k->mean1, k->rstd1, m, d);
}
