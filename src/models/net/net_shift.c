/* SPDX-License-Identifier: MIT */
/* What a shift network computes (models/arch_shift.c): embedding, positions, blocks y = fold(W shift(x) + b), readout.
 */
#include <string.h>
#include "models/net/bounds.h"
#include "models/net/patch_rows.h"
#include "models/net/readout.h"
#include "models/shift.h"
#include "nn/nn.h"

typedef struct state {
    VT_R(vt_patch_rows) rows;
    VT_R(vt_readout) end;
    real *tokens, *moved; /* [b*T, D] stream, or its gradient; shifted */
    real **in, **slope;   /* [depth][b*T, D] shifted inputs, for parameter gradients; slopes of fold; or NULL */
} state;

/* Takes the memory of the whole network from the arena. */
static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const size_t n = (size_t)s->capacity * (size_t)vt_rows_count(c) * (size_t)c->dim;
    VT_R(vt_rows_plan)(s, &st->rows, VT_NORM_NONE, a);
    st->tokens = VT_R(vt_reals)(a, n), st->moved = VT_R(vt_reals)(a, n);
    st->in = vt_arena_take(a, (size_t)c->depth, sizeof *st->in);
    st->slope = vt_arena_take(a, (size_t)c->depth, sizeof *st->slope);
    for (int i = 0; i < c->depth; i++) {
        real *in = VT_R(vt_reals)(a, s->mode == VT_GRAD_PARAMS ? n : 0);
        real *slope = VT_R(vt_reals)(a, s->mode == VT_GRAD_NONE ? 0 : n);
        if (st->in && st->slope) st->in[i] = in, st->slope[i] = slope;
    }
    VT_R(vt_readout_plan)(s, &st->end, 1 + c->depth, vt_rows_count(c), c->dim, a);
}

/* Moves the channels of b images: to [b*T, D] = shift(from), or, back, from = the shift of to's places. */
static void shift_channels(real *to, const real *from, const vt_config *c, int b, bool back) {
    const int tokens = vt_rows_count(c), d = c->dim;
    for (int t = 0; t < tokens; t++)
        for (int k = 0; k < VT_SHIFTS; k++) {
            const int first = vt_shift_channel(c, k), n = vt_shift_channel(c, k + 1) - first;
            const int away = vt_shift_from(c, t, k), here = back ? away : t, there = back ? t : away;
            for (int i = 0; i < b; i++)
                memcpy(to + (size_t)(i * tokens + here) * (size_t)d + first,
                       from + (size_t)(i * tokens + there) * (size_t)d + first, (size_t)n * sizeof(real));
        }
}

/* Computes |v| of every second channel of y [m, D] in place; slope [m, D] (or NULL): 1, or -1 where the sign changed.
 */
static void fold_channels(real *y, real *slope, int m, int d) {
    for (int i = 0; i < m; i++, y += d) {
        real *si = slope ? slope + (size_t)i * (size_t)d : NULL;
        for (int j = 0; j < d; j++) {
            const real sign = j % 2 && y[j] < 0 ? -1 : 1;
            y[j] *= sign;
            if (si) si[j] = sign;
        }
    }
}

/* Computes the logits of b images x; keep: stores what backward reads. */
static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int tokens = vt_rows_count(c), d = c->dim, m = b * tokens;
    VT_R(vt_rows_forward)(s, st->tokens, &st->rows, x, b);
    for (int i = 0; i < b; i++)
        VT_R(vt_add_to)(st->tokens + (size_t)(i * tokens) * (size_t)d, s->w[VT_VIT_POS], (size_t)(tokens * d));
    for (int i = 0; i < c->depth; i++) {
        real *in = keep && st->in[i] ? st->in[i] : st->moved, *out = i == c->depth - 1 ? st->end.last : st->tokens;
        VT_R(vt_session_bind)(s, 1 + i);
        shift_channels(in, st->tokens, c, b, false);
        VT_R(vt_linear_forward)(out, NULL, in, VT_R(vt_linear_bound)(s, VT_SHIFT_W), m);
        fold_channels(out, keep ? st->slope[i] : NULL, m, d);
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

/* Computes dx (NULL: not wanted) from dlogits and adds the gradients of the parameters. */
static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int tokens = vt_rows_count(c), d = c->dim, m = s->batch * tokens;
    real *dy = VT_R(vt_readout_backward)(s, &st->end, dlogits);
    for (int i = c->depth - 1; i >= 0; i--, dy = st->tokens) {
        VT_R(vt_session_bind)(s, 1 + i);
        VT_R(vt_act_backward)(dy, dy, st->slope[i], (size_t)m * (size_t)d);
        VT_R(vt_linear_backward)(st->moved, NULL, dy, s->grad ? st->in[i] : NULL, VT_R(vt_linear_bound)(s, VT_SHIFT_W),
                                 m);
        shift_channels(st->tokens, st->moved, c, s->batch, true);
    }
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; s->dw[VT_VIT_POS] && i < s->batch; i++)
        VT_R(vt_add_to)(s->dw[VT_VIT_POS], st->tokens + (size_t)(i * tokens) * (size_t)d, (size_t)(tokens * d));
    VT_R(vt_rows_backward)(s, dx, &st->rows, st->tokens);
}

/* ---- interval bounds ---- */

/* Computes bounds of fold's result in place, y [2m, D], centres c and radii r: |v| of an interval that holds 0 reaches
 * from 0 to |c| + r. slope [m, D]: of the new centre by c; 1/2 or -1/2 where the interval holds 0. */
static void fold_bounds(real *y, real *slope, size_t m, int d) {
    real *c = y, *r = y + m * (size_t)d;
    for (size_t i = 0; i < m * (size_t)d; i++) {
        const real sign = c[i] < 0 ? -1 : 1, size = sign * c[i];
        slope[i] = 1;
        if (i % (size_t)d % 2 == 0) continue;
        slope[i] = size < r[i] ? sign / 2 : sign;
        c[i] = size;
        if (size < r[i]) c[i] = r[i] = (size + r[i]) / 2;
    }
}

/* c' = sign c, r' = r; or, around 0, c' = r' = (sign c + r) / 2:  dc = slope (dc' + dr'), dr = (dc' + dr') / 2 */
static void fold_bounds_backward(real *dy, const real *slope, size_t m, int d) {
    real *dc = dy, *dr = dy + m * (size_t)d;
    for (size_t i = 0; i < m * (size_t)d; i++) {
        const bool around = slope[i] > -1 && slope[i] < 1;
        const real sum = dc[i] + dr[i];
        dc[i] = slope[i] * (around ? sum : dc[i]);
        if (around) dr[i] = sum / 2;
    }
}

/* Computes the blocks' bounds, in o->tokens. */
static void bound_forward(VT_R(vt_bounds) *o) {
    const vt_config *c = &o->s->model->config;
    const int m = o->batch * vt_rows_count(c);
    for (int i = 0; i < c->depth; i++) {
        VT_R(vt_session_bind)(o->s, 1 + i);
        shift_channels(o->in[i], o->tokens, c, 2 * o->batch, false);
        VT_R(vt_bounds_linear_forward)(o, o->tokens, o->in[i], VT_R(vt_linear_bound)(o->s, VT_SHIFT_W), m);
        fold_bounds(o->tokens, o->slope[i], (size_t)m, c->dim);
    }
}

/* Computes the gradient of the blocks' input, in o->tokens, and adds those of their parameters. */
static void bound_backward(VT_R(vt_bounds) *o) {
    const vt_config *c = &o->s->model->config;
    const int m = o->batch * vt_rows_count(c);
    for (int i = c->depth - 1; i >= 0; i--) {
        VT_R(vt_session_bind)(o->s, 1 + i);
        fold_bounds_backward(o->tokens, o->slope[i], (size_t)m, c->dim);
        VT_R(vt_bounds_linear_backward)(o, o->moved, o->tokens, o->in[i], VT_R(vt_linear_bound)(o->s, VT_SHIFT_W), m);
        shift_channels(o->tokens, o->moved, c, 2 * o->batch, true);
    }
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_shift) = {
    .name = "shift",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
    .bound_forward = bound_forward,
    .bound_backward = bound_backward,
};
