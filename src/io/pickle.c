/* SPDX-License-Identifier: MIT */
/* The stack machine. Opcodes and their arguments: CPython, Lib/pickletools.py; integers little-endian, BINFLOAT
 * big-endian. */
#include "io/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA ((size_t)64 << 10)
#define MARKS_MAX (1u << 16) /* open at once: one for each level of nesting, which Python ends at some thousands */

vt_status vt_pickle_bad(vt_pickle *u, const char *fmt, ...) {
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    vt_fail(u->e, VT_E_FORMAT, "%s: %sbyte %zu: %s", u->st->path, u->part, u->op, why);
    return VT_E_FORMAT;
}

/* ---- nodes ---- */

void *vt_pickle_take(vt_pickle *u, size_t bytes) {
    bytes = (bytes + 15) / 16 * 16;
    if (bytes > u->arena_left) {
        size_t block = bytes > ARENA ? bytes : ARENA;
        if (!(u->arena = vt_tensors_take(u->st, block, u->e))) {
            u->arena_left = 0;
            return NULL;
        }
        u->arena_left = block;
    }
    void *p = u->arena;
    u->arena += bytes, u->arena_left -= bytes;
    return memset(p, 0, bytes);
}

vt_node *vt_pickle_node(vt_pickle *u, vt_node_kind kind) {
    vt_node *n = vt_pickle_take(u, sizeof *n);
    if (n) n->kind = kind;
    return n;
}

vt_status vt_pickle_append(vt_pickle *u, vt_node_list *l, vt_node *n) {
    if (l->n == l->room) { /* the old array stays in the arena: at most as much again */
        uint32_t room = l->room ? 2 * l->room : 4;
        vt_node **more = l->room < UINT32_MAX / 2 ? vt_pickle_take(u, room * sizeof *more) : NULL;
        if (!more) return u->e->code == VT_OK ? vt_pickle_bad(u, "too many items") : u->e->code;
        if (l->n) memcpy(more, l->v, l->n * sizeof *more);
        l->v = more, l->room = room;
    }
    l->v[l->n++] = n;
    return VT_OK;
}

static vt_status push_node(vt_pickle *u, vt_node *n) { return n ? vt_pickle_append(u, &u->stack, n) : u->e->code; }

/* What lies above the last mark is not to be popped by opcodes that take single values. */
static uint32_t floor_of(const vt_pickle *u) { return u->n_marks ? u->marks[u->n_marks - 1] : 0; }

static vt_status pop_node(vt_pickle *u, vt_node **out) {
    if (u->stack.n <= floor_of(u)) return vt_pickle_bad(u, "an opcode takes a value where there is none");
    *out = u->stack.v[--u->stack.n];
    return VT_OK;
}

static vt_status peek_node(vt_pickle *u, vt_node **out) {
    VT_TRY(pop_node(u, out));
    u->stack.n++;
    return VT_OK;
}

static vt_status push_mark(vt_pickle *u) {
    if (u->n_marks == MARKS_MAX) return vt_pickle_bad(u, "more than %u open marks", MARKS_MAX);
    if (u->n_marks == u->marks_room) {
        uint32_t room = u->marks_room ? 2 * u->marks_room : 16;
        uint32_t *more = vt_pickle_take(u, room * sizeof *more);
        if (!more) return u->e->code;
        if (u->n_marks) memcpy(more, u->marks, u->n_marks * sizeof *more);
        u->marks = more, u->marks_room = room;
    }
    u->marks[u->n_marks++] = u->stack.n;
    return VT_OK;
}

/* The values above the last mark, which goes: *v points into the stack until the next push. */
static vt_status pop_mark(vt_pickle *u, vt_node ***v, uint32_t *n) {
    if (!u->n_marks) return vt_pickle_bad(u, "an opcode takes values up to a mark, but there is none");
    uint32_t from = u->marks[--u->n_marks];
    *v = u->stack.n ? u->stack.v + from : NULL;
    *n = u->stack.n - from;
    u->stack.n = from;
    return VT_OK;
}

/* ---- arguments ---- */

static vt_status read_bytes(vt_pickle *u, size_t n, const uint8_t **out) {
    if (n > u->n - u->at)
        return vt_pickle_bad(u, "an argument of %zu bytes, but only %zu bytes follow", n, u->n - u->at);
    *out = u->p + u->at;
    u->at += n;
    return VT_OK;
}

/* An unsigned number of `width` bytes, little-endian. */
static vt_status read_unsigned(vt_pickle *u, size_t width, uint64_t *out) {
    const uint8_t *p = NULL;
    VT_TRY(read_bytes(u, width, &p));
    *out = 0;
    memcpy(out, p, width);
    return VT_OK;
}

/* Up to the next line feed. */
static vt_status read_line(vt_pickle *u, vt_node_text *out) {
    const uint8_t *p = u->p + u->at, *end = memchr(p, '\n', u->n - u->at);
    if (!end) return vt_pickle_bad(u, "a name does not end");
    *out = (vt_node_text){(const char *)p, (size_t)(end - p)};
    u->at += out->n + 1;
    return VT_OK;
}

static vt_status push_number(vt_pickle *u, vt_node_kind kind, int64_t i, double r) {
    vt_node *n = vt_pickle_node(u, kind);
    if (n && kind == VT_NODE_REAL) n->u.r = r;
    if (n && kind != VT_NODE_REAL) n->u.i = i;
    return push_node(u, n);
}

static vt_status push_text(vt_pickle *u, vt_node_kind kind, size_t width) {
    uint64_t len;
    const uint8_t *p = NULL;
    VT_TRY(read_unsigned(u, width, &len));
    VT_TRY(read_bytes(u, len, &p));
    vt_node *n = vt_pickle_node(u, kind);
    if (n) n->u.text = (vt_node_text){(const char *)p, len};
    return push_node(u, n);
}

/* LONG1, LONG4: two's complement of any length; beyond 8 bytes it is no size of anything: opaque, as None. */
static vt_status push_long(vt_pickle *u, size_t width) {
    uint64_t len, v = 0;
    const uint8_t *p = NULL;
    VT_TRY(read_unsigned(u, width, &len));
    VT_TRY(read_bytes(u, len, &p));
    if (len > 8) return push_number(u, VT_NODE_NONE, 0, 0);
    memcpy(&v, p, len);
    if (len && len < 8 && p[len - 1] & 0x80) v |= UINT64_MAX << (8 * len);
    return push_number(u, VT_NODE_INT, (int64_t)v, 0);
}

static vt_status push_real(vt_pickle *u) {
    uint64_t v;
    double r;
    VT_TRY(read_unsigned(u, 8, &v));
    v = __builtin_bswap64(v);
    memcpy(&r, &v, 8);
    return push_number(u, VT_NODE_REAL, 0, r);
}

/* ---- opcodes ---- */

/* A container of what lies above the mark (count UINT32_MAX) or of `count` values. */
static vt_status push_container(vt_pickle *u, vt_node_kind kind, uint32_t count) {
    vt_node **v = NULL, *n = vt_pickle_node(u, kind);
    if (!n) return u->e->code;
    if (count == UINT32_MAX) {
        VT_TRY(pop_mark(u, &v, &count));
    } else {
        if (u->stack.n - floor_of(u) < count)
            return vt_pickle_bad(u, "a tuple of %u values, but fewer are there", count);
        u->stack.n -= count;
        v = u->stack.v + u->stack.n;
    }
    if (count && !(n->u.list.v = vt_pickle_take(u, count * sizeof *v))) return u->e->code;
    if (count) memcpy(n->u.list.v, v, count * sizeof *v);
    n->u.list.n = n->u.list.room = count;
    if (kind == VT_NODE_DICT && count % 2) return vt_pickle_bad(u, "a dictionary's last key has no value");
    return push_node(u, n);
}

static vt_status add_items(vt_pickle *u, bool to_mark, bool pairs) {
    vt_node **v = NULL, *two[2] = {NULL, NULL}, *to = NULL;
    uint32_t n = pairs ? 2 : 1;
    if (to_mark) {
        VT_TRY(pop_mark(u, &v, &n));
    } else {
        VT_TRY(pop_node(u, &two[n - 1]));
        if (pairs) VT_TRY(pop_node(u, &two[0]));
        v = two;
    }
    VT_TRY(peek_node(u, &to));
    bool fits = pairs ? to->kind == VT_NODE_DICT : to->kind == VT_NODE_LIST || to->kind == VT_NODE_SET;
    if (to->kind == VT_NODE_OPAQUE) return VT_OK; /* items of something that is not looked into */
    if (!fits) return vt_pickle_bad(u, "items are added to %s", vt_node_name(to));
    if (pairs && n % 2) return vt_pickle_bad(u, "a dictionary's last key has no value");
    for (uint32_t i = 0; i < n; i++) VT_TRY(vt_pickle_append(u, &to->u.list, v[i]));
    return VT_OK;
}

static vt_status store_in_memo(vt_pickle *u, uint64_t k) {
    vt_node *n = NULL;
    VT_TRY(peek_node(u, &n));
    if (k > u->n) return vt_pickle_bad(u, "memo %llu is beyond what the pickle can hold", (unsigned long long)k);
    while (u->memo.n <= k) VT_TRY(vt_pickle_append(u, &u->memo, NULL));
    u->memo.v[k] = n;
    return VT_OK;
}

static vt_status push_from_memo(vt_pickle *u, uint64_t k) {
    if (k >= u->memo.n || !u->memo.v[k])
        return vt_pickle_bad(u, "memo %llu is used but was never set", (unsigned long long)k);
    return push_node(u, u->memo.v[k]);
}

/* BUILD: the state of an object. A dictionary's (_metadata of a state dict) and a tensor's are of no use here. */
static vt_status set_object_state(vt_pickle *u) {
    vt_node *state = NULL, *to = NULL;
    VT_TRY(pop_node(u, &state));
    VT_TRY(peek_node(u, &to));
    if (to->kind == VT_NODE_OPAQUE && to->u.list.n < 2) return vt_pickle_append(u, &to->u.list, state);
    if (to->kind == VT_NODE_OPAQUE || to->kind == VT_NODE_DICT || to->kind == VT_NODE_TENSOR) return VT_OK;
    return vt_pickle_bad(u, "%s is given a state", vt_node_name(to));
}

static vt_status push_global(vt_pickle *u, bool from_stack) {
    vt_node_text module, name;
    vt_node *a = NULL, *b = NULL, *n = NULL;
    if (from_stack) {
        VT_TRY(pop_node(u, &b));
        VT_TRY(pop_node(u, &a));
        if (a->kind != VT_NODE_TEXT || b->kind != VT_NODE_TEXT) return vt_pickle_bad(u, "a name is not a text");
        module = a->u.text, name = b->u.text;
    } else {
        VT_TRY(read_line(u, &module));
        VT_TRY(read_line(u, &name));
    }
    VT_TRY(vt_pickle_global(u, &n, module, name));
    return push_node(u, n);
}

static vt_status push_call_result(vt_pickle *u) {
    vt_node *args = NULL, *callee = NULL, *n = NULL;
    VT_TRY(pop_node(u, &args));
    VT_TRY(pop_node(u, &callee));
    if (callee->kind != VT_NODE_NAME || args->kind != VT_NODE_TUPLE)
        return vt_pickle_bad(u, "%s is called with %s", vt_node_name(callee), vt_node_name(args));
    VT_TRY(vt_pickle_call(u, &n, callee, args));
    return push_node(u, n);
}

static vt_status push_persistent_object(vt_pickle *u) {
    vt_node *id = NULL, *n = NULL;
    VT_TRY(pop_node(u, &id));
    VT_TRY(vt_pickle_persistent(u, &n, id));
    return push_node(u, n);
}

static vt_status run_scalar_opcode(vt_pickle *u, uint8_t op) {
    uint64_t v;
    switch (op) {
    case 'N':
        return push_number(u, VT_NODE_NONE, 0, 0);
    case 0x88:
        return push_number(u, VT_NODE_BOOL, 1, 0); /* NEWTRUE */
    case 0x89:
        return push_number(u, VT_NODE_BOOL, 0, 0); /* NEWFALSE */
    case 'J':
        VT_TRY(read_unsigned(u, 4, &v));
        return push_number(u, VT_NODE_INT, (int32_t)v, 0);
    case 'K':
        VT_TRY(read_unsigned(u, 1, &v));
        return push_number(u, VT_NODE_INT, (int64_t)v, 0);
    case 'M':
        VT_TRY(read_unsigned(u, 2, &v));
        return push_number(u, VT_NODE_INT, (int64_t)v, 0);
    case 0x8a:
        return push_long(u, 1);
    case 0x8b:
        return push_long(u, 4);
    case 'G':
        return push_real(u);
    case 'X':
        return push_text(u, VT_NODE_TEXT, 4);
    case 0x8c:
        return push_text(u, VT_NODE_TEXT, 1); /* SHORT_BINUNICODE */
    case 0x8d:
        return push_text(u, VT_NODE_TEXT, 8); /* BINUNICODE8 */
    case 'U':
        return push_text(u, VT_NODE_TEXT, 1); /* SHORT_BINSTRING: Python 2 */
    case 'T':
        return push_text(u, VT_NODE_TEXT, 4); /* BINSTRING: Python 2 */
    case 'C':
        return push_text(u, VT_NODE_BYTES, 1); /* SHORT_BINBYTES */
    case 'B':
        return push_text(u, VT_NODE_BYTES, 4); /* BINBYTES */
    case 0x8e:
        return push_text(u, VT_NODE_BYTES, 8);
    default:
        return vt_pickle_bad(u, "opcode 0x%02x is not one that a state dict needs", op);
    }
}

static vt_status run_container_opcode(vt_pickle *u, uint8_t op) {
    switch (op) {
    case '}':
        return push_node(u, vt_pickle_node(u, VT_NODE_DICT));
    case ']':
        return push_node(u, vt_pickle_node(u, VT_NODE_LIST));
    case ')':
        return push_node(u, vt_pickle_node(u, VT_NODE_TUPLE));
    case 0x8f:
        return push_node(u, vt_pickle_node(u, VT_NODE_SET));
    case 't':
        return push_container(u, VT_NODE_TUPLE, UINT32_MAX);
    case 0x85:
    case 0x86:
    case 0x87:
        return push_container(u, VT_NODE_TUPLE, (uint32_t)op - 0x84);
    case 's':
        return add_items(u, false, true);
    case 'u':
        return add_items(u, true, true);
    case 'a':
        return add_items(u, false, false);
    case 'e':
    case 0x90:
        return add_items(u, true, false); /* APPENDS, ADDITEMS */
    default:
        return run_scalar_opcode(u, op);
    }
}

static vt_status step(vt_pickle *u, uint8_t op) {
    uint64_t v;
    switch (op) {
    case 0x80: /* PROTO */
        VT_TRY(read_unsigned(u, 1, &v));
        return v >= 2 && v <= 5 ? VT_OK : vt_pickle_bad(u, "pickle protocol %d, must be 2 to 5", (int)v);
    case 0x95:
        return read_unsigned(u, 8, &v); /* FRAME: its length is only a hint for readers of streams */
    case '(':
        return push_mark(u);
    case 'q':
        VT_TRY(read_unsigned(u, 1, &v));
        return store_in_memo(u, v);
    case 'r':
        VT_TRY(read_unsigned(u, 4, &v));
        return store_in_memo(u, v);
    case 0x94:
        return store_in_memo(u, u->memo.n); /* MEMOIZE */
    case 'h':
        VT_TRY(read_unsigned(u, 1, &v));
        return push_from_memo(u, v);
    case 'j':
        VT_TRY(read_unsigned(u, 4, &v));
        return push_from_memo(u, v);
    case 'c':
        return push_global(u, false);
    case 0x93:
        return push_global(u, true); /* STACK_GLOBAL */
    case 'R':
    case 0x81:
        return push_call_result(u); /* REDUCE, NEWOBJ */
    case 'b':
        return set_object_state(u);
    case 'Q':
        return push_persistent_object(u);
    default:
        return run_container_opcode(u, op);
    }
}

vt_status vt_pickle_read(vt_node **out, vt_tensors *st, const uint8_t *bytes, size_t n, size_t *at, const char *part,
                         vt_node_list *stores, vt_err *e) {
    vt_err mine = {0}; /* the machine asks it for the status */
    vt_pickle u =
        {.st = st, .p = bytes, .n = n, .at = *at, .op = *at, .part = part, .stores = stores, .e = e ? e : &mine};
    *u.e = (vt_err){0};
    while (u.at < n) {
        u.op = u.at;
        uint8_t op = bytes[u.at++];
        if (op == '.') {
            *at = u.at;
            return pop_node(&u, out);
        }
        VT_TRY(step(&u, op));
    }
    u.op = n;
    return vt_pickle_bad(&u, "the pickle ends without its STOP");
}

/* ---- looking at nodes ---- */

bool vt_node_is(const vt_node *n, const char *text) {
    return n && n->kind == VT_NODE_TEXT && n->u.text.n == strlen(text) && !memcmp(n->u.text.s, text, n->u.text.n);
}
