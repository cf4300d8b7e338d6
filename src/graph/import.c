/* SPDX-License-Identifier: MIT */
#include "graph/importing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "graph/op.h"

vt_status vt_import_fail(vt_import *im, vt_err *e, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!im->node) return vt_fail(e, VT_E_FORMAT, "%s: %s", im->file->path, text);
    return vt_fail(e, VT_E_FORMAT, "%s: node %.80s (%.40s) %s", im->file->path,
                   *im->node->name   ? im->node->name
                   : im->node->n_out ? im->node->out[0]
                                     : "without a name",
                   im->node->op, text);
}

vt_status vt_import_memory(vt_import *im, vt_err *e) {
    if (im->g && im->g->heap.full)
        return vt_import_fail(im, e, "needs more memory for constants than %zu MB (512, and %d times the file)",
                              im->g->heap.most >> 20, VT_GRAPH_TIMES);
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for its graph", im->file->path);
}

vt_graph *vt_import_graph(const vt_import *im) { return im->g; }
const vt_onnx_node *vt_import_node(const vt_import *im) { return im->node; }
vt_onnx *vt_import_file(const vt_import *im) { return im->file; }
int64_t vt_import_opset(const vt_import *im) { return im->file->opset; }
int vt_import_op(const vt_import *im) { return im->op; }
const vt_value *vt_import_value(const vt_import *im, int v) { return &im->g->values[v]; }
void *vt_import_take(vt_import *im, size_t count, size_t item) { return vt_heap_take(&im->g->heap, count, item); }

/* Returns the index of the value of that name in the file; -1: none. */
int vt_import_find(const vt_import *im, const char *name) {
    const json_t *v = json_object_get(im->names, name);
    return v ? (int)json_integer_value(v) : -1;
}

int vt_input(const vt_import *im, int k) {
    return k >= 0 && k < im->node->n_in && *im->node->in[k] ? vt_import_find(im, im->node->in[k]) : -1;
}

vt_status vt_real_input(vt_import *im, int k, int *v, vt_err *e) {
    *v = vt_input(im, k);
    if (*v < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
    return im->g->values[*v].integer ? vt_import_fail(im, e, "has integers as input %d, must be reals", k + 1) : VT_OK;
}

vt_status vt_constant_input(vt_import *im, int k, int *v, vt_err *e) {
    *v = vt_input(im, k);
    if (*v < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
    if (vt_value_is_constant(&im->g->values[*v])) return VT_OK;
    return vt_import_fail(im, e, "has an input %d that follows the image, must be a constant", k + 1);
}

vt_status vt_input_count(vt_import *im, int least, int most, vt_err *e) {
    int n = im->node->n_in;
    for (int k = 0; k < least && k < n; k++)
        if (vt_input(im, k) < 0) return vt_import_fail(im, e, "has no input %d", k + 1);
    if (n >= least && n <= most) return VT_OK;
    return vt_import_fail(im, e, "has %d inputs, must have %d to %d", n, least, most);
}

vt_status vt_integer_input(vt_import *im, int k, int64_t *out, int most, int *n, bool *has, vt_err *e) {
    int v = vt_input(im, k);
    *has = v >= 0, *n = 0;
    if (!*has) return VT_OK;
    const vt_value *x = &im->g->values[v];
    if (!x->integers)
        return vt_import_fail(im, e,
                              "has an input %d that is no constant list of integers: sizes that depend on the "
                              "image are not read",
                              k + 1);
    if (x->n > (size_t)most)
        return vt_import_fail(im, e, "has %zu integers as input %d, must be at most %d", x->n, k + 1, most);
    if (x->n) memcpy(out, x->integers, x->n * sizeof *out);
    *n = (int)x->n;
    return VT_OK;
}

int64_t vt_attr_int(const vt_import *im, const char *name, int64_t otherwise) {
    int64_t v;
    return vt_onnx_int(im->node, name, &v) ? v : otherwise;
}

double vt_attr_real(const vt_import *im, const char *name, double otherwise) {
    double v;
    return vt_onnx_float(im->node, name, &v) ? v : (double)(float)otherwise;
}

bool vt_attr_is(const vt_import *im, const char *name, const char *text, const char *otherwise) {
    char v[32];
    return !strcmp(vt_onnx_text(im->node, name, v, sizeof v) ? v : otherwise, text);
}

vt_status vt_integers(vt_import *im, const char *name, int k, int64_t *out, int most, int *n, bool *has, vt_err *e) {
    *has = vt_onnx_ints(im->node, name, out, most, n);
    if (*has && *n > most) return vt_import_fail(im, e, "has %d integers in %s, must be at most %d", *n, name, most);
    return *has || k < 0 ? VT_OK : vt_integer_input(im, k, out, most, n, has, e);
}

vt_status vt_axis(vt_import *im, int64_t axis, int rank, int *out, vt_err *e) {
    if (axis < -rank || axis >= rank)
        return vt_import_fail(im, e, "has axis %lld, must be from %d to %d", (long long)axis, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return VT_OK;
}

vt_status vt_output(vt_import *im, int k, int v, vt_err *e) {
    if (k >= im->node->n_out || !*im->node->out[k]) return VT_OK;
    const char *name = im->node->out[k];
    if (json_object_get(im->names, name)) return vt_import_fail(im, e, "writes %.80s, which is there already", name);
    if (json_object_set_new_nocheck(im->names, name, json_integer(v))) return vt_import_memory(im, e);
    if (!im->g->values[v].name) im->g->values[v].name = name;
    return VT_OK;
}

/* Sets *v to a value of these sides, without numbers; VT_E_FORMAT beyond 2^28 numbers. */
vt_status vt_import_new_value(vt_import *im, const vt_dims *dims, bool integer, vt_value *v, vt_err *e) {
    char text[200];
    *v = (vt_value){.dims = *dims, .integer = integer, .node = -1, .alias = -1};
    if (vt_dims_count(dims, &v->n)) return VT_OK;
    return vt_import_fail(im, e, "has a result of sides %s, must be at most 2^28 numbers",
                          vt_dims_text(dims, text, sizeof text));
}

/* Adds a copy of v to the graph, and sets *out to its index; VT_E_MEMORY. */
vt_status vt_import_add_value(vt_import *im, const vt_value *v, int *out, vt_err *e) {
    *out = vt_graph_value(im->g, v);
    return *out < 0 ? vt_import_memory(im, e) : VT_OK;
}

vt_status vt_emit_reals(vt_import *im, const vt_dims *dims, const double *reals, int *y, vt_err *e) {
    vt_value v;
    VT_TRY(vt_import_new_value(im, dims, false, &v, e));
    v.reals = reals;
    return vt_import_add_value(im, &v, y, e);
}

vt_status vt_emit_integers(vt_import *im, const vt_dims *dims, const int64_t *integers, int *y, vt_err *e) {
    vt_value v;
    VT_TRY(vt_import_new_value(im, dims, true, &v, e));
    v.integers = integers;
    return vt_import_add_value(im, &v, y, e);
}

vt_status vt_emit_real(vt_import *im, double value, int *y, vt_err *e) {
    double *p = vt_import_take(im, 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    *p = value;
    return vt_emit_reals(im, &(vt_dims){0}, p, y, e);
}

/* Returns doubles of constant k: its own, or *made, for the caller to free; NULL: no memory. */
static const double *constant_reals(vt_import *im, int k, double **made) {
    const vt_value *v = &im->g->values[k];
    *made = NULL;
    if (v->reals) return v->reals;
    double *p = *made = vt_alloc((v->n + 1) * sizeof *p);
    for (size_t i = 0; p && i < v->n; i++) p[i] = vt_value_real(v, i);
    return p;
}

/* Sets v's integers from doubles y: exact below 2^53, as every product and sum of sizes is; VT_E_FORMAT beyond. */
static vt_status take_integers(vt_import *im, vt_value *v, const double *y, vt_err *e) {
    int64_t *out = vt_import_take(im, v->n + 1, sizeof *out);
    if (!out) return vt_import_memory(im, e);
    for (size_t i = 0; i < v->n; i++) {
        if (!(fabs(y[i]) <= 9007199254740992.0))
            return vt_import_fail(im, e, "computes the integer %g, must be within 2^53", y[i]);
        out[i] = (int64_t)y[i];
    }
    v->integers = out;
    return VT_OK;
}

/* Computes a node of constant inputs in double and gives v the numbers; the node is not kept. */
static vt_status fold_node(vt_import *im, const vt_node *n, vt_value *v, vt_err *e) {
    const double **x = calloc((size_t)n->n_in + 1, sizeof *x);
    double **made = calloc((size_t)n->n_in + 1, sizeof *made), *y = vt_import_take(im, v->n + 1, sizeof *y);
    bool good = x && made && y;
    for (int k = 0; good && k < n->n_in; k++)
        if (n->in[k] >= 0) good = (x[k] = constant_reals(im, n->in[k], &made[k])) != NULL;
    int out = -1;
    vt_status s = good ? vt_import_add_value(im, v, &out, e) : vt_import_memory(im, e);
    if (s == VT_OK) {
        vt_node placed = *n;
        placed.out = out;
        s = vt_op_compute_f64(im->g, &placed, x, y) ? VT_OK : vt_import_memory(im, e);
        im->g->n_values--; /* it was there for its sides alone */
    }
    if (s == VT_OK && v->integer) s = take_integers(im, v, y, e);
    if (s == VT_OK && !v->integer) v->reals = y;
    for (int k = 0; made && k < n->n_in; k++) free(made[k]);
    free(made), free(x);
    return s;
}

vt_status vt_emit(vt_import *im, int op, const int *in, int n_in, const vt_dims *dims, bool integer, const void *with,
                  int *y, vt_err *e) {
    vt_value v;
    bool constant = true;
    vt_node n = {.op = op, .n_in = n_in, .with = with, .name = im->node ? im->node->name : ""};
    VT_TRY(vt_import_new_value(im, dims, integer, &v, e));
    n.in = vt_import_take(im, (size_t)n_in + 1, sizeof *n.in);
    if (!n.in) return vt_import_memory(im, e);
    for (int k = 0; k < n_in; k++) {
        n.in[k] = in[k] < 0 ? -1 : vt_root_of(im->g, in[k]);
        constant = constant && (in[k] < 0 || vt_value_is_constant(&im->g->values[in[k]]));
    }
    if (constant) {
        VT_TRY(fold_node(im, &n, &v, e));
        return vt_import_add_value(im, &v, y, e);
    }
    v.integer = false; /* a truth value that follows the image is 0 or 1 */
    VT_TRY(vt_import_add_value(im, &v, y, e));
    n.out = *y;
    return vt_graph_node(im->g, &n) ? VT_OK : vt_import_memory(im, e);
}

vt_status vt_emit_reshape(vt_import *im, int x, const vt_dims *dims, int *y, vt_err *e) {
    const vt_value *from = &im->g->values[x];
    char a[200], b[200];
    vt_value v;
    VT_TRY(vt_import_new_value(im, dims, from->integer, &v, e));
    if (v.n != from->n)
        return vt_import_fail(im, e, "makes %s of %s: %zu numbers of %zu", vt_dims_text(dims, a, sizeof a),
                              vt_dims_text(&from->dims, b, sizeof b), v.n, from->n);
    v.integers = from->integers, v.reals = from->reals, v.floats = from->floats, v.type = from->type;
    if (!vt_value_is_constant(from)) v.alias = vt_root_of(im->g, x);
    return vt_import_add_value(im, &v, y, e);
}

/* Sets v's floats or reals to a tensor's; VT_E_FORMAT for NaN. Floats stay floats: graph/run makes their double
 * copy. */
static vt_status read_reals(vt_import *im, const vt_onnx_tensor *t, vt_value *v, vt_err *e) {
    const bool narrow = t->type != VT_ONNX_DOUBLE;
    float *f = narrow ? vt_import_take(im, v->n + 1, sizeof *f) : NULL;
    double *all = narrow ? vt_alloc((v->n + 1) * sizeof *all) : vt_import_take(im, v->n + 1, sizeof *all);
    vt_status s = all && (f || !narrow) ? vt_onnx_reals(im->file, t, all, e) : vt_import_memory(im, e);
    for (size_t i = 0; s == VT_OK && i < v->n; i++) {
        if (isnan(all[i]))
            s = vt_fail(e, VT_E_FORMAT, "%s: tensor %s holds NaN at element %zu", im->file->path, t->name, i);
        if (narrow) f[i] = (float)all[i];
    }
    if (narrow)
        v->floats = f, free(all);
    else
        v->reals = all;
    return s;
}

/* Adds a tensor of the file as a constant of reals or integers, and sets *out to it. */
static vt_status tensor_value(vt_import *im, const vt_onnx_tensor *t, int *out, vt_err *e) {
    vt_value v;
    VT_TRY(vt_import_new_value(im, &t->dims, !vt_onnx_is_real(t->type), &v, e));
    v.type = t->type;
    if (v.integer) {
        int64_t *p = vt_import_take(im, v.n + 1, sizeof *p);
        if (!p) return vt_import_memory(im, e);
        VT_TRY(vt_onnx_integers(im->file, t, p, e));
        v.integers = p;
        return vt_import_add_value(im, &v, out, e);
    }
    VT_TRY(read_reals(im, t, &v, e));
    return vt_import_add_value(im, &v, out, e);
}

vt_status vt_import_constant(vt_import *im, const vt_onnx_tensor *t, int *y, vt_err *e) {
    return tensor_value(im, t, y, e);
}

/* Gives value v its name in the file; VT_E_FORMAT if another has it. */
vt_status vt_import_name(vt_import *im, const char *name, int v, vt_err *e) {
    if (json_object_get(im->names, name)) return vt_import_fail(im, e, "%.80s is there twice", name);
    im->g->values[v].name = name;
    return json_object_set_new_nocheck(im->names, name, json_integer(v)) ? vt_import_memory(im, e) : VT_OK;
}

/* Adds all initializers as named constants. */
static vt_status read_initializers(vt_import *im, vt_err *e) {
    for (int i = 0, v; i < im->file->n_tensors; i++) {
        VT_TRY(tensor_value(im, &im->file->tensors[i], &v, e));
        VT_TRY(vt_import_name(im, im->file->tensors[i].name, v, e));
    }
    return VT_OK;
}

/* ---- nodes ---- */

static vt_status read_node(vt_import *im, const vt_onnx_node *n, vt_err *e);

/* Returns the file's function that node n calls; NULL: it calls none. */
static const vt_onnx_function *find_function(const vt_import *im, const vt_onnx_node *n) {
    for (int i = 0; i < im->file->n_functions; i++)
        if (!strcmp(im->file->functions[i].name, n->op) && !strcmp(im->file->functions[i].domain, n->domain))
            return &im->file->functions[i];
    return NULL;
}

/* Imports the function's nodes in place of the call; names are its own. VT_E_FORMAT: calls 16 deep, a million nodes, or
 * an output that it does not write. */
static vt_status read_call(vt_import *im, const vt_onnx_node *call, const vt_onnx_function *f, vt_err *e) {
    enum { MOST_DEPTH = 16, MOST_CALLS = 1000000 };
    json_t *outer = im->names, *inner = json_object();
    if (im->depth == MOST_DEPTH || (im->calls += (size_t)f->n_nodes) > MOST_CALLS) {
        json_decref(inner);
        return vt_import_fail(im, e, "is a function that calls others %d deep, or of more than %d nodes", MOST_DEPTH,
                              MOST_CALLS);
    }
    vt_status s = inner ? VT_OK : vt_import_memory(im, e);
    for (int k = 0; s == VT_OK && k < f->n_in; k++) {
        const int v = vt_input(im, k);
        if (v >= 0 && json_object_set_new_nocheck(inner, f->in[k], json_integer(v))) s = vt_import_memory(im, e);
    }
    im->names = inner, im->depth++;
    for (int i = 0; s == VT_OK && i < f->n_nodes; i++) {
        vt_onnx_node n = f->nodes[i];
        n.caller = call;
        s = read_node(im, &n, e);
    }
    im->node = call, im->depth--;
    for (int k = 0; s == VT_OK && k < f->n_out && k < call->n_out; k++) {
        im->names = inner;
        const int v = vt_import_find(im, f->out[k]);
        im->names = outer;
        s = v < 0 ? vt_import_fail(im, e, "has output %d that its function does not write", k + 1)
                  : vt_output(im, k, v, e);
    }
    im->names = outer;
    json_decref(inner);
    return s;
}

/* Imports one node by its operator; VT_E_FORMAT if that, its domain or opset is not read. */
static vt_status read_node(vt_import *im, const vt_onnx_node *n, vt_err *e) {
    const char *mistyped = NULL;
    vt_onnx_node here = *n;
    here.mistyped = &mistyped;
    im->node = n = &here;
    for (int k = 0; k < n->n_in; k++)
        if (*n->in[k] && vt_import_find(im, n->in[k]) < 0)
            return vt_import_fail(im, e, "reads %.80s, which nothing before it writes", n->in[k]);
    if (!n->n_out) return vt_import_fail(im, e, "has no output");
    const vt_onnx_function *f = find_function(im, n);
    if (f) return read_call(im, n, f, e);
    if (*n->domain && strcmp(n->domain, "ai.onnx"))
        return vt_import_fail(im, e, "is of the domain '%.60s', which is not read", n->domain);
    im->op = vt_op_find_f32(n->op);
    const vt_op_f32 *op = vt_op_at_f32(im->op);
    if (!op || !op->import) return vt_import_fail(im, e, "is an operator that is not read");
    if (im->file->opset < op->since)
        return vt_import_fail(im, e, "is read from opset %d on, the file has %lld", op->since,
                              (long long)im->file->opset);
    const vt_status s = op->import(im, e);
    im->node = n;
    return mistyped ? vt_import_fail(im, e, "has an attribute %s of another type than the operator's", mistyped) : s;
}

/* Imports initializers, input, nodes and output; then drops unused nodes and sets g->pixels. */
static vt_status import_all(vt_import *im, vt_err *e) {
    vt_input_form f = {0};
    VT_TRY(read_initializers(im, e));
    VT_TRY(vt_import_input(im, &f, e));
    for (int i = 0; i < im->file->n_nodes; i++) VT_TRY(read_node(im, &im->file->nodes[i], e));
    im->node = NULL;
    VT_TRY(vt_import_output(im, &f, e));
    vt_graph_prune(im->g);
    if (im->g->n_nodes > VT_GRAPH_NODES)
        return vt_import_fail(im, e, "has %d nodes that its output follows, must be at most %d", im->g->n_nodes,
                              VT_GRAPH_NODES);
    im->g->pixels = vt_find_pixels(im->g);
    return VT_OK;
}

vt_status vt_graph_import(vt_graph **out, vt_onnx *file, const vt_import_options *o, vt_err *e) {
    static const vt_import_options none;
    vt_import im = {.file = file, .o = o ? o : &none, .g = calloc(1, sizeof *im.g), .names = json_object()};
    *out = NULL;
    vt_status s = im.g && im.names ? VT_OK : vt_import_memory(&im, e);
    if (s == VT_OK && !(im.g->path = strdup(file->path))) s = vt_import_memory(&im, e);
    if (s == VT_OK) im.g->heap.most = VT_GRAPH_SPARE + VT_GRAPH_TIMES * vt_onnx_bytes(file);
    if (s == VT_OK) s = import_all(&im, e);
    json_decref(im.names);
    if (s == VT_OK)
        *out = im.g, im.g->heap.most = 0;
    else
        vt_graph_free(im.g);
    return s;
}
