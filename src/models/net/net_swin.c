/* SPDX-License-Identifier: MIT */
/* What a Swin (models/arch_swin.c) computes; its windows are windowed.c's. */
#include <string.h>
#include "models/net/windowed.h"
#include "nn/window.h"

enum { MOST_STAGES = 4 };

typedef struct stage {
    vt_swin_stage g;
    VT_R(vt_windows) windows[2]; /* of even and of odd blocks */
    const int *neighbours;       /* merging: [4 side^2] rows of the stage before, or NULL */
    real *joined, *stat;         /* merging: [b * side^2, 2 dim] before its norm, [b * side^2, 2] */
} stage;

typedef struct state {
    VT_R(vt_block_shape) shape; /* what all blocks share */
    stage stages[MOST_STAGES];
    VT_R(vt_block_cache) *blocks; /* [depth]; forward only: the first of each stage serves all of it */
    VT_R(vt_block_scratch) scratch;
    real *patches;      /* [b*N, 3ps^2] normalised */
    real *dpatches;     /* shares the memory of patches unless weight gradients need both */
    real *embed, *stat; /* [b*N, D] before its norm, [b*N, 2] */
    real *out;          /* what the last block of a stage returns; in the end the final norm's input */
    real *fstat;        /* [b * last side^2, 2] */
    real *stream;       /* [b*N, D] gradient */
    real *read, *dread; /* [b, last D] what the head reads; gradient */
} state;

/* Block `block` of stage s, from what all blocks share. */
static VT_R(vt_block_shape) block_of(const VT_R(vt_block_shape) *all, const vt_swin_stage *g, int s, int block,
                                     const VT_R(vt_windows) *windows, int b) {
    VT_R(vt_block_shape) sh = *all;
    sh.attn.b = b, sh.attn.t = g->side * g->side, sh.attn.c = g->dim, sh.attn.heads = g->heads;
    sh.attn.scale = (real)g->scale, sh.hidden = g->hidden;
    sh.layer = vt_swin_block_layer(g, s, block), sh.index = g->first + block;
    sh.mixer = &VT_R(vt_windowed), sh.own = &windows[block % 2];
    return sh;
}

/* ---- memory ---- */

/* Orders and masks of a stage, and room in the windows' shared buffers for its blocks. */
static void plan_stage(stage *st, const vt_config *c, int s, VT_R(vt_windows) *shared, size_t b, vt_arena *a) {
    const vt_swin_stage g = st->g = vt_swin_stage_of(c, s);
    const size_t area = (size_t)(g.window * g.window), rows = (size_t)g.windows * area;
    const int ldp = vt_attn_ldp((int)area);
    for (int k = 0; k < 2; k++) {
        const bool shifted = k && g.shift;
        int *order = k && !shifted ? NULL : vt_arena_take(a, rows, sizeof *order);
        real *mask = shifted ? vt_arena_take(a, rows * (size_t)ldp, sizeof *mask) : NULL;
        if (order) VT_R(vt_window_order)(order, g.side, g.window, shifted ? g.shift : 0);
        if (mask) VT_R(vt_window_mask)(mask, g.side, g.window, g.shift, ldp);
        st->windows[k] = *shared;
        st->windows[k].window = g.window, st->windows[k].count = g.windows, st->windows[k].mask = mask;
        st->windows[k].order = k && !shifted ? st->windows[0].order : order;
    }
    if (!s) return;
    const size_t n = (size_t)(g.side * g.side), m = b * n;
    int *neighbours = vt_arena_take(a, 4 * n, sizeof *neighbours);
    if (neighbours) VT_R(vt_merge_order)(neighbours, 2 * g.side);
    st->neighbours = neighbours;
    st->joined = vt_arena_take(a, m * 2 * (size_t)g.dim, sizeof(real));
    st->stat = vt_arena_take(a, 2 * m, sizeof(real));
}

/* Buffers that all blocks use in turn. */
static void plan_shared(VT_R(vt_session) *s, VT_R(vt_windows) *shared, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    VT_R(vt_block_sizes) room = {0};
    size_t rows = 0, bias = 0;
    for (int i = 0; i < c->stages; i++) {
        const vt_swin_stage g = vt_swin_stage_of(c, i);
        const VT_R(vt_windows) w[2] = {{.window = g.window, .count = g.windows}};
        VT_R(vt_block_shape) sh = block_of(&st->shape, &g, i, 0, w, s->capacity), in = VT_R(vt_windowed_shape)(&sh);
        const size_t m = (size_t)in.attn.b * (size_t)in.attn.t * (size_t)g.dim;
        const size_t n = (size_t)(g.heads * in.attn.t) * (size_t)vt_attn_ldp(in.attn.t);
        if (m > rows) rows = m;
        if (n > bias) bias = n;
        VT_R(vt_block_measure)(&room, &in);
        sh.attn.b *= sh.attn.t, sh.attn.t = 1; /* its rows, without attention among all of them */
        VT_R(vt_block_measure)(&room, &sh);
    }
    VT_R(vt_block_plan_scratch)(&st->scratch, &room, a);
    shared->x = vt_arena_take(a, rows, sizeof(real)), shared->o = vt_arena_take(a, rows, sizeof(real));
    shared->bias = vt_arena_take(a, bias, sizeof(real));
    shared->dbias = s->mode == VT_GRAD_PARAMS ? vt_arena_take(a, bias, sizeof(real)) : NULL;
}

static void plan(VT_R(vt_session) *s, vt_arena *a) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const size_t b = (size_t)s->capacity, m = b * (size_t)vt_swin_tokens(c), d = (size_t)c->dim;
    const size_t row = (size_t)(3 * c->patch * c->patch);
    const bool params_too = s->mode == VT_GRAD_PARAMS;
    VT_R(vt_windows) shared = {0};
    st->shape = VT_R(vt_block_of)(c), st->shape.attn.by = s->products;
    plan_shared(s, &shared, a);
    st->patches = vt_arena_take(a, m * row, sizeof(real));
    st->dpatches = params_too ? vt_arena_take(a, m * row, sizeof(real)) : st->patches;
    st->embed = vt_arena_take(a, m * d, sizeof(real));
    st->stat = vt_arena_take(a, 2 * m, sizeof(real));
    st->out = vt_arena_take(a, m * d, sizeof(real)); /* a later stage is smaller */
    st->stream = s->mode == VT_GRAD_NONE ? NULL : vt_arena_take(a, m * d, sizeof(real));
    VT_R(vt_block_cache) *blocks = vt_arena_take(a, (size_t)c->depth, sizeof *blocks), measured;
    st->blocks = blocks;
    for (int i = 0; i < c->stages; i++) {
        plan_stage(&st->stages[i], c, i, &shared, b, a);
        const vt_swin_stage *g = &st->stages[i].g;
        for (int k = 0; k < (s->mode == VT_GRAD_NONE ? 1 : g->depth); k++) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, g, i, k, st->stages[i].windows, s->capacity);
            VT_R(vt_block_plan)(blocks ? &blocks[sh.index] : &measured, &sh, s->mode, a);
        }
    }
    const vt_swin_stage *last = &st->stages[c->stages - 1].g;
    const size_t rows = b * (size_t)(last->side * last->side);
    st->fstat = vt_arena_take(a, 2 * rows, sizeof(real));
    st->read = vt_arena_take(a, b * (size_t)last->dim, sizeof(real));
    st->dread = vt_arena_take(a, b * (size_t)last->dim, sizeof(real));
    s->features = st->read, s->feature_len = s->feature_stride = last->dim;
}

/* ---- forward ---- */

static void embed_patches(VT_R(vt_session) *s, real *to, const real *x, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int n = vt_swin_tokens(c), row = 3 * c->patch * c->patch;
    VT_R(vt_session_bind)(s, 0);
    for (int i = 0; i < b; i++)
        VT_R(vt_patchify_forward)(st->patches + (size_t)i * (size_t)n * (size_t)row,
                                  x + (size_t)i * vt_config_pixels(c), c->mean, c->std, c->image, c->image, c->patch);
    VT_R(vt_linear_forward)(st->embed, NULL, st->patches, VT_R(vt_linear_bound)(s, VT_SWIN_EMBED_W), b * n);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_EMBED_NORM, c->norm, c->ln_eps);
    VT_R(vt_norm_forward)(to, st->stat, st->embed, norm, b * n, c->dim);
}

/* st->out -> to: four neighbours joined, reduction(norm(joined)) */
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

/* st->out -> logits */
static void compute_logits(VT_R(vt_session) *s, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const vt_swin_stage *g = &st->stages[c->stages - 1].g;
    const int n = g->side * g->side, d = g->dim;
    VT_R(vt_session_bind)(s, vt_swin_head_layer(c));
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_NORM, c->final_norm, c->ln_eps);
    const real *row = st->scratch.norm;
    VT_R(vt_norm_forward)(st->scratch.norm, st->fstat, st->out, norm, b * n, d);
    memset(st->read, 0, (size_t)(b * d) * sizeof(real));
    for (int i = 0; i < b; i++) {
        real *to = st->read + (size_t)i * (size_t)d;
        for (int k = 0; k < n; k++, row += d) VT_R(vt_add_to)(to, row, (size_t)d);
        for (int j = 0; j < d; j++) to[j] /= (real)n;
    }
    VT_R(vt_head_forward)(s->logits, st->read, VT_R(vt_linear_bound)(s, VT_SWIN_HEAD_W), b, 1);
}

static void forward(VT_R(vt_session) *s, const real *x, int b, bool keep) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    for (int i = 0; i < c->stages; i++) {
        const stage *at = &st->stages[i];
        VT_R(vt_block_cache) *k = &st->blocks[at->g.first];
        if (i)
            merge_patches(s, k->x, i, b);
        else
            embed_patches(s, k->x, x, b);
        for (int j = 0; j < at->g.depth; j++, k += keep) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, &at->g, i, j, at->windows, b);
            VT_R(vt_block_forward)(s, j == at->g.depth - 1 ? st->out : k[keep].x, k, &st->scratch, &sh);
        }
    }
    compute_logits(s, b);
}

/* ---- backward ---- */

/* dlogits -> st->stream, the gradient of st->out */
static void readout_backward(VT_R(vt_session) *s, const real *dlogits, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const vt_swin_stage *g = &st->stages[c->stages - 1].g;
    const int n = g->side * g->side, d = g->dim;
    VT_R(vt_session_bind)(s, vt_swin_head_layer(c));
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_NORM, c->final_norm, c->ln_eps);
    VT_R(vt_head_backward)(st->dread, dlogits, st->read, VT_R(vt_linear_bound)(s, VT_SWIN_HEAD_W), 1, b, 1);
    real *to = st->stream; /* read = mean of rows */
    for (int i = 0; i < b; i++)
        for (int k = 0; k < n; k++, to += d)
            for (int j = 0; j < d; j++) to[j] = st->dread[i * d + j] / (real)n;
    VT_R(vt_norm_backward)(st->stream, NULL, st->stream, st->out, st->fstat, norm, b * n, d);
}

/* st->stream: the gradient of the merged rows becomes that of the stage before */
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

static void embed_backward(VT_R(vt_session) *s, real *dx, int b) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int n = vt_swin_tokens(c), row = 3 * c->patch * c->patch, m = b * n, d = c->dim;
    VT_R(vt_session_bind)(s, 0);
    const VT_R(vt_norm) norm = VT_R(vt_norm_bound)(s, VT_SWIN_EMBED_NORM, c->norm, c->ln_eps);
    VT_R(vt_norm_backward)(st->stream, NULL, st->stream, st->embed, st->stat, norm, m, d);
    VT_R(vt_linear_backward)(dx ? st->dpatches : NULL, NULL, st->stream, st->patches,
                             VT_R(vt_linear_bound)(s, VT_SWIN_EMBED_W), m);
    for (int i = 0; dx && i < b; i++)
        VT_R(vt_patchify_backward)(dx + (size_t)i * vt_config_pixels(c),
                                   st->dpatches + (size_t)i * (size_t)n * (size_t)row, c->std, c->image, c->image,
                                   c->patch);
}

static void backward(VT_R(vt_session) *s, const real *dlogits, real *dx) {
    const vt_config *c = &s->model->config;
    state *st = s->state;
    const int b = s->batch;
    readout_backward(s, dlogits, b);
    for (int i = c->stages - 1; i >= 0; i--) {
        const stage *at = &st->stages[i];
        for (int j = at->g.depth - 1; j >= 0; j--) {
            const VT_R(vt_block_shape) sh = block_of(&st->shape, &at->g, i, j, at->windows, b);
            VT_R(vt_block_backward)(s, st->stream, st->stream, &st->blocks[sh.index], &st->scratch, &sh);
        }
        if (i) merge_backward(s, i, b);
    }
    embed_backward(s, dx, b);
}

const VT_R(vt_arch_ops) VT_R(vt_arch_ops_swin) = {
    .name = "swin",
    .state_size = sizeof(state),
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
