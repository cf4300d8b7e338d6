/* SPDX-License-Identifier: MIT */
#include "models/patch_rows.h"

#include "nn/nn.h"

static int patches_of(const vt_config *c) { return vt_config_side(c) * vt_config_side(c); }

/* Numbers of a patch, or channels of the stem's last map. */
static int row_of(const vt_config *c) {
    if (!c->conv_stem) return 3 * c->patch * c->patch;
    const vt_stem stem = vt_conv_stem_of(c);
    return stem.widths[stem.convs];
}

#ifndef VT_DOUBLE
static void add_embedding(vt_param_list *l, const vt_config *c) {
    const int64_t d = c->dim, p = c->patch;
    if (c->conv_stem) {
        vt_conv_stem_params(l, c, VT_ROWS_W);
        return;
    }
    vt_param_add(l, 0, VT_ROWS_W, true, VT_INIT_CONV, "patch_embed.proj.weight", (int64_t[4]){d, 3, p, p});
    if (!c->no_patch_bias) vt_param_add(l, 0, VT_ROWS_B, false, VT_INIT_CONV, "patch_embed.proj.bias", (int64_t[4]){d});
}

void vt_rows_params(vt_param_list *l, const vt_config *c) {
    add_embedding(l, c);
    if (c->patch_gate) vt_param_add(l, 0, VT_ROWS_GATE, false, VT_INIT_ONE, "patch_gate", (int64_t[4]){patches_of(c)});
    if (c->patch_norm & VT_PATCH_NORM_IN)
        vt_param_add_norm(l, 0, VT_ROWS_NORM_IN, VT_NORM_LAYER, "patch_embed.norm_in", row_of(c));
    if (c->patch_norm & VT_PATCH_NORM_OUT)
        vt_param_add_norm(l, 0, VT_ROWS_NORM_OUT, VT_NORM_LAYER, "patch_embed.norm", c->dim);
}

double vt_rows_products(const vt_config *c) {
    const vt_stem stem = vt_conv_stem_of(c);
    return (double)patches_of(c) * row_of(c) * c->dim + (c->conv_stem ? vt_stem_products(&stem) : 0);
}
#endif

/* A norm's backward reads its input, and so does the gradient of the embedding's weights. */
void VT_R(vt_rows_plan)(const VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, vt_arena *a) {
    const vt_config *c = &s->model->config;
    const bool in = c->patch_norm & VT_PATCH_NORM_IN, out = c->patch_norm & VT_PATCH_NORM_OUT;
    size_t m = (size_t)s->capacity * (size_t)patches_of(c), row = (size_t)row_of(c), d = (size_t)c->dim;
    const vt_stem stem = vt_conv_stem_of(c);
    if (c->conv_stem) VT_R(vt_stem_maps_plan)(&r->stem, &stem, s->capacity, s->mode, a);
    r->patches = vt_arena_take(a, m * row, sizeof(real));
    r->dpatches = s->mode == VT_GRAD_PARAMS || in ? vt_arena_take(a, m * row, sizeof(real)) : r->patches;
    r->gated = c->patch_gate ? vt_arena_take(a, m * row, sizeof(real)) : r->patches;
    r->embed = vt_arena_take(a, m * d, sizeof(real));
    r->in = in ? vt_arena_take(a, m * row, sizeof(real)) : r->gated;
    r->raw = out ? vt_arena_take(a, m * d, sizeof(real)) : r->embed;
    if (in) r->in_mean = vt_arena_take(a, m, sizeof(real)), r->in_rstd = vt_arena_take(a, m, sizeof(real));
    if (out) r->mean = vt_arena_take(a, m, sizeof(real)), r->rstd = vt_arena_take(a, m, sizeof(real));
}

static VT_R(vt_norm) norm_at(const VT_R(vt_session) *s, int slot) {
    return VT_R(vt_norm_bound)(s, slot, VT_NORM_LAYER, s->model->config.ln_eps);
}

static void cut(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const size_t pixels = (size_t)(3 * c->image * c->image);
    if (c->conv_stem) VT_R(vt_stem_maps_forward)(s, r->patches, &r->stem, x, b);
    for (size_t i = 0; i < (size_t)b && !c->conv_stem; i++)
        VT_R(vt_patchify_forward)(r->patches + i * pixels, x + i * pixels, c->mean, c->std, c->image, c->image,
                                  c->patch);
}

void VT_R(vt_rows_forward)(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const int n = patches_of(c), row = row_of(c), m = b * n, d = c->dim;
    const VT_R(vt_norm) in = norm_at(s, VT_ROWS_NORM_IN), out = norm_at(s, VT_ROWS_NORM_OUT);
    cut(s, r, x, b);
    if (c->patch_gate)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < row; j++) r->gated[i * row + j] = s->w[VT_ROWS_GATE][i % n] * r->patches[i * row + j];
    if (r->in != r->gated) VT_R(vt_norm_forward)(r->in, r->in_mean, r->in_rstd, r->gated, &in, m, row);
    VT_R(vt_linear_forward)(r->raw, r->in, s->w[VT_ROWS_W], s->wt[VT_ROWS_W], s->w[VT_ROWS_B], m, d, row);
    if (r->raw != r->embed) VT_R(vt_norm_forward)(r->embed, r->mean, r->rstd, r->raw, &out, m, d);
}

/* gated = gate_n patch_n:  dgate_n += <dgated_n, patch_n>,  dpatch_n = gate_n dgated_n (in place) */
static void gate_backward(real *dgate, real *dpatches, const real *patches, const real *gate, int b, int n, int row) {
    for (int i = 0; i < b * n; i++) {
        real sum = 0;
        for (int j = 0; j < row; j++) {
            if (dgate) sum += dpatches[i * row + j] * patches[i * row + j];
            dpatches[i * row + j] *= gate[i % n];
        }
        if (dgate) dgate[i % n] += sum;
    }
}

static void cut_backward(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, real *dx, int b) {
    const vt_config *c = &s->model->config;
    const size_t pixels = (size_t)(3 * c->image * c->image);
    if (c->conv_stem) VT_R(vt_stem_maps_backward)(s, dx, &r->stem, r->dpatches, b);
    for (size_t i = 0; i < (size_t)b && dx && !c->conv_stem; i++)
        VT_R(vt_patchify_backward)(dx + i * pixels, r->dpatches + i * pixels, c->std, c->image, c->image, c->patch);
}

void VT_R(vt_rows_backward)(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, real *dx, int b) {
    const vt_config *c = &s->model->config;
    const int n = patches_of(c), row = row_of(c), m = b * n, d = c->dim;
    const VT_R(vt_norm) in = norm_at(s, VT_ROWS_NORM_IN), out = norm_at(s, VT_ROWS_NORM_OUT);
    real *const *dw = s->dw, *const *din = dw + VT_ROWS_NORM_IN, *const *dout = dw + VT_ROWS_NORM_OUT;
    if (r->raw != r->embed)
        VT_R(vt_norm_backward)(r->embed, dout[VT_NORM_W], dout[VT_NORM_B], NULL, r->embed, r->raw, r->mean, r->rstd,
                               &out, m, d);
    VT_R(vt_linear_backward)(NULL, dw[VT_ROWS_W], dw[VT_ROWS_B], r->embed, r->in, s->w[VT_ROWS_W], m, d, row);
    if (!dx && !dw[VT_ROWS_GATE] && !din[VT_NORM_W] && !(c->conv_stem && s->grad)) return;
    VT_R(vt_linear_backward)(r->dpatches, NULL, NULL, r->embed, NULL, s->w[VT_ROWS_W], m, d, row);
    if (r->in != r->gated)
        VT_R(vt_norm_backward)(r->dpatches, din[VT_NORM_W], din[VT_NORM_B], NULL, r->dpatches, r->gated, r->in_mean,
                               r->in_rstd, &in, m, row);
    if (c->patch_gate) gate_backward(dw[VT_ROWS_GATE], r->dpatches, r->patches, s->w[VT_ROWS_GATE], b, n, row);
    cut_backward(s, r, dx, b);
}
