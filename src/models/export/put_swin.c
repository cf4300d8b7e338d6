/* SPDX-License-Identifier: MIT */
/* A Swin as an ONNX graph: what models/net/net_swin.c computes. */
#define VT_DOUBLE
#include "base/real.h"
#include "models/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "models/swin.h"
#include "nn/window.h"

/* Values that the blocks of a stage share, of even and of odd ones. */
typedef struct stage {
    vt_swin_stage g;
    int order[2], back[2], mask[2], pairs; /* pairs [T, T]: the bias table's row of query and key */
    bool padded;
} stage;

/* Sets st->order[k], the tokens of all windows (the one after all tokens: zeros, for what hangs over), st->back[k],
 * each token's place there, and st->padded. k 1: shifted windows. */
static void put_orders(vt_export *x, stage *st, int k) {
    const vt_swin_stage *g = &st->g;
    const int n = g->windows * g->window * g->window, t = g->side * g->side;
    int *from = vt_alloc((size_t)n * sizeof *from);
    int64_t *order = vt_alloc((size_t)n * sizeof *order), *back = vt_alloc((size_t)t * sizeof *back);
    if (from && order && back) {
        vt_window_order_f64(from, g->side, g->window, k ? g->shift : 0);
        for (int i = 0; i < n; i++) {
            order[i] = from[i] < 0 ? t : from[i];
            if (from[i] >= 0) back[from[i]] = i;
        }
        st->order[k] = vt_put_integers(x->p, n, order), st->back[k] = vt_put_integers(x->p, t, back);
    } else {
        st->order[k] = st->back[k] = vt_put_failed(x->p);
    }
    st->padded = n > t;
    free(from), free(order), free(back);
}

/* Returns the shifted windows' mask [windows, 1, area, area]. */
static int put_mask(vt_export *x, const vt_swin_stage *g) {
    const int area = g->window * g->window;
    double *m = vt_alloc((size_t)g->windows * (size_t)(area * area) * sizeof *m);
    if (m) vt_window_mask_f64(m, g->side, g->window, g->shift, area);
    const int v = m ? vt_put_reals(x->p, VT_DIMS(g->windows, 1, area, area), m) : vt_put_failed(x->p);
    free(m);
    return v;
}

/* Returns the bias table's row of each query and key of a window, [area, area]. */
static int put_pairs(vt_export *x, int window) {
    const int area = window * window, across = 2 * window - 1;
    int64_t *pairs = vt_alloc((size_t)(area * area) * sizeof *pairs), *to = pairs;
    for (int i = 0; pairs && i < area; i++)
        for (int j = 0; j < area; j++)
            *to++ = (i / window - j / window + window - 1) * across + i % window - j % window + window - 1;
    const int v = pairs ? vt_put_integer_table(x->p, VT_DIMS(area, area), pairs) : vt_put_failed(x->p);
    free(pairs);
    return v;
}

/* ---- blocks ---- */

typedef struct windowed {
    const stage *st;
    int odd;
} windowed;

static int mix_windows(vt_export *x, int v, const void *with) {
    const windowed *w = with;
    const vt_swin_stage *g = &w->st->g;
    const int area = g->window * g->window;
    vt_put *p = x->p;
    vt_export_attention a = vt_export_attention_of(x->c);
    a.heads = g->heads, a.width = g->dim, a.scale = g->scale, a.windows = true, a.mask = w->st->mask[w->odd];
    a.bias = vt_put_along(p, "Gather", vt_export_tensor(x, VT_SLOT_BIAS_TABLE, NULL), w->st->pairs, 0);
    a.bias = vt_put_transpose(p, a.bias, VT_DIMS(2, 0, 1));
    if (w->st->padded) v = vt_put_pad(p, v, 3, 1, 0, 1);
    v = vt_put_along(p, "Gather", v, w->st->order[w->odd], 1);
    v = vt_export_attend(x, vt_put_reshape(p, v, VT_DIMS(0, g->windows, area, g->dim)), &a);
    v = vt_put_reshape(p, v, VT_DIMS(0, (int64_t)g->windows * area, g->dim));
    return vt_put_along(p, "Gather", v, w->st->back[w->odd], 1);
}

/* Returns v with four neighbours joined, (0, 0), (1, 0), (0, 1), (1, 1) of row and column; normalised and reduced. */
static int merge_patches(vt_export *x, int v, const vt_swin_stage *g) {
    const int64_t s = g->side, d = g->dim / 2;
    v = vt_put_reshape(x->p, v, VT_DIMS(0, s, 2, s, 2, d));
    v = vt_put_reshape(x->p, vt_put_transpose(x->p, v, VT_DIMS(0, 1, 3, 4, 2, 5)), VT_DIMS(0, s * s, 4 * d));
    v = vt_export_norm(x, v, VT_SWIN_MERGE_NORM, x->c->norm, x->c->ln_eps, 2 * g->dim, false);
    return vt_export_linear(x, v, VT_SWIN_MERGE_W);
}

static int put(vt_export *x, int pixels) {
    const vt_config *c = x->c;
    int v = vt_export_rows(x, pixels, c->norm);
    stage st = {0};
    char scope[48];
    vt_put_name(x->p, v, "output");
    for (int s = 0; s < c->stages; s++) {
        st = (stage){.g = vt_swin_stage_of(c, s), .mask = {-1, -1}};
        snprintf(scope, sizeof scope, "layers.%d.downsample.", s);
        vt_export_bind(x, vt_swin_merge_layer(&st.g, s), scope);
        if (s) v = merge_patches(x, v, &st.g);
        for (int k = 0; k < 2; k++) put_orders(x, &st, k);
        if (st.g.shift) st.mask[1] = put_mask(x, &st.g);
        st.pairs = put_pairs(x, st.g.window);
        for (int i = 0; i < st.g.depth; i++) {
            snprintf(scope, sizeof scope, "layers.%d.blocks.%d.", s, i);
            vt_export_bind(x, vt_swin_block_layer(&st.g, s, i), scope);
            v = vt_export_block(x, v, st.g.dim, mix_windows, &(windowed){&st, i % 2});
        }
    }
    return vt_export_readout(x, v, -1, vt_swin_head_layer(c), st.g.side * st.g.side, st.g.dim);
}

extern const vt_export_arch vt_export_arch_swin;
const vt_export_arch vt_export_arch_swin = {.name = "swin", .put = put};
