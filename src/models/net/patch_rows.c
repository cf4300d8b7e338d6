/* SPDX-License-Identifier: MIT */
#include "models/net/patch_rows.h"

#include "nn/nn.h"

/* A norm's backward reads its input, and so does the gradient of the embedding's weights. */
void VT_R(vt_rows_plan)(const VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, vt_norm_kind after, vt_arena *a) {
    const vt_config *c = &s->model->config;
    const bool in = c->patch_norm & VT_PATCH_NORM_IN, out = after != VT_NORM_NONE;
    size_t m = (size_t)s->capacity * (size_t)vt_rows_count(c), row = (size_t)vt_rows_width(c), d = (size_t)c->dim;
    const vt_stem stem = vt_conv_stem_of(c);
    r->after = after;
    if (c->conv_stem) VT_R(vt_stem_maps_plan)(&r->stem, &stem, s->capacity, s->mode, a);
    r->patches = VT_R(vt_reals)(a, m * row);
    r->dpatches = s->mode == VT_GRAD_PARAMS || in ? VT_R(vt_reals)(a, m * row) : r->patches;
    r->gated = c->patch_gate ? VT_R(vt_reals)(a, m * row) : r->patches;
    r->in = in ? VT_R(vt_reals)(a, m * row) : r->gated;
    r->in_stat = VT_R(vt_reals)(a, in ? 2 * m : 0);
    r->raw = VT_R(vt_reals)(a, out ? m * d : 0);
    r->stat = VT_R(vt_reals)(a, out ? 2 * m : 0);
}

static VT_R(vt_norm) norm_before(const VT_R(vt_session) *s) {
    return VT_R(vt_norm_bound)(s, VT_ROWS_NORM_IN, VT_NORM_LAYER, s->model->config.ln_eps);
}

static void extract_patches(VT_R(vt_session) *s, VT_R(vt_patch_rows) *r, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const size_t pixels = vt_config_pixels(c);
    if (c->conv_stem) VT_R(vt_stem_maps_forward)(s, r->patches, &r->stem, x, b);
    for (size_t i = 0; i < (size_t)b && !c->conv_stem; i++)
        VT_R(vt_patchify_forward)(r->patches + i * pixels, x + i * pixels, c->mean, c->std, c->image, c->image,
                                  c->patch);
}

void VT_R(vt_rows_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_patch_rows) *r, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const int n = vt_rows_count(c), row = vt_rows_width(c), m = b * n;
    VT_R(vt_session_bind)(s, 0);
    extract_patches(s, r, x, b);
    for (int i = 0; c->patch_gate && i < m; i++)
        for (int j = 0; j < row; j++) r->gated[i * row + j] = s->w[VT_ROWS_GATE][i % n] * r->patches[i * row + j];
    if (r->in != r->gated) VT_R(vt_norm_forward)(r->in, r->in_stat, r->gated, norm_before(s), m, row);
    VT_R(vt_linear_forward)(r->raw ? r->raw : y, NULL, r->in, VT_R(vt_linear_bound)(s, VT_ROWS_W), m);
    const VT_R(vt_norm) after = VT_R(vt_norm_bound)(s, VT_ROWS_NORM_OUT, r->after, c->ln_eps);
    if (r->raw) VT_R(vt_norm_forward)(y, r->stat, r->raw, after, m, c->dim);
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
    const size_t pixels = vt_config_pixels(c);
    if (c->conv_stem) VT_R(vt_stem_maps_backward)(s, dx, &r->stem, r->dpatches, b);
    for (size_t i = 0; i < (size_t)b && dx && !c->conv_stem; i++)
        VT_R(vt_patchify_backward)(dx + i * pixels, r->dpatches + i * pixels, c->std, c->image, c->image, c->patch);
}

void VT_R(vt_rows_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_patch_rows) *r, real *dy) {
    const vt_config *c = &s->model->config;
    const int b = s->batch, n = vt_rows_count(c), row = vt_rows_width(c), m = b * n;
    VT_R(vt_session_bind)(s, 0);
    const VT_R(vt_norm) in = norm_before(s), after = VT_R(vt_norm_bound)(s, VT_ROWS_NORM_OUT, r->after, c->ln_eps);
    const bool further = dx || s->dw[VT_ROWS_GATE] || in.dg || (c->conv_stem && s->grad);
    if (r->raw) VT_R(vt_norm_backward)(dy, NULL, dy, r->raw, r->stat, after, m, c->dim);
    VT_R(vt_linear_backward)(further ? r->dpatches : NULL, NULL, dy, r->in, VT_R(vt_linear_bound)(s, VT_ROWS_W), m);
    if (!further) return;
    if (r->in != r->gated) VT_R(vt_norm_backward)(r->dpatches, NULL, r->dpatches, r->gated, r->in_stat, in, m, row);
    if (c->patch_gate) gate_backward(s->dw[VT_ROWS_GATE], r->dpatches, r->patches, s->w[VT_ROWS_GATE], b, n, row);
    cut_backward(s, r, dx, b);
}
