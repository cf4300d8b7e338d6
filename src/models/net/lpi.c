/* SPDX-License-Identifier: MIT */
/* Local patch interaction (El-Nouby et al. 2021, sec. 3.3; timm's LPI): tokens as a map, where channels talk to their
 * neighbours:  y = x + gamma3 conv2(BatchNorm(act(conv1(norm3 x)))), both convolutions depthwise 3 x 3 with bias,
 * BatchNorm with frozen statistics. */
#include "models/net/xcit_parts.h"

#include "nn/nn.h"

void VT_R(vt_lpi_plan)(VT_R(vt_lpi) *p, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    size_t m = (size_t)sh->attn.b * (size_t)sh->attn.t, n = m * (size_t)sh->attn.c;
    p->x = vt_arena_take(a, n, sizeof(real));
    p->stat = vt_arena_take(a, 2 * m, sizeof(real));
    p->slope = mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, n, sizeof(real));
    p->act = mode == VT_GRAD_PARAMS ? vt_arena_take(a, n, sizeof(real)) : NULL;
    p->branch = mode == VT_GRAD_PARAMS ? vt_arena_take(a, n, sizeof(real)) : NULL;
}

void VT_R(vt_lpi_forward)(VT_R(vt_session) *s, real *y, VT_R(vt_lpi) *p, VT_R(vt_block_scratch) *t, real *taps,
                          int side, const VT_R(vt_block_shape) *sh) {
    int d = sh->attn.c, m = sh->attn.b * sh->attn.t;
    size_t image = (size_t)sh->attn.t * (size_t)d;
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_LPI_NORM, sh->norm, sh->eps);
    const VT_R(vt_norm) bn = VT_R(vt_norm_bound)(s, VT_LPI_BN, VT_NORM_BATCH, VT_XCIT_BN_EPS);
    const VT_R(vt_linear) conv1 = VT_R(vt_linear_bound)(s, VT_LPI_CONV1_W),
                          conv2 = VT_R(vt_linear_bound)(s, VT_LPI_CONV2_W);
    real *act = p->act ? p->act : t->full, *branch = p->branch ? p->branch : t->full;
    VT_R(vt_norm_forward)(t->norm, p->stat, p->x, norm, m, d);
    for (int i = 0; i < sh->attn.b; i++)
        VT_R(vt_depthwise_forward)(t->full + (size_t)i * image, taps, t->norm + (size_t)i * image, conv1, side, side);
    VT_R(vt_act_forward)(sh->act, act, s->kept ? p->slope : NULL, t->full, NULL, m, d);
    VT_R(vt_norm_forward)(t->norm, NULL, act, bn, m, d);
    for (int i = 0; i < sh->attn.b; i++)
        VT_R(vt_depthwise_forward)(branch + (size_t)i * image, taps, t->norm + (size_t)i * image, conv2, side, side);
    const real *f = s->w[VT_LPI_FACTOR], *u = VT_R(vt_session_drop)(s, VT_BRANCH_LPI);
    for (size_t i = 0; i < (size_t)m; i++) {
        real stays = u ? u[i / (size_t)sh->attn.t] : 1;
        for (int j = 0; j < d; j++) {
            size_t at = i * (size_t)d + (size_t)j;
            y[at] = p->x[at] + f[j] * stays * branch[at];
        }
    }
}

/* A depthwise convolution of every image; u is its input, or NULL. */
static void conv_backward(VT_R(vt_session) *s, real *du, real *taps, const real *dy, const real *u, int slot, int side,
                          const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_linear) conv = VT_R(vt_linear_bound)(s, slot);
    size_t image = (size_t)sh->attn.t * (size_t)sh->attn.c;
    for (int i = 0; i < sh->attn.b; i++) VT_R(vt_depthwise_backward)
    (du + (size_t)i * image, taps, dy + (size_t)i * image, u ? u + (size_t)i * image : NULL, conv, side, side);
}

void VT_R(vt_lpi_backward)(VT_R(vt_session) *s, real *dy, VT_R(vt_lpi) *p, VT_R(vt_block_scratch) *t, real *taps,
                           int side, const VT_R(vt_block_shape) *sh) {
    int d = sh->attn.c, m = sh->attn.b * sh->attn.t;
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_LPI_NORM, sh->norm, sh->eps);
    const VT_R(vt_norm) bn = VT_R(vt_norm_bound)(s, VT_LPI_BN, VT_NORM_BATCH, VT_XCIT_BN_EPS);
    const real *f = s->w[VT_LPI_FACTOR], *u = VT_R(vt_session_drop)(s, VT_BRANCH_LPI);
    real *df = s->dw[VT_LPI_FACTOR];
    /* y = x + u f branch:  df += u dy branch,  dbranch = u f dy */
    for (size_t i = 0; i < (size_t)m; i++) {
        real stays = u ? u[i / (size_t)sh->attn.t] : 1;
        for (int j = 0; j < d; j++) {
            size_t at = i * (size_t)d + (size_t)j;
            if (df) df[j] += stays * dy[at] * p->branch[at];
            t->full[at] = f[j] * stays * dy[at];
        }
    }
    if (s->grad) VT_R(vt_norm_again)(t->norm, NULL, p->act, bn, m, d);
    conv_backward(s, t->rows, taps, t->full, s->grad ? t->norm : NULL, VT_LPI_CONV2_W, side, sh);
    VT_R(vt_norm_backward)(t->rows, NULL, t->rows, p->act, NULL, bn, m, d);
    VT_R(vt_act_backward)(t->rows, t->rows, p->slope, (size_t)m * (size_t)d);
    if (s->grad) VT_R(vt_norm_again)(t->norm, p->stat, p->x, norm, m, d);
    conv_backward(s, t->full, taps, t->rows, s->grad ? t->norm : NULL, VT_LPI_CONV1_W, side, sh);
    VT_R(vt_norm_backward)(dy, dy, t->full, p->x, p->stat, norm, m, d);
}
