/* XCiT's way from the image to tokens (timm's ConvPatchEmbed and PositionalEncodingFourier): 3 x 3 convolutions without
 * bias, each followed by BatchNorm with frozen statistics, and by the activation all but the last; then a 1 x 1
 * convolution of the Fourier encoding of each token's place is added. */
#include <math.h>
#include <stdio.h>
#include "models/xcit.h"
#include "nn/nn.h"

enum { WAVES = 32, PLACE = 2 * WAVES }; /* channels of a coordinate, of a place */

#ifndef VT_DOUBLE
vt_stem vt_stem_of(const vt_config *c) {
    vt_stem s = {.convs = c->patch == 8 ? 3 : 4, .sides = {c->image}, .widths = {3}};
    const bool leaderboard = s.convs == 4 && c->image == 32; /* RobustBench's CIFAR models */
    for (int k = 0; k < s.convs; k++) {
        int stride = c->stem_stride[0] ? c->stem_stride[k] : leaderboard && k < 2 ? 1 : 2;
        s.widths[k + 1] = c->dim >> (s.convs - 1 - k); /* D/8, D/4, D/2, D */
        s.sides[k + 1] = vt_conv_side(s.sides[k], stride);
        s.conv[k] = (vt_conv_shape){.h = s.sides[k],
                                    .w = s.sides[k],
                                    .in = s.widths[k],
                                    .out = s.widths[k + 1],
                                    .stride = stride};
    }
    return s;
}
#endif

void VT_R(vt_stem_params)(vt_param_list *l, const vt_config *c) {
    vt_stem stem = vt_stem_of(c);
    vt_param_add(l, 0, VT_STEM_CLS, false, VT_INIT_TRUNC02, "cls_token", (int64_t[4]){1, 1, c->dim});
    for (int k = 0; k < stem.convs; k++) {
        char name[64];
        snprintf(name, sizeof name, "patch_embed.proj.%d.0.weight", 2 * k);
        vt_param_add(l, 0, k * VT_STEM_SLOTS + VT_STEM_W, true, VT_INIT_CONV, name,
                     (int64_t[4]){stem.widths[k + 1], stem.widths[k], 3, 3});
        snprintf(name, sizeof name, "patch_embed.proj.%d.1", 2 * k);
        vt_param_add_norm(l, 0, k * VT_STEM_SLOTS + VT_STEM_NORM, VT_NORM_BATCH, name, stem.widths[k + 1]);
    }
    vt_param_add(l, 0, VT_STEM_POS_W, true, VT_INIT_CONV, "pos_embed.token_projection.weight",
                 (int64_t[4]){c->dim, PLACE, 1, 1});
    vt_param_add(l, 0, VT_STEM_POS_B, false, VT_INIT_CONV, "pos_embed.token_projection.bias", (int64_t[4]){c->dim});
}

static size_t map_len(const vt_stem *s, int k) {
    return (size_t)s->sides[k] * (size_t)s->sides[k] * (size_t)s->widths[k];
}

void VT_R(vt_stem_plan)(VT_R(vt_stem_state) *st, const vt_config *c, int b, vt_grad_mode mode, vt_arena *a) {
    const vt_stem *s = &st->stem;
    size_t images = (size_t)b, most = 0, col = 0, n;
    st->stem = vt_stem_of(c);
    for (int k = 0; k <= s->convs; k++) most = map_len(s, k) > most ? map_len(s, k) : most;
    for (int k = 0; k < s->convs; k++) col = (n = VT_R(vt_conv_col_len)(&s->conv[k])) > col ? n : col;
    for (int k = 0; k < 2; k++) st->flip[k] = vt_arena_take(a, images * most, sizeof(real));
    st->col = vt_arena_take(a, col, sizeof(real));
    for (int k = 0; k < s->convs; k++) {
        bool keep = mode == VT_GRAD_PARAMS, act = k < s->convs - 1 && mode != VT_GRAD_NONE;
        st->maps[k] = keep ? vt_arena_take(a, images * map_len(s, k), sizeof(real)) : st->flip[k & 1];
        st->sums[k] = keep ? vt_arena_take(a, images * map_len(s, k + 1), sizeof(real)) : NULL;
        st->slope[k] = act ? vt_arena_take(a, images * map_len(s, k + 1), sizeof(real)) : NULL;
    }
    st->places = vt_arena_take(a, (size_t)vt_stem_tokens(s) * PLACE, sizeof(real));
    st->encoded = vt_arena_take(a, (size_t)vt_stem_tokens(s) * (size_t)c->dim, sizeof(real));
    st->placed = false;
}

/* to[32] of coordinate `at` in 1..n: t = 2 pi at / (n + 1e-6), then sin and cos of t / 10000^(2 floor(i/2) / 32) in
 * turn. In double; timm computes in float even in a double model. */
static void waves(real *to, int at, int n) {
    const double t = at / (n + 1e-6) * 2 * 3.14159265358979323846;
    for (int i = 0; i < WAVES; i++) {
        double angle = t / pow(10000, (i - i % 2) / (double)WAVES);
        to[i] = (real)(i % 2 ? cos(angle) : sin(angle));
    }
}

/* places [N, 64]: the row's 32 channels, then the column's */
static void fill_places(real *places, int side) {
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++, places += PLACE) {
            waves(places, y + 1, side);
            waves(places + WAVES, x + 1, side);
        }
}

/* Convolution k of every image and BatchNorm, into `to` [b*pixels, width]. */
static void stage(VT_R(vt_session) *s, real *to, VT_R(vt_stem_state) *st, int k, int b) {
    const vt_stem *stem = &st->stem;
    int slot = k * VT_STEM_SLOTS, rows = b * stem->sides[k + 1] * stem->sides[k + 1];
    real *sum = st->sums[k] ? st->sums[k] : to;
    for (int i = 0; i < b; i++)
        VT_R(vt_conv_forward)(sum + (size_t)i * map_len(stem, k + 1), st->col,
                              st->maps[k] + (size_t)i * map_len(stem, k), s->w[slot], s->wt[slot], &stem->conv[k]);
    VT_R(vt_norm) bn = VT_R(vt_norm_bound)(s, slot + VT_STEM_NORM, VT_NORM_BATCH, VT_XCIT_BN_EPS);
    VT_R(vt_norm_forward)(to, NULL, NULL, sum, &bn, rows, stem->widths[k + 1]);
}

void VT_R(vt_stem_forward)(VT_R(vt_session) *s, real *tokens, VT_R(vt_stem_state) *st, const real *x, int b) {
    const vt_config *c = &s->model->config;
    const vt_stem *stem = &st->stem;
    int n = vt_stem_tokens(stem), d = c->dim, last = stem->convs - 1;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++) /* patches of one pixel: channels come to lie innermost */
        VT_R(vt_patchify_forward)(st->maps[0] + (size_t)i * map_len(stem, 0), x + (size_t)i * map_len(stem, 0), c->mean,
                                  c->std, c->image, c->image, 1);
    for (int k = 0; k < last; k++) {
        real *to = st->maps[k + 1];
        stage(s, to, st, k, b);
        VT_R(vt_act_forward)(c->act, to, s->kept ? st->slope[k] : NULL, to, NULL,
                             b * stem->sides[k + 1] * stem->sides[k + 1], stem->widths[k + 1]);
    }
    stage(s, tokens, st, last, b);
    if (!st->placed) fill_places(st->places, stem->sides[stem->convs]);
    st->placed = true;
    VT_R(vt_linear_forward)(st->encoded, st->places, s->w[VT_STEM_POS_W], s->wt[VT_STEM_POS_W], s->w[VT_STEM_POS_B], n,
                            d, PLACE);
    for (int i = 0; i < b; i++)
        VT_R(vt_add_to)(tokens + (size_t)i * (size_t)n * (size_t)d, st->encoded, (size_t)n * (size_t)d);
}

void VT_R(vt_stem_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_state) *st, real *dtokens, int b) {
    const vt_config *c = &s->model->config;
    const vt_stem *stem = &st->stem;
    int n = vt_stem_tokens(stem), d = c->dim;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b && s->grad; i++)
        VT_R(vt_linear_backward)(NULL, s->dw[VT_STEM_POS_W], s->dw[VT_STEM_POS_B],
                                 dtokens + (size_t)i * (size_t)n * (size_t)d, st->places, s->w[VT_STEM_POS_W], n, d,
                                 PLACE);
    real *dy = dtokens;
    for (int k = stem->convs - 1; k >= 0; k--) {
        int slot = k * VT_STEM_SLOTS, bn_slot = slot + VT_STEM_NORM, width = stem->widths[k + 1];
        int rows = b * stem->sides[k + 1] * stem->sides[k + 1];
        real *to = k > 0 || dx ? st->flip[k & 1] : NULL;
        VT_R(vt_norm) bn = VT_R(vt_norm_bound)(s, bn_slot, VT_NORM_BATCH, VT_XCIT_BN_EPS);
        if (k < stem->convs - 1) VT_R(vt_gelu_backward)(dy, dy, st->slope[k], (size_t)rows * (size_t)width);
        VT_R(vt_norm_backward)(dy, s->dw[bn_slot + VT_NORM_W], s->dw[bn_slot + VT_NORM_B], NULL, dy, st->sums[k], NULL,
                               NULL, &bn, rows, width);
        for (int i = 0; i < b; i++)
            VT_R(vt_conv_backward)(to ? to + (size_t)i * map_len(stem, k) : NULL, s->dw[slot], st->col,
                                   dy + (size_t)i * map_len(stem, k + 1),
                                   s->grad ? st->maps[k] + (size_t)i * map_len(stem, k) : NULL, s->w[slot],
                                   &stem->conv[k]);
        dy = to;
    }
    for (int i = 0; i < b && dx; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * map_len(stem, 0), dy + (size_t)i * map_len(stem, 0), c->std,
                                   c->image, c->image, 1);
}
