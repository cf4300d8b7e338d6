/* SPDX-License-Identifier: MIT */
/* A ViT as an ONNX graph, and a ConViT: what models/net/net_vit.c computes. */
#define VT_DOUBLE
#include "base/real.h"
#include "models/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "models/net/patch_rows.h"

/* ---- tokens ---- */

/* Returns the positions of the patches, [1, T, D]; -1: none, or no memory. */
static int patch_positions(vt_export *x) {
    const vt_config *c = x->c;
    const int side = vt_config_side(c), grid = vt_config_grid(c), placed = vt_config_placed(c), d = c->dim;
    if (c->positions == VT_POSITIONS_LEARNED) {
        int v = vt_export_tensor(x, VT_VIT_POS, NULL);
        if (placed) v = vt_put_slice(x->p, v, 1, placed, placed + grid * grid);
        const vt_export_grid to = {VT_INTERP_BICUBIC, c->pos_filter == VT_POS_FILTER_AA, grid, side,
                                   c->pos_filter == VT_POS_FILTER_OFFSET ? 0.1 : 0};
        return c->pos_grid ? vt_export_resample_rows(x, v, d, &to) : v;
    }
    if (c->positions == VT_POSITIONS_NONE) return -1;
    double *places = vt_alloc((size_t)(side * side) * (size_t)d * sizeof *places);
    if (places) vt_sincos_f64(places, c->positions, side, d);
    const int v = places ? vt_put_reals(x->p, VT_DIMS(1, side * side, d), places) : vt_put_failed(x->p);
    free(places);
    return v;
}

/* Returns v [N, T, D] as [N, prefix + T, D]: zeros in front, and there the class, distillation and register tokens,
 * with their positions, are added; the batch's size stays unsaid. */
static int join_prefix(vt_export *x, int v) {
    static const int slots[] = {VT_VIT_CLS, VT_VIT_DIST, VT_VIT_REG};
    const vt_config *c = x->c;
    const int prefix = vt_config_prefix(c), placed = vt_config_placed(c);
    int tokens = -1;
    for (int k = 0; k < 3; k++) {
        if (!x->param[slots[k]]) continue;
        const int more = vt_export_tensor(x, slots[k], NULL);
        tokens = tokens < 0 ? more : vt_put_concat(x->p, tokens, more, 1);
    }
    if (!prefix) return v;
    if (placed) {
        const int pos = vt_put_slice(x->p, vt_export_tensor(x, VT_VIT_POS, NULL), 1, 0, placed);
        tokens = vt_put_binary(x->p, "Add", tokens, vt_put_pad(x->p, pos, 3, 1, 0, prefix - placed));
    }
    return vt_put_binary(x->p, "Add", vt_put_pad(x->p, v, 3, 1, prefix, 0),
                         vt_put_pad(x->p, tokens, 3, 1, 0, vt_rows_count(c)));
}

/* Adds patch rows, positions, class and register tokens and an early norm, as the config has them; returns the tokens.
 * */
static int put_tokens(vt_export *x, int pixels) {
    const vt_config *c = x->c;
    int v = vt_export_rows(x, pixels, c->patch_norm & VT_PATCH_NORM_OUT ? VT_NORM_LAYER : VT_NORM_NONE);
    const int pos = patch_positions(x);
    if (pos >= 0) v = vt_put_binary(x->p, "Add", v, pos);
    if (!c->local_blocks) v = join_prefix(x, v);
    if (c->norm_pre) v = vt_export_norm(x, v, VT_VIT_NORM_PRE, c->norm, c->ln_eps, c->dim, false);
    vt_put_name(x->p, v, "output");
    return v;
}

/* ---- gated positional attention (ConViT) ---- */

/* Returns [T, T, 3]: column and row of the key less those of the query, and the square of their distance. */
static int put_distances(vt_export *x) {
    const int side = vt_config_side(x->c), t = side * side;
    double *r = vt_alloc((size_t)t * (size_t)t * 3 * sizeof *r), *to = r;
    for (int i = 0; r && i < t; i++)
        for (int j = 0; j < t; j++, to += 3) {
            to[0] = j % side - i % side, to[1] = j / side - i / side;
            to[2] = to[0] * to[0] + to[1] * to[1];
        }
    const int v = r ? vt_put_reals(x->p, VT_DIMS(t, t, 3), r) : vt_put_failed(x->p);
    free(r);
    return v;
}

/* Mixes tokens by ConViT's gated attention; with: points to the value of put_distances. */
static int mix_gated(vt_export *x, int v, const void *with) {
    vt_put *p = x->p;
    vt_export_attention a = vt_export_attention_of(x->c);
    int pos = vt_put_binary(p, "MatMul", *(const int *)with, vt_export_transposed(x, VT_SLOT_POS_W));
    pos = vt_put_binary(p, "Add", pos, vt_export_tensor(x, VT_SLOT_POS_B, NULL));
    a.pos = vt_put_along(p, "Softmax", vt_put_transpose(p, pos, VT_DIMS(2, 0, 1)), -1, -1);
    a.gate = vt_put_unary(p, "Sigmoid", vt_export_tensor(x, VT_SLOT_GATING, VT_DIMS(a.heads, 1, 1)));
    a.qk_slot = VT_SLOT_QK_W, a.v_slot = VT_SLOT_V_W;
    return vt_export_attend(x, v, &a);
}

/* ---- blocks ---- */

static int mix_tokens(vt_export *x, int v, const void *with) {
    (void)with;
    const vt_export_attention a = vt_export_attention_of(x->c);
    return vt_export_attend(x, v, &a);
}

static int put(vt_export *x, int pixels) {
    const vt_config *c = x->c;
    const int from = c->depth - 1 - vt_readout_early(c); /* the first block whose class token is read too */
    int v = put_tokens(x, pixels), early = -1, distances = c->local_blocks ? put_distances(x) : -1;
    char scope[48];
    for (int i = 0; i < c->depth; i++) {
        snprintf(scope, sizeof scope, "blocks.%d.", i);
        vt_export_bind(x, i == c->local_blocks ? 0 : 1 + i, scope);
        if (i && i == c->local_blocks) v = join_prefix(x, v);
        vt_export_bind(x, 1 + i, scope);
        v = vt_export_block(x, v, c->dim, i < c->local_blocks ? mix_gated : mix_tokens, &distances);
        if (i < from || i == c->depth - 1) continue;
        const int token = vt_put_slice(x->p, v, 1, 0, 1);
        early = early < 0 ? token : vt_put_concat(x->p, early, token, 1);
    }
    return vt_export_readout(x, v, early, 1 + c->depth, vt_config_tokens(c), c->dim);
}

extern const vt_export_arch vt_export_arch_vit;
const vt_export_arch vt_export_arch_vit = {.name = "vit", .also = "convit", .put = put};
