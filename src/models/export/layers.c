/* SPDX-License-Identifier: MIT */
/* The layers that architectures share, as ONNX nodes. */
#define VT_DOUBLE /* constants are made in double */
#include "base/real.h"
#include "models/export/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

void vt_export_bind(vt_export *x, int layer, const char *scope) {
    memset(x->param, 0, sizeof x->param);
    for (int i = 0; i < x->m->params.count; i++) {
        const vt_param *q = &x->m->params.items[i];
        if (q->layer == layer) x->param[q->slot] = q;
    }
    vt_put_scope(x->p, scope);
}

int vt_export_tensor(vt_export *x, int slot, const vt_dims *dims) {
    const vt_param *q = x->param[slot];
    vt_dims own = {.rank = q->ndim};
    memcpy(own.d, q->shape, sizeof q->shape);
    return vt_put_floats(x->p, q->name, dims ? dims : &own, x->m->w + q->offset);
}

int vt_export_transposed(vt_export *x, int slot) {
    const vt_param *q = x->param[slot];
    char name[80];
    snprintf(name, sizeof name, "%s.T", q->name);
    return vt_put_transposed(x->p, name, q->shape[0], (int64_t)q->numel / q->shape[0], x->m->w + q->offset);
}

int vt_export_linear(vt_export *x, int v, int slot) {
    if (!x->param[slot]) return v;
    v = vt_put_binary(x->p, "MatMul", v, vt_export_transposed(x, slot));
    return x->param[slot + 1] ? vt_put_binary(x->p, "Add", v, vt_export_tensor(x, slot + 1, NULL)) : v;
}

/* ---- normalisations ---- */

/* Returns (v - mean) / sqrt(var + eps) in the order of torch's exports, which other programs recognise as one
 * LayerNorm; ONNX's LayerNormalization has a float32 epsilon, and 1e-6 is none. */
static int standardise_rows(vt_export *x, int v, double eps, int64_t axis) {
    vt_put *p = x->p;
    v = vt_put_binary(p, "Sub", v, vt_put_reduce(p, "ReduceMean", v, axis));
    int var = vt_put_reduce(p, "ReduceMean", vt_put_binary(p, "Pow", v, vt_put_real(p, 2)), axis);
    return vt_put_binary(p, "Div", v, vt_put_unary(p, "Sqrt", vt_put_binary(p, "Add", var, vt_put_real(p, eps))));
}

/* Returns (v - mean) (c / (c - 1)) along an axis of c numbers. */
static int centre_rows(vt_export *x, int v, int c, int64_t axis) {
    vt_put *p = x->p;
    v = vt_put_binary(p, "Sub", v, vt_put_reduce(p, "ReduceMean", v, axis));
    return vt_put_binary(p, "Mul", v, vt_put_real(p, (double)c / (c - 1)));
}

int vt_export_norm(vt_export *x, int v, int slot, vt_norm_kind kind, double eps, int c, bool map) {
    vt_put *p = x->p;
    const vt_dims *d = map ? VT_DIMS(c, 1, 1) : NULL;
    const int64_t axis = map ? 1 : -1;
    if (kind == VT_NORM_NONE) return v;
    if (kind == VT_NORM_LAYER) v = standardise_rows(x, v, eps, axis);
    if (kind == VT_NORM_CENTER) v = centre_rows(x, v, c, axis);
    if (kind == VT_NORM_BATCH) {
        int var = vt_put_binary(p, "Add", vt_export_tensor(x, slot + VT_NORM_VAR, d), vt_put_real(p, eps));
        v = vt_put_binary(p, "Sub", v, vt_export_tensor(x, slot + VT_NORM_MEAN, d));
        v = vt_put_binary(p, "Div", v, vt_put_unary(p, "Sqrt", var));
    }
    v = vt_put_binary(p, "Mul", v, vt_export_tensor(x, slot + VT_NORM_W, d));
    return vt_put_binary(p, "Add", v, vt_export_tensor(x, slot + VT_NORM_B, d));
}

/* ---- activations ---- */

/* Returns v (1 + f(u)) 0.5. */
static int half_of(vt_export *x, int v, const char *f, int u) {
    vt_put *p = x->p;
    u = vt_put_binary(p, "Add", vt_put_unary(p, f, u), vt_put_real(p, 1));
    return vt_put_binary(p, "Mul", vt_put_binary(p, "Mul", v, u), vt_put_real(p, 0.5));
}

/* Adds GELU and its approximation as torch's exports have them: sqrt 2 is the root of a constant, which is exact in
 * either precision. */
int vt_export_act(vt_export *x, int v, vt_act act) {
    vt_put *p = x->p;
    if (act == VT_ACT_RELU) return vt_put_unary(p, "Relu", v);
    if (act == VT_ACT_QUICK_GELU)
        return vt_put_binary(p, "Mul", v,
                             vt_put_unary(p, "Sigmoid", vt_put_binary(p, "Mul", v, vt_put_real(p, 1.702))));
    if (act == VT_ACT_GELU)
        return half_of(x, v, "Erf", vt_put_binary(p, "Div", v, vt_put_unary(p, "Sqrt", vt_put_real(p, 2))));
    int cube = vt_put_binary(p, "Mul", vt_put_binary(p, "Pow", v, vt_put_real(p, 3)), vt_put_real(p, 0.044715));
    int u = vt_put_binary(p, "Mul", vt_put_binary(p, "Add", v, cube), vt_put_real(p, 0.79788456080286535588));
    return half_of(x, v, "Tanh", u);
}

/* ---- maps ---- */

int vt_export_conv(vt_export *x, int v, int slot, int kernel, int stride, int pad, int groups) {
    const bool bias = x->param[slot + 1] != NULL;
    const int in[3] = {v, vt_export_tensor(x, slot, NULL), bias ? vt_export_tensor(x, slot + 1, NULL) : 0};
    const vt_put_attr attr[] = {{"kernel_shape", 2, {kernel, kernel}},
                                {"strides", 2, {stride, stride}},
                                {"pads", 4, {pad, pad, pad, pad}},
                                {"group", 0, {groups}},
                                {0}};
    return vt_put_node(x->p, "Conv", in, 2 + bias, attr);
}

int vt_export_scale(vt_export *x, int v, int slot, const vt_dims *dims) {
    return x->param[slot] ? vt_put_binary(x->p, "Mul", v, vt_export_tensor(x, slot, dims)) : v;
}

int vt_export_tokens(vt_export *x, int v, int c, int tokens) {
    return vt_put_transpose(x->p, vt_put_reshape(x->p, v, VT_DIMS(0, c, tokens)), VT_DIMS(0, 2, 1));
}

int vt_export_map(vt_export *x, int v, int c, int side) {
    return vt_put_reshape(x->p, vt_put_transpose(x->p, v, VT_DIMS(0, 2, 1)), VT_DIMS(0, c, side, side));
}

int vt_export_stem(vt_export *x, int v, const vt_stem *s) {
    for (int k = 0; k < s->convs; k++) {
        const int slot = s->slot + k * VT_STEM_SLOTS;
        v = vt_export_conv(x, v, slot + VT_STEM_W, 3, s->conv[k].stride, 1, 1);
        v = vt_export_norm(x, v, slot + VT_STEM_NORM, s->norm, s->eps, s->widths[k + 1], true);
        if (k < s->acts) v = vt_export_act(x, v, s->act);
    }
    return v;
}

/* ---- resampling: y = R X C^T of each channel ---- */

/* Returns the axis as a matrix [out, in], or its transpose; -1: no memory. */
static int axis_matrix(vt_export *x, const vt_interp_axis_f64 *axis, bool transposed) {
    const size_t in = (size_t)axis->in, out = (size_t)axis->out, taps = (size_t)axis->taps;
    double *m = vt_alloc(in * out * sizeof *m);
    if (!m) return vt_put_failed(x->p);
    memset(m, 0, in * out * sizeof *m);
    for (size_t t = 0; t < out * taps; t++) {
        const size_t i = (size_t)axis->at[t], o = t / taps;
        m[transposed ? i * out + o : o * in + i] += axis->w[t];
    }
    int r = vt_put_reals(x->p, transposed ? VT_DIMS(axis->in, axis->out) : VT_DIMS(axis->out, axis->in), m);
    free(m);
    return r;
}

/* Sets matrix to those of rows and columns, the second one transposed if asked; -1: no memory. */
static void grid_matrices(vt_export *x, int matrix[2], const vt_export_grid *g, bool transposed) {
    vt_interp_f64 plan;
    vt_arena a = {0};
    matrix[0] = matrix[1] = -1;
    vt_interp_plan_f64(&plan, &a, g->kind, g->antialias, g->in, g->in, g->out, g->out, g->offset);
    void *block = vt_alloc(a.used);
    if (!block) vt_put_failed(x->p);
    if (!block) return;
    vt_interp_plan_f64(&plan, &(vt_arena){.base = block, .size = a.used}, g->kind, g->antialias, g->in, g->in, g->out,
                       g->out, g->offset);
    matrix[0] = axis_matrix(x, &plan.rows, false), matrix[1] = axis_matrix(x, &plan.columns, transposed);
    free(block);
}

int vt_export_resample_map(vt_export *x, int v, const vt_export_grid *g) {
    int m[2];
    grid_matrices(x, m, g, true);
    return vt_put_binary(x->p, "MatMul", m[0], vt_put_binary(x->p, "MatMul", v, m[1]));
}

int vt_export_resample_rows(vt_export *x, int v, int d, const vt_export_grid *g) {
    vt_put *p = x->p;
    const int64_t in = g->in, out = g->out;
    int m[2];
    grid_matrices(x, m, g, false);
    v = vt_put_binary(p, "MatMul", m[1], vt_put_reshape(p, v, VT_DIMS(in, in, d))); /* [in, out, d] */
    v = vt_put_binary(p, "MatMul", m[0], vt_put_reshape(p, v, VT_DIMS(in, out * d)));
    return vt_put_reshape(p, v, VT_DIMS(1, out * out, d));
}

/* ---- patches ---- */

/* Returns pixels [N, 3, side p, side p] as rows [N, T, 3 p p], channels outermost. */
static int cut_patches(vt_export *x, int pixels) {
    const int64_t s = vt_config_side(x->c), q = x->c->patch;
    int v = vt_put_reshape(x->p, pixels, VT_DIMS(0, 3, s, q, s, q));
    return vt_put_reshape(x->p, vt_put_transpose(x->p, v, VT_DIMS(0, 2, 4, 1, 3, 5)), VT_DIMS(0, s * s, 3 * q * q));
}

/* Embeds by a convolution, unless something stands between the patches and their embedding. */
int vt_export_rows(vt_export *x, int pixels, vt_norm_kind after) {
    const vt_config *c = x->c;
    const bool in = c->patch_norm & VT_PATCH_NORM_IN;
    const int n = vt_rows_count(c), row = vt_rows_width(c);
    const vt_stem stem = vt_conv_stem_of(c);
    int v;
    vt_export_bind(x, 0, "embedding.");
    if (!c->conv_stem && !c->patch_gate && !in) {
        v = vt_export_conv(x, pixels, VT_ROWS_W, c->patch, c->patch, 0, 1);
        v = vt_export_tokens(x, v, c->dim, n);
    } else {
        v = c->conv_stem ? vt_export_tokens(x, vt_export_stem(x, pixels, &stem), row, n) : cut_patches(x, pixels);
        v = vt_export_scale(x, v, VT_ROWS_GATE, VT_DIMS(n, 1));
        if (in) v = vt_export_norm(x, v, VT_ROWS_NORM_IN, VT_NORM_LAYER, c->ln_eps, row, false);
        v = vt_export_linear(x, v, VT_ROWS_W);
    }
    return vt_export_norm(x, v, VT_ROWS_NORM_OUT, after, c->ln_eps, c->dim, false);
}
