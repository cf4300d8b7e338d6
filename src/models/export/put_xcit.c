/* SPDX-License-Identifier: MIT */
/* An XCiT as an ONNX graph: what models/net/net_xcit.c and models/net/class_attention.c compute. */
#include "models/export/export.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "models/xcit.h"

/* Returns [T, 64]: sines and cosines of row and column (timm's PositionalEncodingFourier), 32 channels each. */
static int put_places(vt_export *x, int side) {
    enum { WAVES = VT_XCIT_PLACE / 2 };
    double *places = vt_alloc((size_t)(side * side) * VT_XCIT_PLACE * sizeof *places);
    if (!places) return vt_put_failed(x->p);
    for (int i = 0; i < side * side * VT_XCIT_PLACE; i++) {
        const int t = i / VT_XCIT_PLACE, k = i % WAVES, at = (i / WAVES % 2 ? t % side : t / side) + 1;
        const double angle = at / (side + 1e-6) * 2 * 3.14159265358979323846 / pow(10000, (k - k % 2) / (double)WAVES);
        places[i] = k % 2 ? cos(angle) : sin(angle);
    }
    const int v = vt_put_reals(x->p, VT_DIMS(side * side, VT_XCIT_PLACE), places);
    free(places);
    return v;
}

/* Adds stem and places; returns the tokens [N, T, dim]. */
static int put_tokens(vt_export *x, int pixels, const vt_stem *stem) {
    vt_export_bind(x, 0, "embedding.");
    int v = vt_export_tokens(x, vt_export_stem(x, pixels, stem), x->c->dim, vt_stem_tokens(stem));
    if (x->param[VT_STEM_POS_W]) {
        const int places = put_places(x, stem->sides[stem->convs]);
        v = vt_put_binary(x->p, "Add", v, vt_export_linear(x, places, VT_STEM_POS_W));
    }
    vt_put_name(x->p, v, "output");
    return v;
}

/* ---- cross-covariance attention: channels of a head attend to each other ---- */

/* Returns channels v [N, heads, d, T] over their norms; max(|x|, 1e-12) is the root of max(|x|^2, 1e-24). */
static int divide_by_norms(vt_export *x, int v) {
    vt_put *p = x->p;
    int s = vt_put_reduce(p, "ReduceSum", vt_put_binary(p, "Mul", v, v), -1);
    return vt_put_binary(p, "Div", v, vt_put_unary(p, "Sqrt", vt_put_binary(p, "Max", s, vt_put_real(p, 1e-24))));
}

/* Adds cross-covariance attention of tokens v [N, T, dim]; returns its output, projected. */
static int attend_channels(vt_export *x, int v) {
    vt_put *p = x->p;
    const int64_t d = x->c->dim, heads = x->c->heads;
    v = vt_put_reshape(p, vt_export_linear(x, v, VT_SLOT_QKV_W), VT_DIMS(0, 0, 3, heads, d / heads));
    v = vt_put_transpose(p, v, VT_DIMS(2, 0, 3, 4, 1)); /* [3, N, heads, d, T] */
    const int q = divide_by_norms(x, vt_export_part(x, v, 0)), k = divide_by_norms(x, vt_export_part(x, v, 1));
    int s = vt_export_scale(x, vt_put_times_transposed(p, q, k, 4), VT_XCA_TAU, NULL);
    s = vt_put_binary(p, "MatMul", vt_put_along(p, "Softmax", s, -1, -1), vt_export_part(x, v, 2));
    s = vt_put_reshape(p, vt_put_transpose(p, s, VT_DIMS(0, 3, 1, 2)), VT_DIMS(0, 0, d));
    return vt_export_linear(x, s, VT_SLOT_PROJ_W);
}

/* Adds a block of tokens v [N, side^2, dim], attention, local mixing and MLP; returns its output. */
static int put_block(vt_export *x, int v, int side) {
    const vt_config *c = x->c;
    const int d = c->dim;
    int u = vt_export_norm(x, v, VT_SLOT_NORM1, c->norm, c->ln_eps, d, false);
    v = vt_export_branch(x, v, attend_channels(x, u), VT_SLOT_FACTOR1);
    vt_put_name(x->p, v, "attention");
    u = vt_export_map(x, vt_export_norm(x, v, VT_LPI_NORM, c->norm, c->ln_eps, d, false), d, side);
    u = vt_export_act(x, vt_export_conv(x, u, VT_LPI_CONV1_W, 3, 1, 1, d), c->act);
    u = vt_export_norm(x, u, VT_LPI_BN, VT_NORM_BATCH, VT_XCIT_BN_EPS, d, true);
    u = vt_export_tokens(x, vt_export_conv(x, u, VT_LPI_CONV2_W, 3, 1, 1, d), d, side * side);
    v = vt_export_branch(x, v, u, VT_LPI_FACTOR);
    u = vt_export_norm(x, v, VT_SLOT_NORM2, c->norm, c->ln_eps, d, false);
    v = vt_export_branch(x, v, vt_export_mlp(x, u), VT_SLOT_FACTOR2);
    vt_put_name(x->p, v, "output");
    return v;
}

/* ---- class attention ---- */

static int slice_rows(vt_export *x, int v, int from, int to) { return vt_put_slice(x->p, v, 1, from, to); }

static int heads_of(vt_export *x, int v, const vt_export_attention *a) {
    return vt_export_part(x, vt_export_split_heads(x, v, 1, a), 0);
}

/* Returns what the class token's query mixes, [N, 1, D], of u [N, 1 + T, D]. */
static int attend_class(vt_export *x, int u) {
    const vt_config *c = x->c;
    const vt_export_attention a = vt_export_attention_of(c);
    const bool full = x->attn.needs & VT_ATTN_FULL; /* with W_Q = W_K: every row has a query */
    const int q = heads_of(x, vt_export_linear(x, slice_rows(x, u, 0, 1), VT_CLASS_Q_W), &a);
    const int k = heads_of(x, vt_export_linear(x, u, c->tied_qk ? VT_CLASS_Q_W : VT_CLASS_K_W), &a);
    const int v = full ? vt_export_full_values(x, k, vt_export_transposed(x, VT_CLASS_Q_W),
                                               vt_export_transposed(x, VT_CLASS_V_W), &a)
                       : heads_of(x, vt_export_linear(x, u, VT_CLASS_V_W), &a);
    return vt_export_linear(x, vt_export_join_heads(x, vt_export_mix(x, q, k, v, &a), &a), VT_SLOT_PROJ_W);
}

/* Returns v [N, t, D] after a class-attention block: the residual starts again from the second norm, and timm adds
 * patch rows to themselves. */
static int put_class_block(vt_export *x, int v, int t) {
    const vt_config *c = x->c;
    vt_put *p = x->p;
    const int u = vt_export_norm(x, v, VT_SLOT_NORM1, c->norm, c->ln_eps, c->dim, false);
    v = vt_export_branch(x, v, vt_put_concat(p, attend_class(x, u), slice_rows(x, u, 1, t), 1), VT_SLOT_FACTOR1);
    vt_put_name(p, v, "attention");
    const int normed = c->tokens_norm ? v : slice_rows(x, v, 0, 1);
    const int r = vt_export_norm(x, normed, VT_SLOT_NORM2, c->norm, c->ln_eps, c->dim, false);
    const int first = slice_rows(x, r, 0, 1), rest = slice_rows(x, c->tokens_norm ? r : v, 1, t);
    const int y = vt_export_branch(x, first, vt_export_mlp(x, first), VT_SLOT_FACTOR2);
    v = vt_put_concat(p, y, vt_put_binary(p, "Add", rest, rest), 1);
    vt_put_name(p, v, "output");
    return v;
}

static int put(vt_export *x, int pixels) {
    const vt_config *c = x->c;
    const vt_stem stem = vt_stem_of(c);
    const int t = 1 + vt_stem_tokens(&stem);
    int v = put_tokens(x, pixels, &stem), cls = vt_export_tensor(x, VT_STEM_CLS, NULL);
    for (int i = 0; i < c->depth + c->class_blocks; i++) {
        char scope[48];
        const bool late = i >= c->depth;
        snprintf(scope, sizeof scope, "%sblocks.%d.", late ? "cls_attn_" : "", late ? i - c->depth : i);
        vt_export_bind(x, 1 + i, scope);
        if (i == c->depth)
            v = vt_put_binary(x->p, "Add", vt_put_pad(x->p, v, 3, 1, 1, 0), vt_put_pad(x->p, cls, 3, 1, 0, t - 1));
        v = late ? put_class_block(x, v, t) : put_block(x, v, stem.sides[stem.convs]);
    }
    return vt_export_readout(x, v, -1, vt_xcit_last_layer(c), t, c->dim);
}

extern const vt_export_arch vt_export_arch_xcit;
const vt_export_arch vt_export_arch_xcit = {.name = "xcit", .put = put};
