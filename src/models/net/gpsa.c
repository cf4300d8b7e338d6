/* SPDX-License-Identifier: MIT */
#include "models/net/gpsa.h"

#include <math.h>
#include <string.h>
#include "nn/nn.h"

/* ---- memory ---- */

void VT_R(vt_gpsa_plan_room)(VT_R(vt_gpsa_room) *g, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    size_t map = VT_R(vt_attn_p_len)(&sh->attn), side = (size_t)g->side, heads = (size_t)sh->attn.heads;
    g->pos = vt_arena_take(a, map, sizeof(real));
    g->dpos = mode == VT_GRAD_PARAMS ? vt_arena_take(a, map, sizeof(real)) : NULL;
    g->line = vt_arena_take(a, 2 * side * side, sizeof(real));
    g->gate = vt_arena_take(a, heads, sizeof(real));
    g->dgate = vt_arena_take(a, heads, sizeof(real));
}

static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    (void)mode;
    size_t b = (size_t)sh->attn.b, m = b * (size_t)sh->attn.t, d = (size_t)sh->attn.c;
    VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    attn.pos = &(real){0}; /* that there will be one makes `saved` longer */
    k->qkv = vt_arena_take(a, 3 * m * d, sizeof(real));
    k->p = vt_arena_take(a, b * VT_R(vt_attn_p_len)(&attn), sizeof(real));
    k->saved = vt_arena_take(a, b * VT_R(vt_attn_saved_len)(&attn), sizeof(real));
}

/* ---- positional attention ---- */

/* p [side, side]: softmax_j(w (j - i) + wr (j - i)^2). What is under 2^-63 is under the rounding of a row's sum, in
 * double too; as a zero it keeps products of two such numbers from being denormal, which are slow. */
static void axis_softmax(real *p, real w, real wr, int side) {
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) p[i * side + j] = w * (real)(j - i) + wr * (real)((j - i) * (j - i));
    VT_R(vt_softmax_forward)(p, p, 1, side, side, side);
    for (int i = 0; i < side * side; i++)
        if (p[i] < (real)0x1p-63) p[i] = 0;
}

/* The scores are a sum of one term in dx and one in dy, so their softmax is a product of two of `side` keys each; the
 * bias moves whole rows, which a softmax does not see. pos [t, ldp] of a head with weights w[3]. */
static void positional_attention(real *pos, real *line, const real *w, int side, int ldp) {
    real *px = line, *py = line + side * side;
    axis_softmax(px, w[0], w[2], side);
    axis_softmax(py, w[1], w[2], side);
    for (int i = 0; i < side * side; i++) {
        const real *x = px + i % side * side, *y = py + i / side * side;
        real *row = pos + (size_t)i * (size_t)ldp;
        for (int r = 0; r < side; r++)
            for (int c = 0; c < side; c++) row[r * side + c] = y[r] * x[c];
    }
}

/* s = w_x dx + w_y dy + w_r (dx^2 + dy^2) + b:  ds = pos (dpos - <pos, dpos>),  dw = sums of ds times dx, dy,
 * dx^2 + dy^2;  the rows of ds sum to zero, so that db = 0 */
static void positional_attention_backward(real *dw, const real *dpos, const real *pos, int side, int ldp) {
    for (int i = 0; i < side * side; i++, dpos += ldp, pos += ldp) {
        real inner = VT_R(vt_row_dot)(pos, dpos, side * side), sum[3] = {0};
        for (int r = 0; r < side; r++) {
            real dy = (real)(r - i / side), row[3] = {0}; /* sums of ds, ds dx, ds dx^2 */
            for (int c = 0; c < side; c++) {
                real dx = (real)(c - i % side), ds = pos[r * side + c] * (dpos[r * side + c] - inner);
                row[0] += ds, row[1] += ds * dx, row[2] += ds * dx * dx;
            }
            sum[0] += row[1], sum[1] += dy * row[0], sum[2] += row[2] + dy * dy * row[0];
        }
        for (int k = 0; k < 3; k++) dw[k] += sum[k];
    }
}

/* ---- attention ---- */

/* Positional attention and gates of the bound layer. */
static VT_R(vt_attn_shape) gated(const VT_R(vt_session) *s, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_gpsa_room) *g = sh->own;
    VT_R(vt_attn_shape) attn = VT_R(vt_block_attn)(sh);
    const int ldp = vt_attn_ldp(attn.t);
    for (int h = 0; h < attn.heads; h++) {
        positional_attention(g->pos + (size_t)(h * attn.t) * (size_t)ldp, g->line, s->w[VT_SLOT_POS_W] + 3 * h, g->side,
                             ldp);
        g->gate[h] = (real)(1 / (1 + exp(-(double)s->w[VT_SLOT_GATING][h])));
    }
    attn.pos = g->pos, attn.gate = g->gate;
    return attn;
}

/* q | k in rows of 2 D (tied: one row of D is both), then v in rows of D. */
static VT_R(vt_attn_in) split(const real *qkv, const VT_R(vt_block_shape) *sh) {
    int d = sh->attn.c, qk = sh->tied_qk ? d : 2 * d;
    size_t m = (size_t)sh->attn.b * (size_t)sh->attn.t;
    return (VT_R(vt_attn_in)){.q = qkv, .k = qkv + qk - d, .v = qkv + m * (size_t)qk, .ldq = qk, .ldk = qk, .ldv = d};
}

/* x after the forward, d_o after attention's backward, which leaves it as it is. */
static void observe_attention(const VT_R(vt_session) *s, const VT_R(vt_block_cache) *k, const VT_R(vt_attn_shape) *attn,
                              const VT_R(vt_attn_in) *in, const real *x, const real *d_o,
                              const VT_R(vt_block_shape) *sh) {
    VT_R(vt_block_observe)
    (s, k,
     &(VT_R(vt_attn_record)){.shape = attn,
                             .in = in,
                             .x = x,
                             .d_o = d_o,
                             .w_q = s->w[VT_SLOT_QK_W],
                             .w_v = s->w[VT_SLOT_V_W],
                             .b_q = s->w[VT_SLOT_QK_B],
                             .b_v = s->w[VT_SLOT_V_B]},
     sh);
}

static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    (void)t;
    int m = sh->attn.b * sh->attn.t;
    const VT_R(vt_attn_in) in = split(k->qkv, sh);
    const VT_R(vt_attn_shape) attn = gated(s, sh);
    real *v = k->qkv + (in.v - k->qkv);
    VT_R(vt_linear_forward)(k->qkv, NULL, x, VT_R(vt_linear_bound)(s, VT_SLOT_QK_W), m);
    if (sh->needs & VT_ATTN_FULL)
        VT_R(vt_full_values)(k, v, &in, s->w[VT_SLOT_QK_W], s->w[VT_SLOT_V_W], sh);
    else
        VT_R(vt_linear_forward)(v, NULL, x, VT_R(vt_linear_bound)(s, VT_SLOT_V_W), m);
    VT_R(vt_attn_forward)(o, k->p, k->saved, &in, s->w + VT_SLOT_ATTN, &attn);
    if (s->watch) observe_attention(s, k, &attn, &in, x, NULL, sh);
}

/* g = sigmoid(u):  du = g (1 - g) dg */
static void gates_backward(const VT_R(vt_session) *s, const VT_R(vt_gpsa_room) *g, const VT_R(vt_attn_shape) *attn) {
    const int ldp = vt_attn_ldp(attn->t);
    for (int h = 0; h < attn->heads; h++) {
        size_t at = (size_t)(h * attn->t) * (size_t)ldp;
        s->dw[VT_SLOT_GATING][h] += g->gate[h] * (1 - g->gate[h]) * g->dgate[h];
        positional_attention_backward(s->dw[VT_SLOT_POS_W] + 3 * h, g->dpos + at, g->pos + at, g->side, ldp);
    }
}

static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_gpsa_room) *g = sh->own;
    int m = sh->attn.b * sh->attn.t, d = sh->attn.c, qk = sh->tied_qk ? d : 2 * d;
    const VT_R(vt_attn_in) in = split(k->qkv, sh), to = split(t->wide, sh);
    real *dqk = t->wide, *dv = t->wide + (to.v - t->wide);
    VT_R(vt_attn_grad) grad = {.q = dqk, .k = dqk + qk - d, .v = dv, .ldq = qk, .ldk = qk, .ldv = d};
    VT_R(vt_attn_shape) attn = gated(s, sh);
    attn.ortho = s->ortho, attn.ortho_value = 0, attn.inject = VT_R(vt_session_inject)(s, sh->index);
    if (s->grad) {
        attn.dpos = g->dpos, attn.dgate = g->dgate;
        memset(g->dpos, 0, VT_R(vt_attn_p_len)(&attn) * sizeof(real));
        memset(g->dgate, 0, (size_t)attn.heads * sizeof(real));
    }
    VT_R(vt_attn_backward)(&grad, s->grad ? s->dw + VT_SLOT_ATTN : NULL, t->score, d_o, k->p, k->saved, &in,
                           s->w + VT_SLOT_ATTN, &attn);
    s->ortho_value += attn.ortho_value;
    if (s->watch) observe_attention(s, k, &attn, &in, NULL, d_o, sh);
    if (s->grad) gates_backward(s, g, &attn);
    bool full = sh->needs & VT_ATTN_FULL;
    if (full)
        VT_R(vt_full_values_backward)(k, &grad, s->dw[VT_SLOT_QK_W], s->dw[VT_SLOT_V_W], &in, s->w[VT_SLOT_QK_W],
                                      s->w[VT_SLOT_V_W], sh);
    /* qk = x W_QK^T, v = x W_V^T:  dx = dqk W_QK + dv W_V */
    VT_R(vt_linear_backward)(dx, NULL, dqk, x, VT_R(vt_linear_bound)(s, VT_SLOT_QK_W), m);
    if (!full) VT_R(vt_linear_backward)(dx, dx, dv, x, VT_R(vt_linear_bound)(s, VT_SLOT_V_W), m);
}

static void view(VT_R(vt_session) *s, VT_R(vt_attn_view) *v, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                 const VT_R(vt_block_shape) *sh) {
    (void)s, (void)t;
    *v = (VT_R(vt_attn_view)){.in = split(k->qkv, sh),
                              .p = k->p,
                              .t = sh->attn.t,
                              .d = sh->attn.c / sh->attn.heads,
                              .heads = sh->attn.heads,
                              .scale = sh->attn.scale};
}

const VT_R(vt_mixer) VT_R(vt_gpsa) = {.plan = plan, .forward = forward, .backward = backward, .view = view};
