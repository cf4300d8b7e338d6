/* SPDX-License-Identifier: MIT */
#include "models/net/windowed.h"

#include <string.h>
#include "nn/window.h"

VT_R(vt_block_shape) VT_R(vt_windowed_shape)(const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_windows) *w = sh->own;
    VT_R(vt_block_shape) in = *sh;
    in.attn.b *= w->count, in.attn.t = w->window * w->window;
    in.attn.bias = w->bias, in.attn.mask = w->mask, in.attn.windows = w->count;
    return in;
}

static void plan(VT_R(vt_block_cache) *k, const VT_R(vt_block_shape) *sh, vt_grad_mode mode, vt_arena *a) {
    const VT_R(vt_block_shape) in = VT_R(vt_windowed_shape)(sh);
    VT_R(vt_mha).plan(k, &in, mode, a);
}

/* Rows of the images into windows, and back. */
static void rows_to_windows(real *to, const real *x, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_windows) *w = sh->own;
    VT_R(vt_rows_take)(to, x, w->order, sh->attn.b, w->count * w->window * w->window, sh->attn.t, sh->attn.c);
}

static void windows_to_rows(real *x, const real *from, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_windows) *w = sh->own;
    VT_R(vt_rows_put)(x, from, w->order, sh->attn.b, w->count * w->window * w->window, sh->attn.t, sh->attn.c);
}

static void forward(VT_R(vt_session) *s, real *o, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *x,
                    const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_windows) *w = sh->own;
    const VT_R(vt_block_shape) in = VT_R(vt_windowed_shape)(sh);
    VT_R(vt_window_bias)(w->bias, s->w[VT_SLOT_BIAS_TABLE], w->window, sh->attn.heads, vt_attn_ldp(in.attn.t));
    rows_to_windows(w->x, x, sh);
    VT_R(vt_mha).forward(s, w->o, k, t, w->x, &in);
    windows_to_rows(o, w->o, sh);
}

static void backward(VT_R(vt_session) *s, real *dx, VT_R(vt_block_cache) *k, VT_R(vt_block_scratch) *t, const real *d_o,
                     const real *x, const VT_R(vt_block_shape) *sh) {
    const VT_R(vt_windows) *w = sh->own;
    VT_R(vt_block_shape) in = VT_R(vt_windowed_shape)(sh);
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

const VT_R(vt_mixer) VT_R(vt_windowed) = {.plan = plan, .forward = forward, .backward = backward};
