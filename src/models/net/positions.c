/* SPDX-License-Identifier: MIT */
#include "models/net/positions.h"

#include <math.h>

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

/* ---- computed ---- */

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
