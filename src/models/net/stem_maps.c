/* SPDX-License-Identifier: MIT */
#include "models/net/stem_maps.h"

#include "nn/nn.h"

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

/* Convolution k of every image, normalisation and activation, into `to` [b*pixels, width]. */
static void stem_stage_forward(VT_R(vt_session) *s, real *to, VT_R(vt_stem_maps) *mp, int k, int b) {
    const vt_stem *stem = &mp->stem;
    int slot = stem->slot + k * VT_STEM_SLOTS, width = stem->widths[k + 1];
    int rows = b * stem->sides[k + 1] * stem->sides[k + 1];
    const VT_R(vt_linear) conv = VT_R(vt_linear_bound)(s, slot + VT_STEM_W);
    real *sum = mp->sums[k] ? mp->sums[k] : to;
    for (int i = 0; i < b; i++)
        VT_R(vt_conv_forward)(sum + (size_t)i * vt_stem_map_len(stem, k + 1), mp->col,
                              mp->maps[k] + (size_t)i * vt_stem_map_len(stem, k), conv, &stem->conv[k]);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, slot + VT_STEM_NORM, stem->norm, stem->eps);
    VT_R(vt_norm_forward)(to, mp->stat[k], sum, norm, rows, width);
    if (k < stem->acts) VT_R(vt_act_forward)(stem->act, to, s->kept ? mp->slope[k] : NULL, to, NULL, rows, width);
}

void VT_R(vt_stem_maps_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_stem_maps) *mp, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const vt_stem *stem = &mp->stem;
    for (int i = 0; i < b; i++) /* patches of one pixel: channels come to lie innermost */
        VT_R(vt_patchify_forward)(mp->maps[0] + (size_t)i * vt_stem_map_len(stem, 0),
                                  x + (size_t)i * vt_stem_map_len(stem, 0), c->mean, c->std, c->image, c->image, 1);
    for (int k = 0; k < stem->convs; k++) stem_stage_forward(s, k < stem->convs - 1 ? mp->maps[k + 1] : y, mp, k, b);
}

/* The way back through stage k: dy [b*pixels, width] is overwritten, dx: of its input, or NULL. */
static void stage_backward(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int k, int b) {
    const vt_stem *stem = &mp->stem;
    int slot = stem->slot + k * VT_STEM_SLOTS, width = stem->widths[k + 1];
    int rows = b * stem->sides[k + 1] * stem->sides[k + 1];
    const VT_R(vt_linear) conv = VT_R(vt_linear_bound)(s, slot + VT_STEM_W);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, slot + VT_STEM_NORM, stem->norm, stem->eps);
    if (k < stem->acts) VT_R(vt_act_backward)(dy, dy, mp->slope[k], (size_t)rows * (size_t)width);
    VT_R(vt_norm_backward)(dy, NULL, dy, mp->sums[k], mp->stat[k], norm, rows, width);
    for (int i = 0; i < b; i++)
        VT_R(vt_conv_backward)(dx ? dx + (size_t)i * vt_stem_map_len(stem, k) : NULL, mp->col,
                               dy + (size_t)i * vt_stem_map_len(stem, k + 1),
                               s->grad ? mp->maps[k] + (size_t)i * vt_stem_map_len(stem, k) : NULL, conv,
                               &stem->conv[k]);
}

void VT_R(vt_stem_maps_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_maps) *mp, real *dy, int b) {
    const vt_config *c = &s->model->config;
    const vt_stem *stem = &mp->stem;
    for (int k = stem->convs - 1; k >= 0; k--) {
        real *to = k > 0 || dx ? mp->flip[k & 1] : NULL;
        stage_backward(s, to, mp, dy, k, b);
        dy = to;
    }
    for (int i = 0; i < b && dx; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * vt_stem_map_len(stem, 0), dy + (size_t)i * vt_stem_map_len(stem, 0),
                                   c->std, c->image, c->image, 1);
}
