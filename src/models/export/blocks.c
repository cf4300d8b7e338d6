/* SPDX-License-Identifier: MIT */
/* Attention, blocks and the end of every network, as ONNX nodes. */
#include "models/export/export.h"

/* ---- attention ---- */

vt_export_attention vt_export_attention_of(const vt_config *c) {
    return (vt_export_attention){.heads = c->heads,
                                 .width = vt_config_attn_dim(c),
                                 .scale = c->attn_scale,
                                 .bias = -1,
                                 .mask = -1,
                                 .pos = -1,
                                 .gate = -1,
                                 .qk_slot = VT_SLOT_QKV_W};
}

int vt_export_split_heads(vt_export *x, int v, int parts, const vt_export_attention *a) {
    const int64_t h = a->heads, d = a->width / a->heads;
    v = vt_put_reshape(x->p, v, a->windows ? VT_DIMS(0, 0, 0, parts, h, d) : VT_DIMS(0, 0, parts, h, d));
    return vt_put_transpose(x->p, v, a->windows ? VT_DIMS(3, 0, 1, 4, 2, 5) : VT_DIMS(2, 0, 3, 1, 4));
}

int vt_export_part(vt_export *x, int v, int k) {
    return vt_put_along(x->p, "Gather", v, vt_put_integer_table(x->p, &(vt_dims){0}, &(int64_t){k}), 0);
}

int vt_export_join_heads(vt_export *x, int v, const vt_export_attention *a) {
    v = vt_put_transpose(x->p, v, a->windows ? VT_DIMS(0, 1, 3, 2, 4) : VT_DIMS(0, 2, 1, 3));
    return vt_put_reshape(x->p, v, a->windows ? VT_DIMS(0, 0, 0, a->width) : VT_DIMS(0, 0, a->width));
}

/* Multiplies q by M = scale W_Q W_V^T of each head, [heads, d, d]: nodes of constants alone, which readers fold. */
int vt_export_full_values(vt_export *x, int q, int wq, int wv, const vt_export_attention *a) {
    const int64_t h = a->heads, d = a->width / a->heads;
    vt_put *p = x->p;
    wq = vt_put_transpose(p, vt_put_reshape(p, wq, VT_DIMS(0, h, d)), VT_DIMS(1, 2, 0));
    wv = vt_put_transpose(p, vt_put_reshape(p, wv, VT_DIMS(0, h, d)), VT_DIMS(1, 0, 2));
    const int m = vt_put_binary(p, "Mul", vt_put_binary(p, "MatMul", wq, wv), vt_put_real(p, a->scale));
    return vt_put_binary(p, "MatMul", q, m);
}

/* Returns A = (1 - g) P + g pos, rows divided by their sums (ConViT), of P = v. */
static int mix_positions(vt_export *x, int v, const vt_export_attention *a) {
    vt_put *p = x->p;
    v = vt_put_binary(p, "Mul", v, vt_put_binary(p, "Sub", vt_put_real(p, 1), a->gate));
    v = vt_put_binary(p, "Add", v, vt_put_binary(p, "Mul", a->pos, a->gate));
    return vt_put_binary(p, "Div", v, vt_put_reduce(p, "ReduceSum", v, -1));
}

int vt_export_mix(vt_export *x, int q, int k, int v, const vt_export_attention *a) {
    const vt_put_heads heads = {.q = q, .k = k, .v = v, .rank = 4 + a->windows, .scale = a->scale};
    const vt_attn *is = x->attn.is;
    vt_put *p = x->p;
    int s = is->put_scores(p, &heads, &x->attn.options);
    if (a->bias >= 0) s = vt_put_binary(p, "Add", s, a->bias);
    if (a->mask >= 0) s = vt_put_binary(p, "Add", s, a->mask);
    s = vt_put_along(p, "Softmax", s, -1, -1);
    if (a->pos >= 0) s = mix_positions(x, s, a);
    return vt_put_binary(p, "MatMul", s, is->put_values ? is->put_values(p, &heads, &x->attn.options) : v);
}

/* Sets qkv to q, k and v of the full form, which has no biases: the rows of W_V multiply none of the tokens v. */
static void project_full(vt_export *x, int qkv[3], int v, const vt_export_attention *a) {
    const int parts = x->c->tied_qk ? 1 : 2, all = vt_export_transposed(x, a->qk_slot);
    const int64_t w = a->width;
    vt_put *p = x->p;
    const int qk = a->v_slot ? all : vt_put_slice(p, all, 1, 0, parts * w), wq = vt_put_slice(p, all, 1, 0, w);
    const int wv = a->v_slot ? vt_export_transposed(x, a->v_slot) : vt_put_slice(p, all, 1, parts * w, (parts + 1) * w);
    v = vt_export_split_heads(x, vt_put_binary(p, "MatMul", v, qk), parts, a);
    qkv[0] = vt_export_part(x, v, 0), qkv[1] = parts > 1 ? vt_export_part(x, v, 1) : qkv[0];
    qkv[2] = vt_export_full_values(x, qkv[0], wq, wv, a);
}

/* Sets qkv to q, k and v of the tokens v by the weights in a->qk_slot and, if it is not 0, a->v_slot. */
static void project_tokens(vt_export *x, int qkv[3], int v, const vt_export_attention *a) {
    const int parts = (x->c->tied_qk ? 2 : 3) - (a->v_slot != 0);
    const int all = vt_export_split_heads(x, vt_export_linear(x, v, a->qk_slot), parts, a);
    const int apart = a->v_slot ? vt_export_split_heads(x, vt_export_linear(x, v, a->v_slot), 1, a) : all;
    qkv[0] = vt_export_part(x, all, 0), qkv[1] = x->c->tied_qk ? qkv[0] : vt_export_part(x, all, 1);
    qkv[2] = vt_export_part(x, apart, a->v_slot ? 0 : parts - 1);
}

int vt_export_attend(vt_export *x, int v, const vt_export_attention *a) {
    const int d = a->width / a->heads;
    int qkv[3];
    (x->attn.needs & VT_ATTN_FULL ? project_full : project_tokens)(x, qkv, v, a);
    for (int k = 0; k < 2 && x->c->qk_norm; k++)
        qkv[k] =
            vt_export_norm(x, qkv[k], k ? VT_SLOT_K_NORM_W : VT_SLOT_Q_NORM_W, VT_NORM_LAYER, x->c->ln_eps, d, false);
    return vt_export_join_heads(x, vt_export_mix(x, qkv[0], qkv[1], qkv[2], a), a);
}

/* ---- blocks ---- */

int vt_export_branch(vt_export *x, int res, int v, int factor) {
    return vt_put_binary(x->p, "Add", res, vt_export_scale(x, v, factor, NULL));
}

int vt_export_mlp(vt_export *x, int v) {
    v = vt_export_act(x, vt_export_linear(x, v, VT_SLOT_FC1_W), x->c->act);
    return vt_export_linear(x, v, VT_SLOT_FC2_W);
}

int vt_export_block(vt_export *x, int v, int d, int (*mix)(vt_export *x, int v, const void *with), const void *with) {
    const vt_config *c = x->c;
    const bool post = c->post_norm;
    int u = post ? v : vt_export_norm(x, v, VT_SLOT_NORM1, c->norm, c->ln_eps, d, false);
    v = vt_export_branch(x, v, vt_export_linear(x, mix(x, u, with), VT_SLOT_PROJ_W), VT_SLOT_FACTOR1);
    if (post) v = vt_export_norm(x, v, VT_SLOT_NORM1, c->norm, c->ln_eps, d, false);
    vt_put_name(x->p, v, "attention");
    u = post ? v : vt_export_norm(x, v, VT_SLOT_NORM2, c->norm, c->ln_eps, d, false);
    v = vt_export_branch(x, v, vt_export_mlp(x, u), VT_SLOT_FACTOR2);
    if (post) v = vt_export_norm(x, v, VT_SLOT_NORM2, c->norm, c->ln_eps, d, false);
    vt_put_name(x->p, v, "output");
    return v;
}

/* ---- the end ---- */

/* Returns row k of v [N, rows, d] as [N, d]. */
static int row_of(vt_export *x, int v, int k, int d) {
    return vt_put_reshape(x->p, vt_put_slice(x->p, v, 1, k, k + 1), VT_DIMS(0, d));
}

/* Returns the mean of rows [from, to) of v [N, rows, d] as [N, d]; with `from` 0, of all rows. */
static int mean_of(vt_export *x, int v, int from, int to, int d) {
    if (from) v = vt_put_slice(x->p, v, 1, from, to);
    return vt_put_reshape(x->p, vt_put_reduce(x->p, "ReduceMean", v, 1), VT_DIMS(0, d));
}

static int final_norm(vt_export *x, int v, int d) {
    return vt_export_norm(x, v, VT_READOUT_NORM, x->c->final_norm, x->c->ln_eps, d, false);
}

/* Returns logits of the class token or, of a distilled model, of one of its two heads or the mean of both, by
 * c->dist_head. */
static int read_tokens(vt_export *x, int tokens, int d) {
    const vt_config *c = x->c;
    const int rows = vt_readout_rows(c);
    tokens = final_norm(x, vt_put_slice(x->p, tokens, 1, 0, rows), d);
    const bool first = !c->dist_token || c->dist_head != VT_DIST_DIST;
    const bool second = c->dist_token && c->dist_head != VT_DIST_CLASS;
    const int z = first ? vt_export_linear(x, row_of(x, tokens, 0, d), VT_READOUT_HEAD_W) : -1;
    if (!second) return z;
    const int y = vt_export_linear(x, row_of(x, tokens, 1, d), VT_READOUT_HEAD_DIST_W);
    return first ? vt_put_binary(x->p, "Mul", vt_put_binary(x->p, "Add", z, y), vt_put_real(x->p, 0.5)) : y;
}

/* Returns logits of a model with its norm before the mean: of class tokens, oldest first, and the mean of t tokens side
 * by side, or of one of both. early: as in vt_export_readout. */
static int read_normed(vt_export *x, int tokens, int early, int t, int d) {
    const vt_config *c = x->c;
    const int e = vt_readout_early(c), first = c->pool == VT_POOL_ALL ? 0 : vt_config_prefix(c);
    const int v = final_norm(x, early < 0 ? tokens : vt_put_concat(x->p, early, tokens, 1), d);
    const int mean = c->pool == VT_POOL_TOKENS ? -1 : mean_of(x, v, e + first, e + t, d);
    if (!vt_readout_wide(c)) return vt_export_linear(x, mean, VT_READOUT_HEAD_W);
    int rows = vt_put_reshape(x->p, vt_put_slice(x->p, v, 1, 0, e + 1), VT_DIMS(0, (int64_t)(e + 1) * d));
    if (c->pool == VT_POOL_TOKEN_AVG) rows = vt_put_concat(x->p, rows, mean, 1);
    if (c->pool == VT_POOL_AVG_TOKEN) rows = vt_put_concat(x->p, mean, rows, 1);
    return vt_export_linear(x, rows, VT_READOUT_HEAD_W);
}

int vt_export_readout(vt_export *x, int tokens, int early, int layer, int t, int d) {
    const vt_config *c = x->c;
    vt_export_bind(x, layer, "head.");
    if (c->pool == VT_POOL_TOKEN) return read_tokens(x, tokens, d);
    if (c->norm_first) return read_normed(x, tokens, early, t, d);
    const int mean = mean_of(x, tokens, c->pool == VT_POOL_ALL ? 0 : vt_config_prefix(c), t, d);
    return vt_export_linear(x, final_norm(x, mean, d), VT_READOUT_HEAD_W);
}
