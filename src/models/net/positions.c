/* SPDX-License-Identifier: MIT */
#include "models/net/positions.h"

void VT_R(vt_positions_plan)(VT_R(vt_positions) *p, const vt_config *c, vt_arena *a) {
    int grid = vt_config_grid(c), side = vt_config_side(c);
    size_t d = (size_t)c->dim, n = (size_t)(side * side);
    VT_R(vt_interp_plan_offset)(&p->resize, a, VT_INTERP_BICUBIC, c->pos_filter == VT_POS_FILTER_AA, grid, side,
                                c->pos_filter == VT_POS_FILTER_OFFSET ? 0.1 : 0);
    p->stored = vt_arena_take(a, d * (size_t)(grid * grid), sizeof(real));
    p->used = vt_arena_take(a, d * n, sizeof(real));
    p->rows = vt_arena_take(a, n * d, sizeof(real));
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
