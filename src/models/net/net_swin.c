/* SPDX-License-Identifier: MIT */
/* What a Swin (models/arch_swin.c) computes. Attention in windows (Liu et al. 2021, 3.2) is a block's token mixer: rows
 * go into windows, vt_mha runs on each window as on a sequence of its own, with the relative position bias and the
 * shift's mask, and rows go back. */
#include <string.h>
#include "models/net/patch_rows.h"
#include "models/net/readout.h"
#include "models/swin.h"
#include "nn/window.h"

/* sh->own of a block. The buffers are scratch that all blocks share. */
typedef struct windows {
    int window, count;  /* tokens a side of a window, windows of an image */
    const int *order;   /* [count * window^2] of nn/window.h */
    const real *mask;   /* [count, window^2, ldp], or NULL: not shifted */
    real *x, *o;        /* [b * count * window^2, width] each */
    real *bias, *dbias; /* [heads, window^2, ldp] each */
} windows;

typedef struct stage {
    vt_swin_stage g;
    windows windows[2];    /* of even and of odd blocks */
    const int *neighbours; /* merging: [4 side^2] rows of the stage before, or NULL */
    real *joined, *stat;   /* merging: [b * side^2, 2 dim] before its norm, [b * side^2, 2] */
} stage;

typedef struct state {
    VT_R(vt_block_shape) shape; /* what all blocks share */
    stage stages[4];
    VT_R(vt_block_cache) *blocks; /* [depth]; forward only: the first of each stage serves all of it */
    VT_R(vt_block_scratch) scratch;
    VT_R(vt_patch_rows) rows;
    VT_R(vt_readout) end;
    real *out;    /* what the last block of a stage returns, but for the last stage */
    real *stream; /* [b*N, D] gradient */
} state;

/* ---- attention in windows ---- */

/* The shape with which vt_mha is called: windows for images. */
static VT_R(vt_block_shape) shape_in_windows(const VT_R(vt_block_shape) *sh) {
    const windows *w = sh->own;
    VT_R(vt_block_shape) in = *sh;
    in.attn.b *= w->count, in.attn.t = w->window * w->window;
    in.attn.bias = w->bias, in.attn.mask = w->mask, in.attn.windows = w->count;
    return in;
}

/* Takes the memory of attention in windows. */
static void plan_windowed(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    const VT_R(vt_block_shape) in = shape_in_windows(sh);
    VT_R(vt_mha).plan(k, &in, mode, a);
}

/* Copies the rows of the images x to windows, `to` [windows, window^2, dim]. */
static void rows_to_windows(real *to, const real *x, const VT_R(vt_block_shape) *sh) {
    const windows *w = sh->own;
    VT_R(vt_rows_take)(to, x, w->order, sh->attn.b, w->count * w->window * w->window, sh->attn.t, sh->dim);
}

/* Copies rows from windows back to their places in the images x: undoes rows_to_windows. */
static void windows_to_rows(real *x, const real *from, const VT_R(vt_block_shape) *sh) {
    const windows *w = sh->own;
    VT_R(vt_rows_put)(x, from, w->order, sh->attn.b, w->count * w->window * w->window, sh->attn.t, sh->dim);
}

/* Computes attention within each window, shifted or not (vt_token_mixer). */
static void windowed_forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                             const real *x, const VT_R(vt_block_shape) *sh) {
    const windows *w = sh->own;
    const VT_R(vt_block_shape) in = shape_in_windows(sh);
    VT_R(vt_window_bias)(w->bias, s->w[VT_SLOT_BIAS_TABLE], w->window, sh->attn.heads, vt_attn_ldp(in.attn.t));
    rows_to_windows(w->x, x, sh);
    VT_R(vt_mha).forward(s, w->o, k, t, w->x, &in);
    windows_to_rows(o, w->o, sh);
}

/* Computes dx of attention within windows and adds the gradients of the parameters. */
static void windowed_backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t,
                              const real *d_o, const real *x, const VT_R(vt_block_shape) *sh) {
    const windows *w = sh->own;
    VT_R(vt_block_shape) in = shape_in_windows(sh);
    const int heads = sh->attn.heads, ldp = vt_attn_ldp(in.attn.t);
    real *dtable = s->dw[VT_SLOT_BIAS_TABLE];
    if (dtable) {
        memset(w->dbias, 0, (size_t)heads * (size_t)in.attn.t * (size_t)ldp * sizeof(real));
        in.attn.dbias = w->dbias;
    }
    VT_R(vt_window_bias)(w->bias, s->w[VT_SLOT_BIAS_TABLE], w->window, heads, ldp);
    rows_to_windows(w->o, d_o, sh);
    if (x) rows_to_windows(w->x, x, sh);
    VT_R(vt_mha).backward(s, w->o, k, t, w->o, x ? w->x : NULL, &in);
    if (dtable) VT_R(vt_window_bias_backward)(dtable, w->dbias, w->window, heads, ldp);
    windows_to_rows(dx, w->o, sh);
}

static const VT_R(vt_token_mixer) windowed = {.plan = plan_windowed,
                                              .forward = windowed_forward,
                                              .backward = windowed_backward};

/* Block `block` of stage s, from what all blocks share. */
static VT_R(vt_block_shape) block_of(const VT_R(vt_block_shape) *all, const stage *at, int s, int block, int b) {
    VT_R(vt_block_shape) sh = *all;
    const vt_swin_stage *g = &at->g;
    sh.attn.b = b, sh.attn.t = g->side * g->side, sh.attn.c = sh.dim = g->dim, sh.attn.heads = g->heads;
    sh.attn.scale = (real)g->scale, sh.hidden = g->hidden;
    sh.layer = vt_swin_block_layer(g, s, block), sh.index = g->first + block;
    sh.mixer = &windowed, sh.own = &at->windows[block % 2];
    return sh;
}

/* ---- memory ---- */

/* Sets orders and masks of stage s, with room in the windows' shared buffers for its blocks, and (but for stage 0) what
 * its merging needs; a measuring arena leaves them NULL. */
static void plan_stage(stage *st, int s, const windows *shared, size_t b, vt_arena *a) {
    const vt_swin_stage g = st->g;
    const size_t rows = (size_t)(g.windows * g.window * g.window), n = (size_t)(g.side * g.side);
    const int ldp = vt_attn_ldp(g.window * g.window);
    for (int k = 0; k < 2; k++) {
        windows *w = &st->windows[k];
        int *order = vt_arena_take(a, rows, sizeof *order);
        real *mask = k && g.shift ? vt_arena_take(a, rows * (size_t)ldp, sizeof *mask) : NULL;
        if (order) VT_R(vt_window_order)(order, g.side, g.window, k ? g.shift : 0);
        if (mask) VT_R(vt_window_mask)(mask, g.side, g.window, g.shift, ldp);
        *w = *shared, w->window = g.window, w->count = g.windows, w->order = order, w->mask = mask;
    }
    if (!s) return;
    int *neighbours = vt_arena_take(a, 4 * n, sizeof *neighbours);
    if (neighbours) VT_R(vt_merge_order)(neighbours, 2 * g.side);
    st->neighbours = neighbours;
    st->joined = VT_R(vt_reals)(a, b * n * 2 * (size_t)g.dim);
    st->stat = VT_R(vt_reals)(a, 2 * b * n);
}

/* Takes the buffers that all blocks use in turn: st->scratch and *shared; sets st->stages' shapes. */
static void plan_shared(VT_R(vt_session) *s, windows *shared, vt_arena *a) {
    state *st = s->state;
    VT_R(vt_block_sizes) room = {0};
    size_t rows = 0, bias = 0;
    for (int i = 0; i < s->model->config.stages; i++) {
        stage at = {.g = vt_swin_stage_of(&s->model->config, i)};
        at.windows[0].window = at.g.window, at.windows[0].count = at.g.windows;
        VT_R(vt_block_shape) sh = block_of(&st->shape, &at, i, 0, s->capacity), in = shape_in_windows(&sh);
        const size_t m = (size_t)in.attn.b * (size_t)in.attn.t * (size_t)at.g.dim;
        const size_t n = (size_t)(at.g.heads * in.attn.t) * (size_t)vt_attn_ldp(in.attn.t);
        if (m > rows) rows = m;
        if (n > bias) bias = n;
        VT_R(vt_block_measure)(&room, &in);
        sh.attn.b *= sh.attn.t, sh.attn.t = 1; /* its rows, without attention among all of them */
        VT_R(vt_block_measure)(&room, &sh);
        st->stages[i] = at;
    }
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    shared->x = VT_R(vt_reals)(a, rows), shared->o = VT_R(vt_reals)(a, rows);
    shared->bias = VT_R(vt_reals)(a, bias);
    shared->dbias = VT_R(vt_reals)(a, s->mode == VT_GRAD_PARAMS ? bias : 0);
}

/* Takes the memory of all stages from the arena. */
static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const size_t b = (size_t)s->capacity, m = b * (size_t)vt_rows_count(c) * (size_t)c->dim;
    windows shared = {0};
    st->shape = VT_R(vt_block_of)(s);
    plan_shared(s, &shared, a);
    VT_R(vt_rows_plan)(s, &st->rows, c->norm, a);
    st->out = VT_R(vt_reals)(a, m); /* a later stage is smaller */
    st->stream = VT_R(vt_reals)(a, s->mode == VT_GRAD_NONE ? 0 : m);
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, (size_t)c->depth, sizeof *blocks), measured;
    st->blocks = blocks;
    for (int i = 0; i < c->stages; i++) {
        stage *at = &st->stages[i];
        plan_stage(at, i, &shared, b, a);
        for (int k = 0; k < (s->mode == VT_GRAD_NONE ? 1 : at->g.depth); k++) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, at, i, k, s->capacity);
            VT_R(vt_block_plan)(blocks ? &blocks[sh.index] : &measured, &sh, s->mode, a);
        }
    }
    const vt_swin_stage *last = &st->stages[c->stages - 1].g;
    VT_R(vt_readout_plan)(s, &st->end, vt_swin_head_layer(c), last->side * last->side, last->dim, a);
}

/* ---- forward and backward ---- */

/* st->out -> to: four neighbours joined, reduction(norm(joined)); keeps stage i's joined and stat. Binds its merging
 * layer. */
static void merge_patches(VT_R(vt_session) *s, real *to, int i, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const stage *at = &st->stages[i];
    const int n = at->g.side * at->g.side, d = at->g.dim;
    VT_R(vt_session_bind)(s, vt_swin_merge_layer(&at->g, i));
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_MERGE_NORM, c->norm, c->ln_eps);
    VT_R(vt_rows_take)(at->joined, st->out, at->neighbours, b, 4 * n, 4 * n, d / 2);
    VT_R(vt_norm_forward)(st->scratch.norm, at->stat, at->joined, norm, b * n, 2 * d);
    VT_R(vt_linear_forward)(to, NULL, st->scratch.norm, VT_R(vt_linear_bound)(s, VT_SWIN_MERGE_W), b * n);
}

/* st->stream: the gradient of stage i's merged rows becomes that of the stage before; adds to the merging's parameter
 * gradients. Binds its layer. */
static void merge_backward(VT_R(vt_session) *s, int i, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const stage *at = &st->stages[i];
    const int n = at->g.side * at->g.side, d = at->g.dim;
    real *again = st->scratch.norm, *dnorm = st->scratch.full;
    VT_R(vt_session_bind)(s, vt_swin_merge_layer(&at->g, i));
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_MERGE_NORM, c->norm, c->ln_eps);
    if (s->grad) VT_R(vt_norm_again)(again, at->stat, at->joined, norm, b * n, 2 * d);
    VT_R(vt_linear_backward)(dnorm, NULL, st->stream, again, VT_R(vt_linear_bound)(s, VT_SWIN_MERGE_W), b * n);
    VT_R(vt_norm_backward)(dnorm, NULL, dnorm, at->joined, at->stat, norm, b * n, 2 * d);
    VT_R(vt_rows_put)(st->stream, dnorm, at->neighbours, b, 4 * n, 4 * n, d / 2);
}

/* Computes the logits of b images x; keep: stores what backward reads. */
static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    for (int i = 0; i < c->stages; i++) {
        const stage *at = &st->stages[i];
        VT_R(vt_block_cache) *k = &st->blocks[at->g.first];
        real *out = i == c->stages - 1 ? st->end.last : st->out;
        if (i)
            merge_patches(s, k->x, i, b);
        else
            VT_R(vt_rows_forward)(s, k->x, &st->rows, x, b);
        for (int j = 0; j < at->g.depth; j++, k += keep) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, at, i, j, b);
            VT_R(vt_block_forward)(s, j == at->g.depth - 1 ? out : k[keep].x, k, &st->scratch, &sh);
        }
    }
    VT_R(vt_readout_forward)(s, &st->end, b);
}

/* Computes dx (NULL: not wanted) from dlogits and adds the gradients of the parameters. */
static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    real *dy = VT_R(vt_readout_backward)(s, &st->end, dlogits);
    for (int i = c->stages - 1; i >= 0; i--) {
        const stage *at = &st->stages[i];
        for (int j = at->g.depth - 1; j >= 0; j--, dy = st->stream) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, at, i, j, s->batch);
            VT_R(vt_block_backward)(s, st->stream, dy, &st->blocks[sh.index], &st->scratch, &sh);
        }
        if (i) merge_backward(s, i, s->batch);
    }
    VT_R(vt_rows_backward)(s, dx, &st->rows, st->stream);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_swin) = {
    .name = "swin",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
