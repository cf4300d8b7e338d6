/* SPDX-License-Identifier: MIT */
#include "graph/write.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/version.h"
#include "graph/onnx.h"

enum { IR_VERSION = 8, OPSET = 17, MOST_IN = 4, NAME = 96, NOTES = 12 };

typedef struct put_value {
    char name[NAME];
    /* of an initializer: floats or integers; NULL: a node's output or the graph's input */
    const void *data;
    vt_dims dims;
    size_t n;
    bool integer, transposed; /* transposed: data are [dims.d[1], dims.d[0]] */
    const double *real;       /* vt_put_real's number, so that it is written once */
} put_value;

typedef struct put_node {
    const char *op;
    int in[MOST_IN], n_in, out;
    vt_put_attr attr[4];
    int n_attr;
} put_node;

struct vt_put {
    put_value *values;
    put_node *nodes;
    int n_values, n_nodes, input, output, n_notes;
    int64_t classes;
    vt_dims input_dims;
    char scope[48], notes[NOTES][2][160];
    bool failed;
    vt_heap heap;
};

vt_put *vt_put_open(void) { return calloc(1, sizeof(vt_put)); }

void vt_put_close(vt_put *p) {
    if (!p) return;
    vt_heap_free(&p->heap);
    free(p->values), free(p->nodes), free(p);
}

int vt_put_failed(vt_put *p) {
    p->failed = true;
    return -1;
}

void vt_put_scope(vt_put *p, const char *scope) { snprintf(p->scope, sizeof p->scope, "%s", scope); }

void vt_put_size(const vt_put *p, int *nodes, size_t *numbers) {
    *nodes = p->n_nodes, *numbers = 0;
    for (int i = 0; i < p->n_values; i++)
        if (p->values[i].data && !p->values[i].integer) *numbers += p->values[i].n;
}

/* ---- values ---- */

/* Adds a value, of data if it is an initializer; name NULL: the scope, `what` and its number. -1, and p->failed: no
 * memory, or too large. */
static int add_value(vt_put *p, const char *name, const char *what, const vt_dims *dims, const void *data) {
    if (p->failed || (p->failed = !vt_grow(&p->values, (size_t)p->n_values, sizeof *p->values))) return -1;
    put_value *v = &p->values[p->n_values];
    *v = (put_value){.data = data};
    if (name)
        snprintf(v->name, sizeof v->name, "%s", name);
    else
        snprintf(v->name, sizeof v->name, "%s%s_%d", p->scope, what, p->n_values);
    if (dims) v->dims = *dims;
    if (dims && !vt_dims_count(dims, &v->n)) p->failed = true;
    return p->failed ? -1 : p->n_values++;
}

int vt_put_input(vt_put *p, const char *name, const vt_dims *dims) {
    p->input_dims = *dims;
    return p->input = add_value(p, name, "input", NULL, NULL);
}

/* Returns the index of the value of that name, -1 if there is none. */
static int find_value(const vt_put *p, const char *name) {
    for (int i = 0; i < p->n_values; i++)
        if (!strcmp(p->values[i].name, name)) return i;
    return -1;
}

int vt_put_floats(vt_put *p, const char *name, const vt_dims *dims, const float *data) {
    int v = find_value(p, name);
    return v < 0 ? add_value(p, name, "tensor", dims, data) : v;
}

int vt_put_transposed(vt_put *p, const char *name, int64_t rows, int64_t cols, const float *data) {
    int v = find_value(p, name);
    if (v >= 0) return v;
    v = add_value(p, name, "tensor", VT_DIMS(cols, rows), data);
    if (v >= 0) p->values[v].transposed = true;
    return v;
}

/* Returns a copy of n items in p's memory; NULL, and p->failed: no memory. */
static void *keep_copy(vt_put *p, const void *from, size_t n, size_t item) {
    void *to = p->failed ? NULL : vt_heap_take(&p->heap, n + 1, item);
    if (to)
        memcpy(to, from, n * item);
    else
        p->failed = true;
    return to;
}

int vt_put_integer_table(vt_put *p, const vt_dims *dims, const int64_t *v) {
    size_t n = 0;
    if (!vt_dims_count(dims, &n)) p->failed = true;
    int i = add_value(p, NULL, "integers", dims, keep_copy(p, v, n, sizeof *v));
    if (i >= 0) p->values[i].integer = true;
    return i;
}

int vt_put_integers(vt_put *p, int n, const int64_t *v) { return vt_put_integer_table(p, VT_DIMS(n), v); }

/* Writes v = part 0 + part 1 + part 2, each the float nearest to what is left: 24 bits each hold a double's 53. Lesser
 * parts are added first: their sum is exact in double, and in float32 the larger of them, too small to change part
 * 0. */
int vt_put_reals(vt_put *p, const vt_dims *dims, const double *v) {
    static const vt_dims scalar = {0};
    size_t n = 1;
    int parts[3];
    bool any = true;
    if (!dims) dims = &scalar;
    if (!vt_dims_count(dims, &n)) p->failed = true;
    double *left = keep_copy(p, v, n, sizeof *left);
    int count = 0;
    for (; left && any && count < 3; count++) {
        float *f = vt_heap_take(&p->heap, n + 1, sizeof *f);
        any = false;
        if (!f) p->failed = true;
        for (size_t i = 0; f && i < n; i++) {
            f[i] = (float)left[i];
            left[i] -= (double)f[i];
            any = any || left[i] != 0;
        }
        parts[count] = add_value(p, NULL, "real", dims, f);
    }
    if (p->failed) return -1;
    int sum = parts[count - 1];
    for (int k = count - 2; k >= 0; k--) sum = vt_put_binary(p, "Add", parts[k], sum);
    return sum;
}

int vt_put_real(vt_put *p, double v) {
    for (int i = 0; i < p->n_values; i++)
        if (p->values[i].real && *p->values[i].real == v) return i;
    int i = vt_put_reals(p, NULL, &v);
    if (i >= 0) p->values[i].real = keep_copy(p, &v, 1, sizeof v);
    return i;
}

/* ---- nodes ---- */

int vt_put_node(vt_put *p, const char *op, const int *in, int n_in, const vt_put_attr *attr) {
    for (int k = 0; k < n_in; k++) p->failed = p->failed || in[k] < 0;
    if (p->failed || (p->failed = !vt_grow(&p->nodes, (size_t)p->n_nodes, sizeof *p->nodes))) return -1;
    put_node *n = &p->nodes[p->n_nodes];
    *n = (put_node){.op = op, .n_in = n_in};
    memcpy(n->in, in, (size_t)n_in * sizeof *in);
    for (; attr && attr[n->n_attr].name; n->n_attr++) n->attr[n->n_attr] = attr[n->n_attr];
    n->out = add_value(p, NULL, op, NULL, NULL);
    p->n_nodes += n->out >= 0;
    return n->out;
}

int vt_put_unary(vt_put *p, const char *op, int a) { return vt_put_node(p, op, &a, 1, NULL); }
int vt_put_binary(vt_put *p, const char *op, int a, int b) { return vt_put_node(p, op, (int[]){a, b}, 2, NULL); }

int vt_put_along(vt_put *p, const char *op, int a, int b, int64_t axis) {
    return vt_put_node(p, op, (int[]){a, b}, b < 0 ? 1 : 2, (vt_put_attr[]){{"axis", 0, {axis}}, {0}});
}

/* Gives the axis of ReduceSum as an input, as at opset 17, that of others as an attribute. */
int vt_put_reduce(vt_put *p, const char *op, int a, int64_t axis) {
    if (!strcmp(op, "ReduceSum")) return vt_put_binary(p, op, a, vt_put_integers(p, 1, &axis));
    return vt_put_node(p, op, &a, 1, (vt_put_attr[]){{"axes", 1, {axis}}, {0}});
}

int vt_put_reshape(vt_put *p, int a, const vt_dims *dims) {
    return vt_put_binary(p, "Reshape", a, vt_put_integers(p, dims->rank, dims->d));
}

int vt_put_transpose(vt_put *p, int a, const vt_dims *order) {
    vt_put_attr attr[2] = {{"perm", order->rank, {0}}};
    memcpy(attr[0].v, order->d, sizeof order->d);
    return vt_put_node(p, "Transpose", &a, 1, attr);
}

int vt_put_transpose_last(vt_put *p, int a, int rank) {
    vt_dims order = {.rank = rank};
    for (int k = 0; k < rank; k++) order.d[k] = k;
    order.d[rank - 1] = rank - 2, order.d[rank - 2] = rank - 1;
    return vt_put_transpose(p, a, &order);
}

int vt_put_times_transposed(vt_put *p, int a, int b, int rank) {
    return vt_put_binary(p, "MatMul", a, vt_put_transpose_last(p, b, rank));
}

int vt_put_concat(vt_put *p, int a, int b, int64_t axis) { return vt_put_along(p, "Concat", a, b, axis); }

int vt_put_slice(vt_put *p, int a, int64_t axis, int64_t from, int64_t to) {
    const int in[] = {a, vt_put_integers(p, 1, &from), vt_put_integers(p, 1, &to), vt_put_integers(p, 1, &axis)};
    return vt_put_node(p, "Slice", in, 4, NULL);
}

int vt_put_pad(vt_put *p, int a, int rank, int axis, int64_t before, int64_t after) {
    int64_t pads[2 * VT_RANK] = {0};
    pads[axis] = before, pads[rank + axis] = after;
    return vt_put_binary(p, "Pad", a, vt_put_integers(p, 2 * rank, pads));
}

void vt_put_name(vt_put *p, int v, const char *name) {
    if (v >= 0 && !p->failed) snprintf(p->values[v].name, NAME, "%s%s", p->scope, name);
}

void vt_put_output(vt_put *p, int v, const char *name, int64_t classes) {
    vt_put_scope(p, "");
    vt_put_name(p, v, name);
    p->output = v, p->classes = classes;
}

void vt_put_note(vt_put *p, const char *key, const char *value) {
    if (p->n_notes == NOTES) return;
    snprintf(p->notes[p->n_notes][0], sizeof p->notes[0][0], "%s", key);
    snprintf(p->notes[p->n_notes++][1], sizeof p->notes[0][0], "%s", value);
}

/* ---- protobuf: field numbers of onnx.proto3 ---- */

typedef struct bytes {
    uint8_t *p;
    size_t n, room;
    bool failed;
} bytes;

/* Appends n bytes; without memory sets b->failed, after which nothing is appended. */
static void add_bytes(bytes *b, const void *p, size_t n) {
    if (b->n + n > b->room) {
        const size_t room = 2 * (b->n + n) + 256;
        uint8_t *more = b->failed ? NULL : realloc(b->p, room);
        if (!more) b->failed = true;
        if (b->failed) return;
        b->p = more, b->room = room;
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

/* Appends v as protobuf's variable-length number. */
static void add_varint(bytes *b, uint64_t v) {
    uint8_t out[10];
    size_t n = 0;
    for (; v > 127; v >>= 7) out[n++] = (uint8_t)(v | 128);
    out[n++] = (uint8_t)v;
    add_bytes(b, out, n);
}

/* Appends a field that is a number: tag and value. */
static void add_number(bytes *b, uint32_t field, int64_t v) {
    add_varint(b, (uint64_t)field << 3);
    add_varint(b, (uint64_t)v);
}

/* Adds a field's tag and length: `n` bytes of a message or text follow. */
static void add_length(bytes *b, uint32_t field, size_t n) {
    add_varint(b, ((uint64_t)field << 3) | 2);
    add_varint(b, n);
}

/* Appends a field that is a text: tag, length and letters. */
static void add_text(bytes *b, uint32_t field, const char *text) {
    add_length(b, field, strlen(text));
    add_bytes(b, text, strlen(text));
}

/* Adds message m as a field, with its failure, and frees it. */
static void add_message(bytes *b, uint32_t field, bytes *m) {
    add_length(b, field, m->n);
    add_bytes(b, m->p, m->n);
    b->failed = b->failed || m->failed;
    free(m->p);
}

enum { INT = 2, INTS = 7 }; /* AttributeProto.AttributeType */

/* Appends n as a field of the graph (NodeProto), named as its output. */
static void add_node(bytes *b, const vt_put *p, const put_node *n) {
    bytes m = {0};
    for (int k = 0; k < n->n_in; k++) add_text(&m, 1, p->values[n->in[k]].name);
    add_text(&m, 2, p->values[n->out].name);
    add_text(&m, 3, p->values[n->out].name);
    add_text(&m, 4, n->op);
    for (int k = 0; k < n->n_attr; k++) {
        const vt_put_attr *a = &n->attr[k];
        bytes inner = {0};
        add_text(&inner, 1, a->name);
        if (!a->n) add_number(&inner, 3, a->v[0]);
        for (int i = 0; i < a->n; i++) add_number(&inner, 8, a->v[i]);
        add_number(&inner, 20, a->n ? INTS : INT);
        add_message(&m, 5, &inner);
    }
    add_message(b, 1, &m);
}

/* Adds a ValueInfoProto: float32 [N, dims]. */
static void add_value_info(bytes *b, uint32_t field, const char *name, const vt_dims *dims) {
    bytes shape = {0}, batch = {0}, tensor = {0}, type = {0}, m = {0};
    add_text(&batch, 2, "N");
    add_message(&shape, 1, &batch);
    for (int k = 0; k < dims->rank; k++) {
        bytes side = {0};
        add_number(&side, 1, dims->d[k]);
        add_message(&shape, 1, &side);
    }
    add_number(&tensor, 1, VT_ONNX_FLOAT);
    add_message(&tensor, 2, &shape);
    add_message(&type, 1, &tensor);
    add_text(&m, 1, name);
    add_message(&m, 2, &type);
    add_message(b, field, &m);
}

static size_t data_bytes(const put_value *v) { return v->n * (v->integer ? sizeof(int64_t) : sizeof(float)); }

/* Adds all of an initializer but its numbers, which follow. */
static void add_tensor_head(bytes *b, const put_value *v) {
    bytes m = {0};
    for (int k = 0; k < v->dims.rank; k++) add_number(&m, 1, v->dims.d[k]);
    add_number(&m, 2, v->integer ? VT_ONNX_INT64 : VT_ONNX_FLOAT);
    add_text(&m, 8, v->name);
    add_length(&m, 9, data_bytes(v));
    add_length(b, 5, m.n + data_bytes(v));
    add_bytes(b, m.p, m.n);
    b->failed = b->failed || m.failed;
    free(m.p);
}

/* ---- the file: what stands before the graph | nodes | initializers | input and output | what follows the graph ----
 */

typedef struct pieces {
    bytes front, nodes, heads, ends, back;
    size_t *head; /* [n_values] where each initializer's head ends in `heads` */
} pieces;

/* Fills f's pieces and f->head [n_values]; a piece without memory is marked failed. */
static void fill_pieces(pieces *f, const vt_put *p, const char *graph) {
    size_t length = 0;
    for (int i = 0; i < p->n_nodes; i++) add_node(&f->nodes, p, &p->nodes[i]);
    add_text(&f->nodes, 2, graph);
    for (int i = 0; i < p->n_values; i++) {
        if (p->values[i].data) add_tensor_head(&f->heads, &p->values[i]);
        if (p->values[i].data) length += data_bytes(&p->values[i]);
        f->head[i] = f->heads.n;
    }
    add_value_info(&f->ends, 11, p->values[p->input].name, &p->input_dims);
    add_value_info(&f->ends, 12, p->values[p->output].name, VT_DIMS(p->classes));
    add_number(&f->front, 1, IR_VERSION);
    add_text(&f->front, 2, "vitrine");
    add_text(&f->front, 3, VT_VERSION);
    add_length(&f->front, 7, length + f->nodes.n + f->heads.n + f->ends.n);
    bytes opset = {0};
    add_number(&opset, 2, OPSET);
    add_message(&f->back, 8, &opset);
    for (int i = 0; i < p->n_notes; i++) {
        bytes note = {0};
        add_text(&note, 1, p->notes[i][0]);
        add_text(&note, 2, p->notes[i][1]);
        add_message(&f->back, 14, &note);
    }
}

/* Writes the transpose of v's data, row by row; false: no memory. */
static bool write_transposed(FILE *to, const put_value *v) {
    const size_t rows = (size_t)v->dims.d[1], cols = (size_t)v->dims.d[0];
    const float *from = v->data;
    float *line = vt_alloc((rows + 1) * sizeof *line);
    for (size_t c = 0; line && c < cols; c++) {
        for (size_t r = 0; r < rows; r++) line[r] = from[r * cols + c];
        fwrite(line, sizeof *line, rows, to);
    }
    free(line);
    return line != NULL;
}

/* Writes the file of its pieces and the initializers' numbers, without a look at the stream's errors; false: no
 * memory. */
static bool write_pieces(FILE *to, const pieces *f, const vt_put *p) {
    bool room = true;
    fwrite(f->front.p, 1, f->front.n, to);
    fwrite(f->nodes.p, 1, f->nodes.n, to);
    for (int i = 0; i < p->n_values; i++) {
        const put_value *v = &p->values[i];
        const size_t from = i ? f->head[i - 1] : 0;
        if (!v->data) continue;
        fwrite(f->heads.p + from, 1, f->head[i] - from, to);
        if (v->transposed)
            room = write_transposed(to, v) && room;
        else
            fwrite(v->data, 1, data_bytes(v), to);
    }
    fwrite(f->ends.p, 1, f->ends.n, to);
    fwrite(f->back.p, 1, f->back.n, to);
    return room;
}

vt_status vt_put_stream(const vt_put *p, const char *graph, FILE *to, const char *path, vt_err *e) {
    double size = 0;
    for (int i = 0; i < p->n_values; i++) size += p->values[i].data ? (double)data_bytes(&p->values[i]) : 0;
    pieces f = {.head = calloc((size_t)p->n_values + 1, sizeof *f.head)};
    if (!p->failed && f.head) fill_pieces(&f, p, graph);
    size += (double)(f.front.n + f.nodes.n + f.heads.n + f.ends.n + f.back.n);
    bool failed = p->failed || !f.head || f.front.failed || f.nodes.failed || f.heads.failed || f.ends.failed;
    failed = failed || f.back.failed;
    vt_status s = VT_OK;
    if (!failed && size > INT_MAX)
        s = vt_fail(e, VT_E_RANGE, "%s: would have %.0f bytes, an ONNX file without external data has at most %d", path,
                    size, INT_MAX);
    else if (failed || !write_pieces(to, &f, p))
        s = vt_fail(e, VT_E_MEMORY, "%s: no memory to write it", path);
    free(f.head), free(f.front.p), free(f.nodes.p), free(f.heads.p), free(f.ends.p), free(f.back.p);
    return s;
}

vt_status vt_put_file(const vt_put *p, const char *graph, const char *path, vt_err *e) {
    vt_file file;
    VT_TRY(vt_file_begin_path(&file, path, e));
    vt_status s = vt_put_stream(p, graph, file.stream, path, e);
    if (s == VT_OK) return vt_file_commit(&file, e);
    vt_file_abandon(&file);
    return s;
}
