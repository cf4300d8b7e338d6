/* SPDX-License-Identifier: MIT */
#include "models/net/patch_rows.h"

#include <math.h>
#include "nn/nn.h"

/* ---- stem ---- */

void VT_R(vt_stem_maps_plan)(VT_R(vt_stem_maps) *mp, const vt_stem *s, int b, vt_grad_mode mode, vt_arena *a) {
    size_t images = (size_t)b, most = 0, col = 0, n;
    mp->stem = *s;
    for (int k = 0; k <= s->convs; k++) most = vt_stem_map_len(s, k) > most ? vt_stem_map_len(s, k) : most;
    for (int k = 0; k < s->convs; k++) col = (n = VT_R(vt_conv_col_len)(&s->conv[k])) > col ? n : col;
    for (int k = 0; k < 2; k++) mp->flip[k] = VT_R(vt_reals)(a, images * most);
    mp->col = VT_R(vt_reals)(a, col);
    for (int k = 0; k < s->convs; k++) {
        bool keep = mode == VT_GRAD_PARAMS, rows = s->norm == VT_NORM_LAYER, back = mode != VT_GRAD_NONE;
        size_t in = images * vt_stem_map_len(s, k), out = images * vt_stem_map_len(s, k + 1),
               pixels = out / (size_t)s->widths[k + 1];
        mp->maps[k] = keep ? VT_R(vt_reals)(a, in) : mp->flip[k & 1];
        mp->sums[k] = VT_R(vt_reals)(a, keep || (rows && back) ? out : 0);
        mp->stat[k] = VT_R(vt_reals)(a, rows ? 2 * pixels : 0);
        mp->slope[k] = VT_R(vt_reals)(a, k < s->acts && back ? out : 0);
    }
}

/* Computes stage k of every image: convolution, normalisation and, in the first stem->acts stages, activation; from
 * mp->maps[k] into `to` [b*pixels, width]. */
static void stem_stage_forward(VT_R(vt_session) *s, real *to, VT_R(vt_stem_maps) *mp, int k, int b) {
    const vt_stem *stem = &mp->stem;
    int slot = stem->slot + k * VT_STEM_SLOTS, width = stem->widths[k + 1];
    int rows = b * stem->sides[k + 1] * stem->sides[k + 1];
    const VT_R(vt_linear) conv = VT_R(vt_linear_bound)(s, slot + VT_STEM_W);
    real *sum = mp->sums[k] ? mp->sums[k] : to;
    VT_R(vt_conv_forward)(sum, mp->col, mp->maps[k], conv, &stem->conv[k], b);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, slot + VT_STEM_NORM, stem->norm, stem->eps);
    VT_R(vt_norm_forward)(to, mp->stat[k], sum, norm, rows, width);
    if (k < stem->acts) VT_R(vt_act_forward)(stem->act, to, s->kept ? mp->slope[k] : NULL, to, NULL, rows, width);
}

void VT_R(vt_stem_maps_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_stem_maps) *mp, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const vt_stem *stem = &mp->stem;
    /* patches of one pixel: channels come to lie innermost */
    VT_R(vt_patchify_forward)(mp->maps[0], x, c->mean, c->std, b, c->image, c->image, 1);
    for (int k = 0; k < stem->convs; k++) stem_stage_forward(s, k < stem->convs - 1 ? mp->maps[k + 1] : y, mp, k, b);
}

/* Goes back through stage k, which stem_stage_forward computes: dy [b*pixels, width] is overwritten; dx: of its input,
 * or NULL; adds to the parameters' gradients. */
static void stem_stage_backward(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int k, int b) {
    const vt_stem *stem = &mp->stem;
    int slot = stem->slot + k * VT_STEM_SLOTS, width = stem->widths[k + 1];
    int rows = b * stem->sides[k + 1] * stem->sides[k + 1];
    const VT_R(vt_linear) conv = VT_R(vt_linear_bound)(s, slot + VT_STEM_W);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, slot + VT_STEM_NORM, stem->norm, stem->eps);
    if (k < stem->acts) VT_R(vt_act_backward)(dy, dy, mp->slope[k], (size_t)rows * (size_t)width);
    VT_R(vt_norm_backward)(dy, NULL, dy, mp->sums[k], mp->stat[k], norm, rows, width);
    VT_R(vt_conv_backward)(dx, mp->col, dy, s->grad ? mp->maps[k] : NULL, conv, &stem->conv[k], b);
}

void VT_R(vt_stem_maps_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int b) {
    const vt_config *c = &s->model->config;
    for (int k = mp->stem.convs - 1; k >= 0; k--) {
        real *to = k > 0 || dx ? mp->flip[k & 1] : NULL;
        stem_stage_backward(s, to, mp, dy, k, b);
        dy = to;
    }
    if (dx) VT_R(vt_patchify_backward)(dx, dy, c->std, b, c->image, c->image, 1);
}

/* ---- patches ---- */

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

/* Returns the norm before the patch embedding. */
static VT_R(vt_norm) norm_before(const VT_R(vt_session) *s) {
    return VT_R(vt_norm_bound)(s, VT_ROWS_NORM_IN, VT_NORM_LAYER, s->model->config.ln_eps);
}

void VT_R(vt_rows_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_patch_rows) *r, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const int n = vt_rows_count(c), row = vt_rows_width(c), m = b * n;
    VT_R(vt_session_bind)(s, 0);
    if (c->conv_stem)
        VT_R(vt_stem_maps_forward)(s, r->patches, &r->stem, x, b);
    else
        VT_R(vt_patchify_forward)(r->patches, x, c->mean, c->std, b, c->image, c->image, c->patch);
    for (int i = 0; c->patch_gate && i < m; i++)
        for (int j = 0; j < row; j++) r->gated[i * row + j] = s->w[VT_ROWS_GATE][i % n] * r->patches[i * row + j];
    if (r->in != r->gated) VT_R(vt_norm_forward)(r->in, r->in_stat, r->gated, norm_before(s), m, row);
    VT_R(vt_linear_forward)(r->raw ? r->raw : y, NULL, r->in, VT_R(vt_linear_bound)(s, VT_ROWS_W), m);
    const VT_R(vt_norm) after = VT_R(vt_norm_bound)(s, VT_ROWS_NORM_OUT, r->after, c->ln_eps);
    if (r->raw) VT_R(vt_norm_forward)(y, r->stat, r->raw, after, m, c->dim);
}

/* gated = gate_n patch_n:  dgate_n += <dgated_n, patch_n> (or NULL),  dpatches [b n, row]: gate_n dgated_n, in place */
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
    if (c->conv_stem)
        VT_R(vt_stem_maps_backward)(s, dx, &r->stem, r->dpatches, b);
    else if (dx)
        VT_R(vt_patchify_backward)(dx, r->dpatches, c->std, b, c->image, c->image, c->patch);
}

/* ---- positions, learned ---- */

void VT_R(vt_positions_plan)(VT_R(vt_positions) *p, const vt_config *c, vt_arena *a) {
    int grid = vt_config_grid(c), side = vt_config_side(c);
    size_t d = (size_t)c->dim, n = (size_t)(side * side);
    VT_R(vt_interp_plan)(&p->resize, a, VT_INTERP_BICUBIC, c->pos_filter == VT_POS_FILTER_AA, grid, grid, side, side,
                         c->pos_filter == VT_POS_FILTER_OFFSET ? 0.1 : 0);
    p->stored = VT_R(vt_reals)(a, d * (size_t)(grid * grid));
    p->used = VT_R(vt_reals)(a, d * n);
    p->rows = VT_R(vt_reals)(a, n * d);
}

/* out [m, n] = the transpose of in [n, m] */
static void transpose(real *out, const real *in, int n, int m) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) out[(size_t)j * (size_t)n + (size_t)i] = in[(size_t)i * (size_t)m + (size_t)j];
}

const real *VT_R(vt_positions_forward)(VT_R(vt_positions) *p, const real *stored, const vt_config *c) {
    int grid = vt_config_grid(c), side = vt_config_side(c);
    transpose(p->stored, stored, grid * grid, c->dim);
    VT_R(vt_interp_forward)(p->used, &p->resize, p->stored, c->dim);
    transpose(p->rows, p->used, c->dim, side * side);
    return p->rows;
}

void VT_R(vt_positions_backward)(real *dstored, VT_R(vt_positions) *p, const vt_config *c) {
    int grid = vt_config_grid(c), side = vt_config_side(c);
    transpose(p->used, p->rows, side * side, c->dim);
    VT_R(vt_interp_backward)(p->stored, &p->resize, p->used, c->dim);
    for (int i = 0; i < grid * grid; i++)
        for (int j = 0; j < c->dim; j++)
            dstored[(size_t)i * (size_t)c->dim + (size_t)j] += p->stored[(size_t)j * (size_t)(grid * grid) + (size_t)i];
}

/* ---- positions, computed ---- */

/* A quarter of the channels each: sin or cos of x or y times 10000^(-k / last). Source: vit-pytorch's and big_vision's
 * posemb_sincos_2d (Beyer et al. 2022); MAE's get_2d_sincos_pos_embed, whose first half is of the column; MoCo v3's,
 * whose first half is of the row; timm's build_sincos2d_pos_embed, sines before cosines. Those whose classes store them
 * need no form: the file has them as pos_embed. */
static const struct {
    bool whole; /* the slowest wave is 10000^-1 itself: last = dim/4 - 1, not dim/4 */
    struct {
        bool y, cosine;
    } quarter[4];
} kinds[] = {
    [VT_POSITIONS_SINCOS] = {true, {{false, false}, {false, true}, {true, false}, {true, true}}},
    [VT_POSITIONS_SINCOS_MAE] = {false, {{false, false}, {false, true}, {true, false}, {true, true}}},
    [VT_POSITIONS_SINCOS_MOCO] = {false, {{true, false}, {true, true}, {false, false}, {false, true}}},
    [VT_POSITIONS_SINCOS_TIMM] = {false, {{true, false}, {false, false}, {true, true}, {false, true}}},
};

void VT_R(vt_sincos)(real *out, vt_positions_kind kind, int side, int dim) {
    const int n = dim / 4;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++)
            for (int q = 0; q < 4; q++)
                for (int k = 0; k < n; k++) {
                    double wave = pow(10000, -(double)k / (kinds[kind].whole ? n - 1 : n));
                    double at = (kinds[kind].quarter[q].y ? y : x) * wave;
                    *out++ = (real)(kinds[kind].quarter[q].cosine ? cos(at) : sin(at));
                }
}
