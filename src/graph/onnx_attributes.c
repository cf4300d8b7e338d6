/* SPDX-License-Identifier: MIT */
/* Attributes of a node (graph/onnx.h). */
#include <stdio.h>
#include <string.h>
#include "graph/onnx.h"
#include "graph/wire.h"

/* Sets *out to the first of that name among the repeated field `number` of a message; false: none. */
static bool find_named(vt_slice s, uint32_t number, vt_slice name, vt_slice *out) {
    for (vt_wire_field f, k; vt_wire_next(&s, &f);)
        if (f.number == number && f.wire == 2 && vt_wire_find(f.bytes, 1, 2, &k) && k.bytes.n == name.n &&
            !memcmp(k.bytes.p, name.p, name.n)) {
            *out = f.bytes;
            return true;
        }
    return false;
}

/* Sets *out to the attribute of that name; false: none. In a function it may be another's name: an attribute of the
 * call, or the function's default for it. */
static bool find_attribute(const vt_onnx_node *n, const char *name, vt_slice *out) {
    vt_slice wanted = {(const uint8_t *)name, strlen(name)};
    for (;; n = n->caller) {
        vt_wire_field other;
        vt_slice function = n->function;
        if (!find_named(n->body, 5, wanted, out)) return false;
        if (!n->caller || !vt_wire_find(*out, 21, 2, &other) || !other.bytes.n) return true;
        wanted = other.bytes;
        if (!find_named(n->caller->body, 5, wanted, out)) return find_named(function, 11, wanted, out);
    }
}

/* AttributeProto.AttributeType, and the fields that hold the numbers. */
typedef enum kind { FLOAT = 1, INT, STRING, TENSOR, FLOATS = 6, INTS } kind;

/* find_attribute for one of that kind. */
static bool find_kind(const vt_onnx_node *n, const char *name, kind wanted, vt_slice *out) {
    vt_wire_field type;
    if (!find_attribute(n, name, out)) return false;
    if (!vt_wire_find(*out, 20, 0, &type) || type.value == (uint64_t)wanted) return true;
    if (n->mistyped) *n->mistyped = name;
    return false;
}

/* Sets *f to the one number or text of an attribute of that kind, zero where the file leaves it out as proto3 does. */
static bool find_one(const vt_onnx_node *n, const char *name, kind wanted, vt_wire_field *f) {
    static const struct {
        uint32_t number;
        int wire;
    } fields[] = {[FLOAT] = {2, 5}, [INT] = {3, 0}, [STRING] = {4, 2}};
    vt_slice a;
    if (!find_kind(n, name, wanted, &a)) return false;
    if (!vt_wire_find(a, fields[wanted].number, fields[wanted].wire, f)) *f = (vt_wire_field){0};
    return true;
}

bool vt_onnx_attribute(const vt_onnx_node *n, int i, char *name, size_t size) {
    vt_slice s = n->body;
    for (vt_wire_field f, k; vt_wire_next(&s, &f);) {
        if (f.number != 5 || f.wire != 2 || i-- > 0) continue;
        bool has = vt_wire_find(f.bytes, 1, 2, &k);
        snprintf(name, size, "%.*s", has ? (int)(k.bytes.n < size ? k.bytes.n : size) : 0,
                 has ? (char *)k.bytes.p : "");
        return true;
    }
    return false;
}

bool vt_onnx_int(const vt_onnx_node *n, const char *name, int64_t *out) {
    vt_wire_field f;
    if (!find_one(n, name, INT, &f)) return false;
    *out = (int64_t)f.value;
    return true;
}

bool vt_onnx_float(const vt_onnx_node *n, const char *name, double *out) {
    vt_wire_field f;
    if (!find_one(n, name, FLOAT, &f)) return false;
    *out = vt_wire_float(f.value);
    return true;
}

bool vt_onnx_text(const vt_onnx_node *n, const char *name, char *out, size_t size) {
    vt_wire_field f;
    if (!find_one(n, name, STRING, &f)) return false;
    snprintf(out, size, "%.*s", (int)(f.bytes.n < size ? f.bytes.n : size), f.bytes.n ? (const char *)f.bytes.p : "");
    return true;
}

typedef struct list_reader {
    int64_t *integers;
    double *reals;
    int most, *count;
} list_reader;

/* vt_wire_numbers callback: stores item i, up to `most`, and counts. */
static void take_item(void *ctx, size_t i, uint64_t bits) {
    list_reader *r = ctx;
    if (i < (size_t)r->most && r->integers) r->integers[i] = (int64_t)bits;
    if (i < (size_t)r->most && r->reals) r->reals[i] = vt_wire_float(bits);
    *r->count = i < 1000000 ? (int)i + 1 : 1000000;
}

bool vt_onnx_ints(const vt_onnx_node *n, const char *name, int64_t *out, int most, int *count) {
    vt_slice a;
    *count = 0;
    return find_kind(n, name, INTS, &a) &&
           vt_wire_numbers(a, 8, VT_WIRE_VARINTS, take_item,
                           &(list_reader){.integers = out, .most = most, .count = count});
}

bool vt_onnx_floats(const vt_onnx_node *n, const char *name, double *out, int most, int *count) {
    vt_slice a;
    *count = 0;
    return find_kind(n, name, FLOATS, &a) &&
           vt_wire_numbers(a, 7, VT_WIRE_FLOATS, take_item, &(list_reader){.reals = out, .most = most, .count = count});
}

vt_status vt_onnx_attribute_tensor(vt_onnx *m, const vt_onnx_node *n, const char *name, vt_onnx_tensor *out, bool *has,
                                   vt_err *e) {
    vt_slice a;
    vt_wire_field f;
    *has = find_kind(n, name, TENSOR, &a) && vt_wire_find(a, 5, 2, &f);
    return *has ? vt_onnx_read_tensor(m, f.bytes, out, e) : VT_OK;
}
