/* SPDX-License-Identifier: MIT */
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
    const int convs = c->patch == 8 ? 3 : 4;
    const bool leaderboard = convs == 4 && c->image == 32; /* RobustBench's CIFAR models */
    int widths[VT_STEM_CONVS], strides[VT_STEM_CONVS];
    for (int k = 0; k < convs; k++) {
        widths[k] = c->dim >> (convs - 1 - k); /* D/8, D/4, D/2, D */
        strides[k] = c->stem_stride[0] ? c->stem_stride[k] : leaderboard && k < 2 ? 1 : 2;
    }
    vt_stem s = vt_stem_shape(c, convs, widths, strides);
    s.norm = VT_NORM_BATCH, s.eps = VT_XCIT_BN_EPS, s.act = c->act, s.acts = convs - 1;
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

void VT_R(vt_stem_plan)(VT_R(vt_stem_state) *st, const vt_config *c, int b, vt_grad_mode mode, vt_arena *a) {
    const vt_stem s = vt_stem_of(c);
    VT_R(vt_stem_maps_plan)(&st->maps, &s, b, mode, a);
    st->places = vt_arena_take(a, (size_t)vt_stem_tokens(&s) * PLACE, sizeof(real));
    st->encoded = vt_arena_take(a, (size_t)vt_stem_tokens(&s) * (size_t)c->dim, sizeof(real));
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

void VT_R(vt_stem_forward)(VT_R(vt_session) *s, real *tokens, VT_R(vt_stem_state) *st, const real *x, int b) {
    const vt_stem *stem = &st->maps.stem;
    int n = vt_stem_tokens(stem), d = s->model->config.dim;
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_stem_maps_forward)(s, tokens, &st->maps, x, b);
    if (!st->placed) fill_places(st->places, stem->sides[stem->convs]);
    st->placed = true;
    VT_R(vt_linear_forward)(st->encoded, st->places, s->w[VT_STEM_POS_W], s->wt[VT_STEM_POS_W], s->w[VT_STEM_POS_B], n,
                            d, PLACE);
    for (int i = 0; i < b; i++)
        VT_R(vt_add_to)(tokens + (size_t)i * (size_t)n * (size_t)d, st->encoded, (size_t)n * (size_t)d);
}

void VT_R(vt_stem_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_state) *st, real *dtokens, int b) {
    int n = vt_stem_tokens(&st->maps.stem), d = s->model->config.dim;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b && s->grad; i++)
        VT_R(vt_linear_backward)(NULL, s->dw[VT_STEM_POS_W], s->dw[VT_STEM_POS_B],
                                 dtokens + (size_t)i * (size_t)n * (size_t)d, st->places, s->w[VT_STEM_POS_W], n, d,
                                 PLACE);
    VT_R(vt_stem_maps_backward)(s, dx, &st->maps, dtokens, b);
}
