/* SPDX-License-Identifier: MIT */
/* What an ONNX file is and what became of it, for `vitrine info`. */
#include <jansson.h>
#include <string.h>
#include "graph/network.h"
#include "graph/op.h"

/* Adds one to the count of a name in `counts`; a name that is no UTF-8 is left out. */
static void count_name(json_t *counts, const char *name) {
    const json_int_t n = json_integer_value(json_object_get(counts, name));
    json_object_set_new(counts, name, json_integer(n + 1)); /* refused: it is no UTF-8 */
}

/* Returns sides as JSON, [2,3,32,"?"]: an open one is "?". */
static json_t *sides_json(const vt_dims *d) {
    json_t *a = json_array();
    for (int k = 0; k < d->rank; k++)
        json_array_append_new(a, d->d[k] < 0 ? json_string("?") : json_integer((json_int_t)d->d[k]));
    return a;
}

/* Returns the one of v [n] with this name; NULL: none, or name is NULL. */
static const vt_onnx_value *find_value(const vt_onnx_value *v, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (name && !strcmp(v[i].name, name)) return &v[i];
    return NULL;
}

static json_t *value_json(const vt_onnx_value *v) {
    return v ? json_pack("{s:s,s:o}", "name", v->name, "sides", sides_json(&v->dims)) : json_object();
}

json_t *vt_network_json(const vt_network *n) {
    const vt_onnx *f = n->file;
    const vt_graph *g = n->g;
    json_t *nodes = json_object(), *computed = json_object();
    size_t numbers = 0;
    for (int i = 0; i < f->n_nodes; i++) count_name(nodes, f->nodes[i].op);
    for (int i = 0; i < g->n_nodes; i++) count_name(computed, vt_op_at_f32(g->nodes[i].op)->name);
    for (int i = 0; i < f->n_tensors; i++) numbers += vt_onnx_is_real(f->tensors[i].type) ? f->tensors[i].n : 0;
    json_t *in = value_json(find_value(f->inputs, f->n_inputs, g->input_name)),
           *out = value_json(find_value(f->outputs, f->n_outputs, g->output_name));
    json_object_set_new(in, "layout", json_string(g->flat ? "flat" : g->channels_last ? "nhwc" : "nchw"));
    if (g->left_out) json_object_set_new(out, "left_out", json_string(g->left_out));
    if (g->one_logit) json_object_set_new(out, "one_logit", json_true());
    return json_pack("{s:s,s:s,s:I,s:o,s:[i,i,i],s:o,s:I,s:i,s:i,s:o,s:i,s:o,s:i,s:i,s:I,s:I}", "producer", f->producer,
                     "producer_version", f->version, "opset", (json_int_t)f->opset, "input", in, "image",
                     n->shape.channels, n->shape.height, n->shape.width, "output", out, "parameters",
                     (json_int_t)numbers, "tensors", f->n_tensors, "file_nodes", f->n_nodes, "file_operators", nodes,
                     "nodes", g->n_nodes, "operators", computed, "cuts", n->n_cuts, "straight_through",
                     vt_graph_straight_through(g), "bytes_float32", (json_int_t)(n->plan[1].reals * sizeof(float)),
                     "bytes_constants", (json_int_t)g->heap.bytes);
}
