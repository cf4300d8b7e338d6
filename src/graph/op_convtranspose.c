/* SPDX-License-Identifier: MIT */
/* The adjoint of a convolution: the weights times x, each number added where its window has it. */
#include <limits.h>
#include <string.h>
#include "graph/op.h"
#include "graph/windows.h"
#include "linalg/gemm.h"

/* w is the convolution's whose adjoint this is: its input is the result here. */
typedef struct spread {
    vt_windows w;
    int64_t groups, in; /* in: channels of x, of all groups */
    int32_t *at;        /* [taps, pixels of x]: where it is added, or -1 */
} spread;

static void forward(const VT_R(vt_call) *c) {
    const spread *s = c->n->with;
    const vt_windows *w = &s->w;
    const int64_t in = s->in / s->groups, out = w->channels / s->groups, rows = out * w->taps, pixels = w->pixels_out;
    for (int64_t g = 0; g < w->n * s->groups; g++) {
        real *y = c->y + g * out * w->pixels_in, *col = c->work;
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < w->pixels_in; i++)
                y[o * w->pixels_in + i] = c->n->n_in > 2 ? c->x[2][g % s->groups * out + o] : 0;
        VT_R(vt_gemm)(true, false, (int)rows, (int)pixels, (int)in, 1, c->x[1] + g % s->groups * in * rows, (int)rows,
                      c->x[0] + g * in * pixels, (int)pixels, 0, col, (int)pixels);
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < w->taps * pixels; i++)
                if (s->at[i] >= 0) y[o * w->pixels_in + s->at[i]] += col[o * w->taps * pixels + i];
    }
}

static void backward(const VT_R(vt_call) *c) {
    const spread *s = c->n->with;
    const vt_windows *w = &s->w;
    const int64_t in = s->in / s->groups, out = w->channels / s->groups, rows = out * w->taps, pixels = w->pixels_out;
    for (int64_t g = 0; c->dx[0] && g < w->n * s->groups; g++) {
        const real *dy = c->dy + g * out * w->pixels_in;
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < w->taps * pixels; i++)
                c->work[o * w->taps * pixels + i] = s->at[i] < 0 ? 0 : dy[o * w->pixels_in + s->at[i]];
        VT_R(vt_gemm)(false, false, (int)in, (int)pixels, (int)rows, 1, c->x[1] + g % s->groups * in * rows, (int)rows,
                      c->work, (int)pixels, c->add[0] ? 1 : 0, c->dx[0] + g * in * pixels, (int)pixels);
    }
}

static size_t work(const vt_graph *g, const vt_node *n, bool back) {
    const spread *s = n->with;
    (void)g, (void)back;
    return (size_t)(s->w.channels / s->groups * s->w.taps * s->w.pixels_out);
}

static double flops(const vt_graph *g, const vt_node *n) {
    const spread *s = n->with;
    return 2 * (double)g->values[n->in[0]].n * (double)(s->w.channels / s->groups * s->w.taps);
}

/* Sets out [n] to the integers of an attribute, or to `otherwise` without it (*has); VT_E_FORMAT unless n, from `least`
 * on. */
static vt_status read_sides(vt_import *im, const char *name, int n, int64_t least, int64_t otherwise, int64_t *out,
                            bool *has, vt_err *e) {
    int count;
    for (int k = 0; k < n; k++) out[k] = otherwise;
    VT_TRY(vt_integers(im, name, -1, out, n, &count, has, e));
    for (int k = 0; k < n; k++)
        if ((*has && count != n) || out[k] < least || out[k] > INT32_MAX)
            return vt_import_fail(im, e, "has %d numbers in %s, must be %d from %lld on", count, name, n,
                                  (long long)least);
    return VT_OK;
}

/* Sets stride, dilation, kernel, `in` (the result's sides) and padding of w's last `rank` sides, by the node's
 * attributes and w->out. VT_E_FORMAT. */
static vt_status find_sides(vt_import *im, int rank, const int64_t *kernel, vt_windows *w, vt_err *e) {
    int64_t stride[3], dilation[3], more[3], pads[6], shape[3];
    bool has, shaped;
    const bool upper = vt_attr_is(im, "auto_pad", "SAME_UPPER", "NOTSET");
    const bool same = upper || vt_attr_is(im, "auto_pad", "SAME_LOWER", "NOTSET");
    VT_TRY(read_sides(im, "strides", rank, 1, 1, stride, &has, e));
    VT_TRY(read_sides(im, "dilations", rank, 1, 1, dilation, &has, e));
    VT_TRY(read_sides(im, "output_padding", rank, 0, 0, more, &has, e));
    VT_TRY(read_sides(im, "pads", 2 * rank, 0, 0, pads, &has, e));
    VT_TRY(read_sides(im, "output_shape", rank, 1, 1, shape, &shaped, e));
    for (int k = 0; k < rank; k++) {
        const int s = 3 - rank + k;
        const int64_t whole = stride[k] * (w->out[s] - 1) + more[k] + (kernel[k] - 1) * dilation[k] + 1;
        if (!shaped) shape[k] = same ? w->out[s] * stride[k] : whole - pads[k] - pads[k + rank];
        const int64_t cut = whole > shape[k] ? whole - shape[k] : 0;
        w->before[s] = shaped || same ? (upper ? cut / 2 : cut - cut / 2) : pads[k];
        w->stride[s] = stride[k], w->dilation[s] = dilation[k], w->kernel[s] = kernel[k], w->in[s] = shape[k];
        if (shape[k] < 1 || shape[k] > (int64_t)VT_GRAPH_VALUES)
            return vt_import_fail(im, e, "has a side of %lld", (long long)shape[k]);
    }
    return VT_OK;
}

/* Fills *s by the node's attributes, and *d with the result's sides; VT_E_FORMAT if weights do not fit x. */
static vt_status find_windows(vt_import *im, int x, int weights, spread *s, vt_dims *d, vt_err *e) {
    const vt_dims v = vt_import_value(im, x)->dims, m = vt_import_value(im, weights)->dims;
    vt_windows *w = &s->w;
    const int rank = v.rank - 2;
    size_t n, col;
    s->groups = vt_attr_int(im, "group", 1), s->in = v.rank > 1 ? v.d[1] : 0;
    if (rank < 1 || rank > 3 || m.rank != v.rank || s->groups < 1 || m.d[0] != s->in || s->in % s->groups)
        return vt_import_fail(im, e, "has weights of %d sides for %lld channels in %lld groups", m.rank,
                              (long long)s->in, (long long)s->groups);
    *w = (vt_windows){.n = v.d[0], .channels = m.d[1] * s->groups, .pixels_in = 1, .pixels_out = 1, .taps = 1};
    for (int k = 0; k < 3; k++) w->in[k] = w->out[k] = w->kernel[k] = w->stride[k] = w->dilation[k] = 1;
    for (int k = 0; k < rank; k++) w->out[3 - rank + k] = v.d[2 + k];
    VT_TRY(find_sides(im, rank, &m.d[2], w, e));
    *d = (vt_dims){.rank = v.rank, .d = {v.d[0], w->channels}};
    for (int k = 0; k < rank; k++) d->d[2 + k] = w->in[3 - rank + k];
    for (int k = 0; k < 3; k++) w->pixels_in *= w->in[k], w->pixels_out *= w->out[k], w->taps *= w->kernel[k];
    const vt_dims columns = {3, {m.d[1], w->taps, w->pixels_out}};
    if (!vt_dims_count(d, &n) || !vt_dims_count(&columns, &col) || s->in > INT_MAX || !n || !col)
        return vt_import_fail(im, e, "has a result of no numbers or of more than 2^28");
    if (!(s->at = vt_import_take(im, (size_t)(w->taps * w->pixels_out) + 1, sizeof *s->at)))
        return vt_import_memory(im, e);
    for (int64_t i = 0; i < w->taps * w->pixels_out; i++)
        s->at[i] = (int32_t)vt_windows_at(w, i % w->pixels_out, i / w->pixels_out);
    return VT_OK;
}

static vt_status import(vt_import *im, vt_err *e) {
    spread *s = vt_import_take(im, 1, sizeof *s);
    vt_dims d;
    int x, weights, y, bias = vt_input(im, 2);
    if (!s) return vt_import_memory(im, e);
    VT_TRY(vt_input_count(im, 2, 3, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_constant_input(im, 1, &weights, e));
    if (bias >= 0) VT_TRY(vt_constant_input(im, 2, &bias, e));
    VT_TRY(find_windows(im, x, weights, s, &d, e));
    if (bias >= 0 && (int64_t)vt_import_value(im, bias)->n != s->w.channels)
        return vt_import_fail(im, e, "has a bias that is not one a channel");
    VT_TRY(vt_emit(im, vt_import_op(im), (const int[]){x, weights, bias}, bias >= 0 ? 3 : 2, &d, false, s, &y, e));
    return vt_output(im, 0, y, e);
}

extern const VT_R(vt_op) VT_R(vt_op_convtranspose);
const VT_R(vt_op) VT_R(vt_op_convtranspose) = {.name = "ConvTranspose",
                                               .summary = "constant weights",
                                               .import = import,
                                               .forward = forward,
                                               .backward = backward,
                                               .work = work,
                                               .flops = flops};
