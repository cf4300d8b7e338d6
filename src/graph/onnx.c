/* SPDX-License-Identifier: MIT */
#include "graph/onnx.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "base/gzip.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/text.h"
#include "graph/wire.h"

enum { MOST_NODES = 1000000, MOST_FUNCTIONS = 4096, MOST_NAME = 4096 };
#define MOST_BYTES ((size_t)1 << 40)

/* Fails with VT_E_FORMAT: "PATH: what". */
static vt_status fail_format(const vt_onnx *m, const char *what, vt_err *e) {
    return vt_fail(e, VT_E_FORMAT, "%s: %s", m->path, what);
}

static vt_status no_memory(const vt_onnx *m, vt_err *e) { return vt_fail(e, VT_E_MEMORY, "%s: no memory", m->path); }

/* Sets *out to a text of the file as a string; VT_E_FORMAT if it holds a byte 0 or control characters, or is too
 * long. */
static vt_status copy_text(vt_onnx *m, vt_slice s, char **out, vt_err *e) {
    if (s.n > MOST_NAME || memchr(s.p ? (const void *)s.p : "", 0, s.n))
        return fail_format(m, "a name is too long or holds a byte 0", e);
    *out = vt_heap_take(&m->heap, s.n + 1, 1);
    if (!*out) return no_memory(m, e);
    if (s.n) memcpy(*out, s.p, s.n);
    return vt_text_is_plain(*out) ? VT_OK : fail_format(m, "a name holds control characters", e);
}

/* Sets *out to the text of a message's field, "" without it; fails as copy_text. */
static vt_status text_field(vt_onnx *m, vt_slice s, uint32_t number, char **out, vt_err *e) {
    vt_wire_field f = {0};
    vt_wire_find(s, number, 2, &f);
    return copy_text(m, f.bytes, out, e);
}

/* Sets *out to the *n texts of a repeated field; fails as copy_text, or for more than MOST_NODES. */
static vt_status text_list(vt_onnx *m, vt_slice s, uint32_t number, char ***out, int *n, vt_err *e) {
    size_t count = vt_wire_count(s, number);
    if (count > MOST_NODES) return fail_format(m, "a node has too many inputs", e);
    *out = vt_heap_take(&m->heap, count, sizeof **out);
    if (!*out) return no_memory(m, e);
    *n = 0;
    for (vt_wire_field f = {0}; vt_wire_next(&s, &f);)
        if (f.number == number && f.wire == 2) VT_TRY(copy_text(m, f.bytes, &(*out)[(*n)++], e));
    return VT_OK;
}

bool vt_onnx_is_real(int type) {
    return type == VT_ONNX_FLOAT || type == VT_ONNX_DOUBLE || type == VT_ONNX_FLOAT16 || type == VT_ONNX_BFLOAT16;
}

/* Returns the bytes of an element of a data type; 0: it is not read. */
static size_t type_bytes(int type) {
    static const unsigned char bytes[] =
        {[VT_ONNX_FLOAT] = 4,  [VT_ONNX_UINT8] = 1,  [VT_ONNX_INT8] = 1,    [VT_ONNX_UINT16] = 2,  [VT_ONNX_INT16] = 2,
         [VT_ONNX_INT32] = 4,  [VT_ONNX_INT64] = 8,  [VT_ONNX_BOOL] = 1,    [VT_ONNX_FLOAT16] = 2, [VT_ONNX_DOUBLE] = 8,
         [VT_ONNX_UINT32] = 4, [VT_ONNX_UINT64] = 8, [VT_ONNX_BFLOAT16] = 2};
    return type > 0 && (size_t)type < sizeof bytes ? bytes[type] : 0;
}

typedef struct dims_reader {
    vt_dims dims;
    size_t count;
} dims_reader;

/* vt_wire_numbers callback: keeps side i and counts. */
static void take_dim(void *ctx, size_t i, uint64_t v) {
    dims_reader *r = ctx;
    if (i < VT_RANK) r->dims.d[i] = (int64_t)v;
    r->count = i + 1;
}

/* out: the text beside a key in external_data, "" if it is too long or holds a byte 0; false: none. */
static bool external_entry(vt_slice body, const char *key, char *out, size_t size) {
    for (vt_wire_field f, k, v; vt_wire_next(&body, &f);) {
        if (f.number != 13 || f.wire != 2 || !vt_wire_find(f.bytes, 1, 2, &k) || !vt_wire_find(f.bytes, 2, 2, &v))
            continue;
        if (k.bytes.n != strlen(key) || memcmp(k.bytes.p, key, k.bytes.n)) continue;
        const size_t length = v.bytes.n < size && !memchr(v.bytes.p, 0, v.bytes.n) ? v.bytes.n : 0;
        memcpy(out, v.bytes.p, length), out[length] = 0;
        return true;
    }
    return false;
}

/* Whether path, links followed, lies in the folder of the model or, as in a cache of links to blobs, in that of the
 * file that the model's own link leads to. A path that leads nowhere does: opening it says more. */
static bool lies_beside(const char *path, const char *dir, const char *model) {
    char to[PATH_MAX], from[PATH_MAX];
    if (!realpath(path, to)) return true;
    const size_t n = (size_t)(strrchr(to, '/') - to);
    if (realpath(dir, from) && strlen(from) == n && !memcmp(to, from, n)) return true;
    return realpath(model, from) && (size_t)(strrchr(from, '/') - from) == n && !memcmp(to, from, n);
}

/* Sets *out to a mapped file beside the model, opened once; VT_E_FORMAT if its name has a slash or a link leads
 * elsewhere. */
static vt_status open_external(vt_onnx *m, const char *name, const vt_mapped **out, vt_err *e) {
    char path[VT_PATH_MAX], dir[VT_PATH_MAX];
    for (int i = 0; i < m->n_external; i++)
        if (!strcmp(m->external[i].name, name)) {
            *out = &m->external[i].file;
            return VT_OK;
        }
    if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
        return vt_fail(e, VT_E_FORMAT, "%s: external data in '%.100s', must be a file beside the model", m->path, name);
    const char *slash = strrchr(m->path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - m->path) + 1 : 1, slash ? m->path : ".");
    VT_TRY(vt_path_in(path, dir, name, e));
    if (!lies_beside(path, dir, m->path))
        return vt_fail(e, VT_E_FORMAT,
                       "%s: external data in '%.100s', a link to another folder, must be a file beside the model",
                       m->path, name);
    if (!vt_grow(&m->external, (size_t)m->n_external, sizeof *m->external)) return no_memory(m, e);
    struct vt_onnx_external *x = &m->external[m->n_external];
    VT_TRY(copy_text(m, (vt_slice){(const uint8_t *)name, strlen(name)}, &x->name, e));
    VT_TRY(vt_mapped_open(&x->file, path, e));
    m->n_external++;
    *out = &x->file;
    return VT_OK;
}

/* Points t->data into its external file, and sets t->raw; VT_E_FORMAT if that is not named or too short. */
static vt_status read_external(vt_onnx *m, vt_onnx_tensor *t, vt_err *e) {
    char name[256], number[32];
    const vt_mapped *file;
    long long at = 0, length;
    const uint64_t n = (uint64_t)t->n * type_bytes(t->type);
    if (!external_entry(t->body, "location", name, sizeof name))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has external data without a location", m->path, t->name);
    if (external_entry(t->body, "offset", number, sizeof number) && (!vt_parse_int(number, &at) || at < 0))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has external data at offset '%s'", m->path, t->name, number);
    if (external_entry(t->body, "length", number, sizeof number) &&
        (!vt_parse_int(number, &length) || length < 0 || (uint64_t)length != n))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has external data of '%s' bytes, must be %llu", m->path, t->name,
                       number, (unsigned long long)n);
    VT_TRY(open_external(m, name, &file, e));
    if ((uint64_t)at > file->n || n > file->n - (uint64_t)at)
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s needs %llu bytes at %llu of %s, which has %zu", m->path, t->name,
                       (unsigned long long)n, (unsigned long long)at, name, file->n);
    t->data = (vt_slice){file->bytes + at, (size_t)n}, t->raw = true;
    return VT_OK;
}

vt_status vt_onnx_read_tensor(vt_onnx *m, vt_slice body, vt_onnx_tensor *t, vt_err *e) {
    vt_wire_field f;
    dims_reader r = {0};
    *t = (vt_onnx_tensor){.body = body};
    VT_TRY(text_field(m, body, 8, &t->name, e));
    if (!vt_wire_whole(body) || !vt_wire_numbers(body, 1, VT_WIRE_VARINTS, take_dim, &r))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s is malformed", m->path, t->name);
    if (vt_wire_find(body, 2, 0, &f)) t->type = f.value < 64 ? (int)f.value : 0;
    t->dims = r.dims, t->dims.rank = (int)(r.count < VT_RANK ? r.count : VT_RANK);
    if (r.count > VT_RANK || !vt_dims_count(&t->dims, &t->n))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has %zu sides, or more values than 2^28, or a negative side",
                       m->path, t->name, r.count);
    if (vt_wire_find(body, 3, 2, &f) || !type_bytes(t->type))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has data type %d, which is not read", m->path, t->name, t->type);
    if (vt_wire_find(body, 14, 0, &f) && f.value == 1) return read_external(m, t, e);
    if (!vt_wire_find(body, 9, 2, &f) || (!f.bytes.n && t->n)) return VT_OK;
    if (f.bytes.n != t->n * type_bytes(t->type))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has %zu bytes of data, must be %zu", m->path, t->name, f.bytes.n,
                       t->n * type_bytes(t->type));
    t->data = f.bytes, t->raw = true;
    return VT_OK;
}

/* Returns the value of a float16's 16 bits. */
static double from_half(uint64_t bits) {
    int sign = (int)(bits >> 15 & 1), exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    uint32_t wide = exponent == 31 ? 0x7f800000u | (uint32_t)fraction << 13 : 0;
    double v = exponent == 31  ? vt_wire_float(wide)
               : exponent == 0 ? (double)fraction / 16777216.0
                               : (double)(1024 + fraction) * (double)((uint64_t)1 << exponent) / 33554432.0;
    return sign ? -v : v;
}

/* Returns one real of raw data, or of a typed field's bits. */
static double real_value(int type, uint64_t bits) {
    switch (type) {
    case VT_ONNX_FLOAT:
        return vt_wire_float(bits);
    case VT_ONNX_DOUBLE:
        return vt_wire_double(bits);
    case VT_ONNX_FLOAT16:
        return from_half(bits & 0xffff);
    default:
        return vt_wire_float((bits & 0xffff) << 16);
    }
}

/* Returns one integer of raw data, or of a typed field's bits; bool: 0 or 1. */
static int64_t integer_value(int type, uint64_t bits) {
    switch (type) {
    case VT_ONNX_INT8:
        return (int8_t)bits;
    case VT_ONNX_INT16:
        return (int16_t)bits;
    case VT_ONNX_INT32:
        return (int32_t)bits;
    case VT_ONNX_UINT8:
        return (uint8_t)bits;
    case VT_ONNX_UINT16:
        return (uint16_t)bits;
    case VT_ONNX_UINT32:
        return (uint32_t)bits;
    case VT_ONNX_BOOL:
        return (bits & 0xffffffff) != 0;
    default:
        return (int64_t)bits;
    }
}

typedef struct number_reader {
    const vt_onnx_tensor *t;
    double *reals; /* or */
    int64_t *integers;
    size_t count;
} number_reader;

/* vt_wire_numbers callback: stores element i, ignores those past t->n, and counts. */
static void take_number(void *ctx, size_t i, uint64_t bits) {
    number_reader *r = ctx;
    r->count = i + 1;
    if (i >= r->t->n) return;
    if (r->reals)
        r->reals[i] = real_value(r->t->type, bits);
    else
        r->integers[i] = integer_value(r->t->type, bits);
}

/* Reads a tensor's elements from raw data or its typed field; VT_E_FORMAT unless there are t->n. */
static vt_status read_numbers(const vt_onnx *m, number_reader *r, vt_err *e) {
    const vt_onnx_tensor *t = r->t;
    bool good = true;
    if (t->raw) {
        const size_t width = type_bytes(t->type);
        for (vt_slice s = t->data; r->count < t->n;) {
            uint64_t bits;
            if (!vt_wire_fixed(&s, width, &bits)) break;
            take_number(r, r->count, bits);
        }
    } else if (t->n) {
        const bool wide = t->type == VT_ONNX_INT64, big = t->type == VT_ONNX_UINT32 || t->type == VT_ONNX_UINT64;
        good = t->type == VT_ONNX_FLOAT    ? vt_wire_numbers(t->body, 4, VT_WIRE_FLOATS, take_number, r)
               : t->type == VT_ONNX_DOUBLE ? vt_wire_numbers(t->body, 10, VT_WIRE_DOUBLES, take_number, r)
                                           : vt_wire_numbers(t->body,
                                                             wide  ? 7
                                                             : big ? 11
                                                                   : 5,
                                                             VT_WIRE_VARINTS, take_number, r);
    }
    if (good && r->count == t->n) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has %zu values, must be %zu", m->path, t->name, r->count, t->n);
}

vt_status vt_onnx_reals(const vt_onnx *m, const vt_onnx_tensor *t, double *out, vt_err *e) {
    if (!vt_onnx_is_real(t->type))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has data type %d, must be a real one", m->path, t->name, t->type);
    return read_numbers(m, &(number_reader){.t = t, .reals = out}, e);
}

vt_status vt_onnx_integers(const vt_onnx *m, const vt_onnx_tensor *t, int64_t *out, vt_err *e) {
    if (vt_onnx_is_real(t->type))
        return vt_fail(e, VT_E_FORMAT, "%s: tensor %s has data type %d, must be an integer one", m->path, t->name,
                       t->type);
    return read_numbers(m, &(number_reader){.t = t, .integers = out}, e);
}

/* Sets *n to a node's operator, name, domain, inputs and outputs; VT_E_FORMAT: malformed. */
static vt_status read_node(vt_onnx *m, vt_slice body, vt_onnx_node *n, vt_err *e) {
    *n = (vt_onnx_node){.body = body};
    VT_TRY(text_field(m, body, 4, &n->op, e));
    VT_TRY(text_field(m, body, 3, &n->name, e));
    VT_TRY(text_field(m, body, 7, &n->domain, e));
    if (!vt_wire_whole(body)) return vt_fail(e, VT_E_FORMAT, "%s: node %s (%s) is malformed", m->path, n->name, n->op);
    VT_TRY(text_list(m, body, 1, &n->in, &n->n_in, e));
    return text_list(m, body, 2, &n->out, &n->n_out, e);
}

/* Sets *v to an input's or output's name, type and sides, -1 if the file leaves one open; VT_E_FORMAT: over VT_RANK
 * sides. */
static vt_status read_value(vt_onnx *m, vt_slice body, vt_onnx_value *v, vt_err *e) {
    vt_wire_field type, tensor, shape, side;
    *v = (vt_onnx_value){0};
    VT_TRY(text_field(m, body, 1, &v->name, e));
    if (!vt_wire_find(body, 2, 2, &type) || !vt_wire_find(type.bytes, 1, 2, &tensor)) return VT_OK;
    if (vt_wire_find(tensor.bytes, 1, 0, &side)) v->type = side.value < INT_MAX ? (int)side.value : INT_MAX;
    v->shaped = vt_wire_find(tensor.bytes, 2, 2, &shape);
    for (vt_wire_field f; v->shaped && vt_wire_next(&shape.bytes, &f);) {
        if (f.number != 1 || f.wire != 2) continue;
        if (v->dims.rank == VT_RANK)
            return vt_fail(e, VT_E_FORMAT, "%s: %s has more than %d sides", m->path, v->name, VT_RANK);
        v->dims.d[v->dims.rank++] = vt_wire_find(f.bytes, 1, 0, &side) ? (int64_t)side.value : -1;
    }
    return VT_OK;
}

/* Sets the pointer at `out` to room for the items of a repeated field of the graph; VT_E_FORMAT beyond MOST_NODES. */
static vt_status take_list(vt_onnx *m, vt_slice graph, uint32_t number, size_t item, void *out, vt_err *e) {
    size_t n = vt_wire_count(graph, number);
    if (n > MOST_NODES)
        return vt_fail(e, VT_E_FORMAT, "%s: %zu nodes or tensors, must be at most %d", m->path, n, MOST_NODES);
    void *p = vt_heap_take(&m->heap, n, item);
    if (!p) return no_memory(m, e);
    memcpy(out, &p, sizeof p);
    return VT_OK;
}

/* Reads nodes, initializers, inputs and outputs; sparse initializers are refused. */
static vt_status read_graph(vt_onnx *m, vt_slice graph, vt_err *e) {
    if (!vt_wire_whole(graph)) return fail_format(m, "its graph is malformed", e);
    VT_TRY(take_list(m, graph, 1, sizeof *m->nodes, &m->nodes, e));
    VT_TRY(take_list(m, graph, 5, sizeof *m->tensors, &m->tensors, e));
    VT_TRY(take_list(m, graph, 11, sizeof *m->inputs, &m->inputs, e));
    VT_TRY(take_list(m, graph, 12, sizeof *m->outputs, &m->outputs, e));
    for (vt_wire_field f = {0}; vt_wire_next(&graph, &f);) {
        if (f.wire != 2) continue;
        if (f.number == 15) return fail_format(m, "sparse initializers are not read", e);
        if (f.number == 1) VT_TRY(read_node(m, f.bytes, &m->nodes[m->n_nodes++], e));
        if (f.number == 5) VT_TRY(vt_onnx_read_tensor(m, f.bytes, &m->tensors[m->n_tensors++], e));
        if (f.number == 11) VT_TRY(read_value(m, f.bytes, &m->inputs[m->n_inputs++], e));
        if (f.number == 12) VT_TRY(read_value(m, f.bytes, &m->outputs[m->n_outputs++], e));
    }
    return VT_OK;
}

/* Reads a function into *f; VT_E_FORMAT: malformed, or of another opset than the model's, by which its nodes are
 * read. */
static vt_status read_function(vt_onnx *m, vt_slice body, vt_onnx_function *f, vt_err *e) {
    if (!vt_wire_whole(body)) return fail_format(m, "a function is malformed", e);
    VT_TRY(text_field(m, body, 1, &f->name, e));
    VT_TRY(text_field(m, body, 10, &f->domain, e));
    VT_TRY(text_list(m, body, 4, &f->in, &f->n_in, e));
    VT_TRY(text_list(m, body, 5, &f->out, &f->n_out, e));
    VT_TRY(take_list(m, body, 7, sizeof *f->nodes, &f->nodes, e));
    for (vt_slice s = body; s.n;) {
        vt_wire_field field, version, domain;
        if (!vt_wire_next(&s, &field)) break;
        if (field.number == 9 && field.wire == 2 && !vt_wire_find(field.bytes, 1, 2, &domain) &&
            vt_wire_find(field.bytes, 2, 0, &version) && version.value != (uint64_t)m->opset)
            return vt_fail(e, VT_E_FORMAT, "%s: function %s is of opset %llu, the file of %lld", m->path, f->name,
                           (unsigned long long)version.value, (long long)m->opset);
        if (field.number != 7 || field.wire != 2) continue;
        VT_TRY(read_node(m, field.bytes, &f->nodes[f->n_nodes], e));
        f->nodes[f->n_nodes++].function = body;
    }
    return VT_OK;
}

static vt_status read_functions(vt_onnx *m, vt_slice s, vt_err *e) {
    if (vt_wire_count(s, 25) > MOST_FUNCTIONS) /* each node is compared with each */
        return vt_fail(e, VT_E_FORMAT, "%s: %zu functions, must be at most %d", m->path, vt_wire_count(s, 25),
                       MOST_FUNCTIONS);
    VT_TRY(take_list(m, s, 25, sizeof *m->functions, &m->functions, e));
    for (vt_wire_field f = {0}; vt_wire_next(&s, &f);)
        if (f.number == 25 && f.wire == 2) VT_TRY(read_function(m, f.bytes, &m->functions[m->n_functions++], e));
    return VT_OK;
}

/* Sets m->opset if the entry is of the domain ""; VT_E_FORMAT outside the range that is read. */
static vt_status read_opset(vt_onnx *m, vt_slice s, vt_err *e) {
    vt_wire_field domain = {0}, version = {0};
    vt_wire_find(s, 1, 2, &domain), vt_wire_find(s, 2, 0, &version);
    if (domain.bytes.n && (domain.bytes.n != 7 || memcmp(domain.bytes.p, "ai.onnx", 7))) return VT_OK;
    m->opset = version.value <= INT64_MAX ? (int64_t)version.value : INT64_MAX;
    if (m->opset >= VT_ONNX_OPSET_LEAST && m->opset <= VT_ONNX_OPSET_MOST) return VT_OK;
    return vt_fail(e, VT_E_FORMAT, "%s: its operators are of opset %lld, must be %d to %d", m->path,
                   (long long)m->opset, VT_ONNX_OPSET_LEAST, VT_ONNX_OPSET_MOST);
}

/* Reads the whole file into m; VT_E_FORMAT for a damaged one, several graphs, or an opset that is not said or not
 * read. */
static vt_status read_model(vt_onnx *m, vt_err *e) {
    vt_slice all = {m->file.bytes, m->file.n}, s = all;
    vt_wire_field f, graph;
    if (!m->file.n) return fail_format(m, "is empty, not an ONNX file", e);
    if (!vt_wire_whole(all) || !vt_wire_find(all, 7, 2, &graph)) return fail_format(m, "is not a whole ONNX file", e);
    if (vt_wire_count(all, 7) > 1) return fail_format(m, "holds more than one graph", e);
    if (vt_wire_find(all, 1, 0, &f)) m->ir = (int64_t)f.value;
    while (vt_wire_next(&s, &f))
        if (f.number == 8 && f.wire == 2) VT_TRY(read_opset(m, f.bytes, e));
    if (!m->opset) return fail_format(m, "does not say the opset of its operators", e);
    VT_TRY(text_field(m, all, 2, &m->producer, e));
    VT_TRY(text_field(m, all, 3, &m->version, e));
    VT_TRY(read_functions(m, all, e));
    return read_graph(m, graph.bytes, e);
}

bool vt_onnx_begins(const uint8_t *bytes, size_t n) {
    /* ir_version (field 1, a small varint), then a length-delimited field 2 to 8 */
    return n >= 4 && bytes[0] == 0x08 && bytes[1] >= 1 && bytes[1] <= 64 && (bytes[2] & 7) == 2 && bytes[2] >> 3 >= 2 &&
           bytes[2] >> 3 <= 14;
}

vt_status vt_onnx_open(vt_onnx **out, const char *path, vt_err *e) {
    vt_mapped file;
    *out = NULL;
    VT_TRY(vt_unpacked_open(&file, path, e));
    return vt_onnx_open_mapped(out, path, file, e);
}

vt_status vt_onnx_open_mapped(vt_onnx **out, const char *path, vt_mapped file, vt_err *e) {
    *out = NULL;
    vt_onnx *m = calloc(1, sizeof *m);
    if (!m) {
        vt_mapped_close(&file);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    }
    m->path = path, m->file = file;
    vt_status s = m->file.n > MOST_BYTES ? fail_format(m, "is larger than 2^40 bytes", e) : read_model(m, e);
    if (s == VT_OK)
        *out = m;
    else
        vt_onnx_close(m);
    return s;
}

void vt_onnx_close(vt_onnx *m) {
    if (!m) return;
    for (int i = 0; i < m->n_external; i++) vt_mapped_close(&m->external[i].file);
    free(m->external);
    vt_mapped_close(&m->file);
    vt_heap_free(&m->heap);
    free(m);
}

void vt_onnx_release(const vt_onnx *m) {
    vt_mapped_release(&m->file, 0, m->file.n);
    for (int i = 0; i < m->n_external; i++) vt_mapped_release(&m->external[i].file, 0, m->external[i].file.n);
}

size_t vt_onnx_bytes(const vt_onnx *m) {
    size_t n = m->file.n;
    for (int i = 0; i < m->n_external; i++) n += m->external[i].file.n;
    return n;
}

void vt_onnx_hash(const vt_onnx *m, vt_sha *sha) {
    vt_mapped_hash(&m->file, 0, sha);
    for (int i = 0; i < m->n_external; i++) vt_mapped_hash(&m->external[i].file, 0, sha);
}
