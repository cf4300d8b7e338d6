/* SPDX-License-Identifier: MIT */
/* Input and output of an ONNX file as a classifier's: images in, logits out. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "graph/importing.h"
#include "graph/op.h"
#include "graph/reduce.h"

/* ---- the input ---- */

/* Sets *f to whether the input is images or rows, channels first or last, and C, H, W, from the file or the options;
 * VT_E_FORMAT if neither says them, they disagree, or it is not real. */
static vt_status find_form(vt_import *im, const vt_onnx_value *in, vt_input_form *f, vt_err *e) {
    const vt_dims *d = &in->dims;
    const int64_t *told = im->o->shape;
    char text[200];
    if (!in->shaped || (d->rank != 4 && d->rank != 2))
        return vt_import_fail(im, e, "input %.80s has sides %s, must be [N,C,H,W], [N,H,W,C] or [N,numbers]", in->name,
                              in->shaped ? vt_dims_text(d, text, sizeof text) : "that it does not say");
    if (in->type && !vt_onnx_is_real(in->type))
        return vt_import_fail(im, e, "input %.80s has data type %d, must be a real one", in->name, in->type);
    f->rows = d->d[0] > 0 ? d->d[0] : 1;
    f->flat = d->rank == 2;
    f->channels_last = !f->flat && (im->o->layout ? !strcmp(im->o->layout, "nhwc")
                                                  : d->d[1] != 1 && d->d[1] != 3 && (d->d[3] == 1 || d->d[3] == 3));
    const int order[3] = {f->channels_last ? 3 : 1, f->channels_last ? 1 : 2, f->channels_last ? 2 : 3};
    for (int k = 0; k < 3; k++) {
        const int64_t said = f->flat ? -1 : d->d[order[k]];
        f->shape[k] = said > 0 ? said : told[k] ? told[k] : f->flat ? 0 : im->o->usual[k];
        if (f->shape[k] <= 0)
            return vt_import_fail(im, e,
                                  "input %.80s has sides %s: give the image's with " VT_OPTION "image-shape C,H,W",
                                  in->name, vt_dims_text(d, text, sizeof text));
        if (told[k] && told[k] != f->shape[k])
            return vt_import_fail(im, e, "input %.80s has sides %s, which images of %lld,%lld,%lld contradict",
                                  in->name, vt_dims_text(d, text, sizeof text), (long long)told[0], (long long)told[1],
                                  (long long)told[2]);
    }
    size_t n;
    const vt_dims all = {3, {f->shape[0], f->shape[1], f->shape[2]}};
    if (!vt_dims_count(&all, &n) || f->rows > 1024 || (f->flat && d->d[1] > 0 && d->d[1] != (int64_t)n))
        return vt_import_fail(im, e, "input %.80s has sides %s, which %lldx%lldx%lld images do not fit", in->name,
                              vt_dims_text(d, text, sizeof text), (long long)f->shape[0], (long long)f->shape[1],
                              (long long)f->shape[2]);
    return VT_OK;
}

/* Sets *x to op(*x, c), c one number a channel; VT_E_FORMAT unless there are three channels or c's three are equal. *x
 * stays if those are `idle`. */
static vt_status scale_channels(vt_import *im, const char *op, const double c[3], double idle, int *x, vt_err *e) {
    const int64_t n = im->g->values[*x].dims.d[1];
    double *p = vt_import_take(im, (size_t)n, sizeof *p);
    const bool same = c[0] == c[1] && c[1] == c[2];
    int v;
    if (!p) return vt_import_memory(im, e);
    if (same && c[0] == idle) return VT_OK;
    if (!same && n != 3)
        return vt_import_fail(im, e,
                              "has images of %lld channels: give one number for all as " VT_OPTION "mean and " VT_OPTION
                              "std",
                              (long long)n);
    for (int64_t k = 0; k < n; k++) p[k] = c[k % 3];
    VT_TRY(vt_emit_reals(im, &(vt_dims){4, {1, n, 1, 1}}, p, &v, e));
    return vt_emit_binary(im, op, *x, v, x, e);
}

/* Makes the graph's input all numbers of the file's in a row, [1,1,1,n]; a side that is left open is 1. VT_E_FORMAT:
 * not real, or without sides. */
static vt_status read_row(vt_import *im, const vt_onnx_value *in, vt_err *e) {
    vt_dims d = in->dims;
    vt_value v;
    size_t n;
    for (int k = 0; k < d.rank; k++)
        if (d.d[k] <= 0) d.d[k] = 1;
    if (!in->shaped || (in->type && !vt_onnx_is_real(in->type)) || !vt_dims_count(&d, &n))
        return vt_import_fail(im, e, "input %.80s must be reals of sides that are said, at most 2^28", in->name);
    VT_TRY(vt_import_new_value(im, &(vt_dims){4, {1, 1, 1, (int64_t)n}}, false, &v, e));
    VT_TRY(vt_import_add_value(im, &v, &im->g->input, e));
    int x = im->g->input;
    VT_TRY(vt_emit_reshape(im, x, &d, &x, e));
    return vt_import_name(im, in->name, x, e);
}

vt_status vt_import_input(vt_import *im, vt_input_form *f, vt_err *e) {
    const vt_onnx_value *in = NULL;
    for (int i = 0; i < im->file->n_inputs; i++) {
        if (json_object_get(im->names, im->file->inputs[i].name)) continue; /* an initializer */
        if (in)
            return vt_import_fail(im, e, "has inputs %.80s and %.80s, must have one", in->name,
                                  im->file->inputs[i].name);
        in = &im->file->inputs[i];
    }
    if (!in) return vt_import_fail(im, e, "has no input");
    if (im->o->as_file) return read_row(im, in, e);
    VT_TRY(find_form(im, in, f, e));
    vt_value v;
    const vt_dims one = {4, {1, f->shape[0], f->shape[1], f->shape[2]}};
    VT_TRY(vt_import_new_value(im, &one, false, &v, e));
    VT_TRY(vt_import_add_value(im, &v, &im->g->input, e));
    im->g->input_name = in->name, im->g->channels_last = f->channels_last, im->g->flat = f->flat;
    int x = im->g->input;
    if (im->o->normalise) {
        VT_TRY(scale_channels(im, "Sub", im->o->mean, 0, &x, e));
        VT_TRY(scale_channels(im, "Div", im->o->std, 1, &x, e));
    }
    if (f->channels_last) VT_TRY(vt_emit_transpose(im, x, (const int[]){0, 2, 3, 1}, &x, e));
    if (f->flat) VT_TRY(vt_emit_reshape(im, x, &(vt_dims){2, {1, (int64_t)v.n}}, &x, e));
    if (f->rows > 1) { /* a file of fixed batch: the image in each row */
        const vt_dims inner = im->g->values[x].dims;
        vt_dims rows = inner;
        rows.d[0] = f->rows;
        VT_TRY(vt_emit_expand(im, x, &rows, &x, e));
    }
    return vt_import_name(im, in->name, x, e);
}

/* ---- what the first nodes do with pixels ---- */

static bool is_op(const vt_graph *g, int i, const char *name) {
    return !strcmp(vt_op_at_f32(g->nodes[i].op)->name, name);
}

/* Returns the only node that reads value v, or -1. */
static int only_reader(const vt_graph *g, int v) {
    int reader = -1;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            if (g->nodes[i].in[k] != v) continue;
            if (reader >= 0) return -1;
            reader = i;
        }
    return reader;
}

/* Follows x -> a x + b from the input, by the mean of each constant: where is it zero, how steep is it? */
vt_pixel_scale vt_find_pixels(const vt_graph *g) {
    double a = 1, b = 0;
    bool any = false;
    for (int v = g->input, i; (i = only_reader(g, v)) >= 0; v = g->nodes[i].out) {
        const vt_node *n = &g->nodes[i];
        if (is_op(g, i, "(move)")) continue;
        const int other = n->n_in == 2 ? n->in[n->in[0] == v] : -1;
        if (other < 0 || !vt_value_is_constant(&g->values[other])) break;
        const bool product = is_op(g, i, "Mul"), quotient = is_op(g, i, "Div"), sum = is_op(g, i, "Add"),
                   first = n->in[0] == v;
        double c = 0;
        for (size_t k = 0; k < g->values[other].n; k++) c += vt_value_real(&g->values[other], k);
        c /= (double)g->values[other].n;
        if (!(product || sum || ((quotient || is_op(g, i, "Sub")) && first))) break;
        if (product || quotient)
            a = product ? a * c : a / c, b = product ? b * c : b / c;
        else
            b += sum ? c : -c;
        any = true;
    }
    const double zero = -b / a;
    if (!any) return VT_PIXELS_OPEN;
    if (fabs(b) > 0)
        return zero > 0 && zero < 1 ? VT_PIXELS_UNIT : zero >= 2 && zero < 255 ? VT_PIXELS_BYTES : VT_PIXELS_OPEN;
    return fabs(a) >= 0.5 ? VT_PIXELS_UNIT : fabs(a) <= 1.0 / 64 ? VT_PIXELS_BYTES : VT_PIXELS_OPEN;
}

/* ---- the output ---- */

/* Sets *y to the input of what makes probabilities of the logits y [.., K, ..], and g->left_out, if it is made so. */
static void leave_out(vt_graph *g, int64_t classes, int *y) {
    static const char *const names[] = {"Softmax", "LogSoftmax", "Sigmoid"};
    const int i = g->values[vt_root_of(g, *y)].node;
    for (int k = 0; i >= 0 && k < 3; k++) {
        const bool rows = k < 2;
        if (!is_op(g, i, names[k])) continue;
        /* a softmax over one number is 1 */
        if (rows && (classes < 2 || (int64_t)((const vt_row_size *)g->nodes[i].with)->cols != classes)) continue;
        *y = g->nodes[i].in[0], g->left_out = names[k];
        return;
    }
}

/* Writes "a, b, c", the outputs' names, and returns text. */
static const char *list_outputs(const vt_onnx *file, char *text, size_t size) {
    text[0] = 0;
    for (int i = 0; i < file->n_outputs; i++) vt_text_item(text, size, ", ", "%.60s", file->outputs[i].name);
    return text;
}

/* Makes logits [1,K] of y the graph's output; of one number logits 0 and that, and sets g->one_logit. */
static vt_status take_logits(vt_import *im, int y, int64_t classes, vt_err *e) {
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){2, {1, classes}}, &y, e));
    if (classes == 1) {
        int32_t *map = vt_import_take(im, 2, sizeof *map);
        if (!map) return vt_import_memory(im, e);
        map[0] = -1, im->g->one_logit = true;
        VT_TRY(vt_emit_map(im, y, &(vt_dims){2, {1, 2}}, map, 0, &y, e));
    }
    im->g->output = y;
    return VT_OK;
}

vt_status vt_import_output(vt_import *im, const vt_input_form *f, vt_err *e) {
    const vt_onnx *file = im->file;
    const vt_onnx_value *out = NULL;
    char text[200];
    for (int i = 0; i < file->n_outputs; i++)
        if (im->o->output ? !strcmp(file->outputs[i].name, im->o->output) : file->n_outputs == 1)
            out = &file->outputs[i];
    if (!out && im->o->output)
        return vt_import_fail(im, e, VT_OPTION "output is '%.60s', must be one of %s", im->o->output,
                              list_outputs(file, text, sizeof text));
    if (!out)
        return vt_import_fail(im, e, "has %d outputs: give " VT_OPTION "output NAME, one of %s", file->n_outputs,
                              list_outputs(file, text, sizeof text));
    int y = vt_import_find(im, out->name);
    im->g->output_name = out->name;
    if (y < 0) return vt_import_fail(im, e, "output %.80s is written by no node", out->name);
    const vt_value v = im->g->values[y];
    bool fits = v.dims.rank >= 2 && v.dims.d[0] == f->rows && v.dims.d[1] >= 1 && !vt_value_is_constant(&v);
    for (int k = 2; k < v.dims.rank; k++) fits = fits && v.dims.d[k] == 1;
    if (im->o->as_file) fits = !v.integer && v.n && !vt_value_is_constant(&v);
    if (!fits)
        return vt_import_fail(im, e, "output %.80s has sides %s, must be [%lld,classes] and follow the image",
                              out->name, vt_dims_text(&v.dims, text, sizeof text), (long long)f->rows);
    if (im->o->as_file) {
        im->g->output = y;
        return vt_emit_reshape(im, y, &(vt_dims){2, {1, (int64_t)v.n}}, &im->g->output, e);
    }
    if (im->o->classifier) leave_out(im->g, v.dims.d[1], &y);
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){2, {f->rows, v.dims.d[1]}}, &y, e));
    if (f->rows > 1) VT_TRY(vt_emit_slice(im, y, 0, 0, 1, 1, &y, e));
    return take_logits(im, y, v.dims.d[1], e);
}
