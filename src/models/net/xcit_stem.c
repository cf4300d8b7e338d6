/* SPDX-License-Identifier: MIT */
/* XCiT's way from the image to tokens (timm's ConvPatchEmbed and PositionalEncodingFourier): 3 x 3 convolutions without
 * bias, each followed by BatchNorm with frozen statistics, and by the activation all but the last; then a 1 x 1
 * convolution of the Fourier encoding of each token's place is added, if the network has positions. */
#include <math.h>
#include "models/net/xcit_parts.h"
#include "nn/nn.h"

enum { PLACE = VT_XCIT_PLACE, WAVES = PLACE / 2 }; /* channels of a place, of a coordinate */

void VT_R(vt_stem_plan)(VT_R(vt_stem_state) *st, const vt_config *c, int b, vt_grad_mode mode, vt_arena *a) {
    const vt_stem s = vt_stem_of(c);
    VT_R(vt_stem_maps_plan)(&st->maps, &s, b, mode, a);
    st->places = vt_arena_take(a, (size_t)vt_stem_tokens(&s) * PLACE, sizeof(real));
    st->encoded = vt_arena_take(a, (size_t)vt_stem_tokens(&s) * (size_t)c->dim, sizeof(real));
    st->placed = false;
}

/* to[32] of coordinate `at` in 1..n: t = 2 pi at / (n + 1e-6), then sin and cos of t / 10000^(2 floor(i/2) / 32) in
 * turn. In double; timm computes in float even in a double model. */
static void fill_sinusoids(real *to, int at, int n) {
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
            fill_sinusoids(places, y + 1, side);
            fill_sinusoids(places + WAVES, x + 1, side);
        }
}

void VT_R(vt_stem_forward)(VT_R(vt_session) *s, real *tokens, VT_R(vt_stem_state) *st, const real *x, int b) {
    const vt_stem *stem = &st->maps.stem;
    int n = vt_stem_tokens(stem), d = s->model->config.dim;
    VT_R(vt_session_bind)(s, 0);
    VT_R(vt_stem_maps_forward)(s, tokens, &st->maps, x, b);
    if (!s->w[VT_STEM_POS_W]) return;
    if (!st->placed) fill_places(st->places, stem->sides[stem->convs]);
    st->placed = true;
    VT_R(vt_linear_forward)(st->encoded, NULL, st->places, VT_R(vt_linear_bound)(s, VT_STEM_POS_W), n);
    for (int i = 0; i < b; i++)
        VT_R(vt_add_to)(tokens + (size_t)i * (size_t)n * (size_t)d, st->encoded, (size_t)n * (size_t)d);
}

void VT_R(vt_stem_backward)(VT_R(vt_session) *s, real *dx, VT_R(vt_stem_state) *st, real *dtokens, int b) {
    int n = vt_stem_tokens(&st->maps.stem), d = s->model->config.dim;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b && s->grad && s->w[VT_STEM_POS_W]; i++)
        VT_R(vt_linear_backward)(NULL, NULL, dtokens + (size_t)i * (size_t)n * (size_t)d, st->places,
                                 VT_R(vt_linear_bound)(s, VT_STEM_POS_W), n);
    VT_R(vt_stem_maps_backward)(s, dx, &st->maps, dtokens, b);
}
