/* SPDX-License-Identifier: MIT */
/* The stack machine. Opcodes and their arguments: CPython, Lib/pickletools.py; integers little-endian, BINFLOAT
 * big-endian. */
#include "tensors/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA ((size_t)64 << 10)

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

/* Pushes a node; NULL (there was no memory for it): returns u->e's code. */
static vt_status push_node(vt_pickle *u, vt_node *n) { return n ? vt_pickle_append(u, &u->stack, n) : u->e->code; }

/* Pushes a mark: a null pointer on the stack, which opcodes that take single values do not pop. */
static vt_status push_mark(vt_pickle *u) { return vt_pickle_append(u, &u->stack, NULL); }

/* Pops the value on top of the stack; fails if there is none above the last mark. */
static vt_status pop_node(vt_pickle *u, vt_node **out) {
    if (!u->stack.n || !u->stack.v[u->stack.n - 1])
        return vt_pickle_bad(u, "an opcode takes a value where there is none");
    *out = u->stack.v[--u->stack.n];
    return VT_OK;
}

/* Sets *out to the value on top of the stack, which stays there; fails if there is none above the last mark. */
static vt_status peek_node(vt_pickle *u, vt_node **out) {
    VT_TRY(pop_node(u, out));
    u->stack.n++;
    return VT_OK;
}

#define TO_MARK UINT32_MAX

/* Pops `width` values, or with TO_MARK those above the last mark and the mark itself, and sets *v [*n] to them, in the
 * stack until the next push. VT_E_FORMAT: there are fewer, or there is no mark. */
static vt_status pop_nodes(vt_pickle *u, uint32_t width, vt_node ***v, uint32_t *n) {
    uint32_t count = 0, top = u->stack.n;
    while (count < width && count < top && u->stack.v[top - 1 - count]) count++;
    bool marked = count < top && !u->stack.v[top - 1 - count];
    if (width == TO_MARK ? !marked : count < width)
        return vt_pickle_bad(u, "an opcode takes %s where there is none",
                             width == TO_MARK ? "a mark's values" : "a value");
    *v = u->stack.v + top - count, *n = count;
    u->stack.n -= count + (width == TO_MARK);
    return VT_OK;
}

/* ---- arguments ---- */

/* Sets *out to the next n bytes of the pickle, in place, and moves u->at past them; VT_E_FORMAT if there are fewer. */
static vt_status read_bytes(vt_pickle *u, size_t n, const uint8_t **out) {
    if (n > u->n - u->at)
        return vt_pickle_bad(u, "an argument of %zu bytes, but only %zu bytes follow", n, u->n - u->at);
    *out = u->p + u->at;
    u->at += n;
    return VT_OK;
}

/* Reads an unsigned number of `width` bytes, little-endian, and moves u->at past it; VT_E_FORMAT if there are fewer. */
static vt_status read_unsigned(vt_pickle *u, size_t width, uint64_t *out) {
    const uint8_t *p = NULL;
    VT_TRY(read_bytes(u, width, &p));
    *out = 0;
    memcpy(out, p, width);
    return VT_OK;
}

/* Sets *out to the text up to the next line feed, in place, and moves u->at past that; VT_E_FORMAT if there is none. */
static vt_status read_line(vt_pickle *u, vt_node_text *out) {
    const uint8_t *p = u->p + u->at, *end = memchr(p, '\n', u->n - u->at);
    if (!end) return vt_pickle_bad(u, "a name does not end");
    *out = (vt_node_text){(const char *)p, (size_t)(end - p)};
    u->at += out->n + 1;
    return VT_OK;
}

/* Pushes a node of that kind with the whole number i. */
static vt_status push_whole(vt_pickle *u, vt_node_kind kind, int64_t i) {
    vt_node *n = vt_pickle_node(u, kind);
    if (n) n->u.i = i;
    return push_node(u, n);
}

/* ---- opcodes: u->kind and u->width are those of their rows in the table below ---- */

/* Pushes None, True or False. */
static vt_status push_constant(vt_pickle *u) { return push_whole(u, (vt_node_kind)u->kind, u->width); }

/* Pushes a whole number of u->width bytes, signed if u->kind is not 0. */
static vt_status push_int(vt_pickle *u) {
    uint64_t v;
    VT_TRY(read_unsigned(u, u->width, &v));
    return push_whole(u, VT_NODE_INT, u->kind ? (int32_t)v : (int64_t)v);
}

/* Pushes a text or bytes, whose length stands before them in u->width bytes. */
static vt_status push_text(vt_pickle *u) {
    uint64_t len;
    const uint8_t *p = NULL;
    VT_TRY(read_unsigned(u, u->width, &len));
    VT_TRY(read_bytes(u, len, &p));
    vt_node *n = vt_pickle_node(u, (vt_node_kind)u->kind);
    if (n) n->u.text = (vt_node_text){(const char *)p, len};
    return push_node(u, n);
}

/* Reads a length of u->width bytes, then so many bytes of two's complement, and pushes the number; beyond 8 bytes,
 * which no size takes, None. */
static vt_status push_long(vt_pickle *u) {
    uint64_t len, v = 0;
    const uint8_t *p = NULL;
    VT_TRY(read_unsigned(u, u->width, &len));
    VT_TRY(read_bytes(u, len, &p));
    if (len > 8) return push_whole(u, VT_NODE_NONE, 0);
    memcpy(&v, p, len);
    if (len && len < 8 && p[len - 1] & 0x80) v |= UINT64_MAX << (8 * len);
    return push_whole(u, (vt_node_kind)u->kind, (int64_t)v);
}

/* Pushes a big-endian double. */
static vt_status push_real(vt_pickle *u) {
    uint64_t v;
    VT_TRY(read_unsigned(u, u->width, &v));
    v = __builtin_bswap64(v);
    vt_node *n = vt_pickle_node(u, (vt_node_kind)u->kind);
    if (n) memcpy(&n->u.r, &v, sizeof v);
    return push_node(u, n);
}

/* Pushes a container of u->width values, or of what lies above the mark. */
static vt_status push_container(vt_pickle *u) {
    uint32_t count = 0;
    vt_node **v = NULL, *n = vt_pickle_node(u, (vt_node_kind)u->kind);
    if (!n) return u->e->code;
    if (u->width) VT_TRY(pop_nodes(u, u->width, &v, &count));
    if (count && !(n->u.list.v = vt_pickle_take(u, count * sizeof *v))) return u->e->code;
    if (count) memcpy(n->u.list.v, v, count * sizeof *v);
    n->u.list.n = n->u.list.room = count;
    return push_node(u, n);
}

/* Pops u->width values, or those above the mark, and adds them to the dictionary, list or set then on top, if opaque to
 * nothing. VT_E_FORMAT: on top is another kind, or a key has no value. */
static vt_status add_items(vt_pickle *u) {
    vt_node **v = NULL, *to = NULL;
    uint32_t n = 0;
    bool pairs = u->kind == VT_NODE_DICT;
    VT_TRY(pop_nodes(u, u->width, &v, &n));
    VT_TRY(peek_node(u, &to));
    bool fits = pairs ? to->kind == VT_NODE_DICT : to->kind == VT_NODE_LIST || to->kind == VT_NODE_SET;
    if (to->kind == VT_NODE_OPAQUE) return VT_OK; /* items of something that is not looked into */
    if (!fits) return vt_pickle_bad(u, "items are added to %s", vt_node_name(to));
    if (pairs && n % 2) return vt_pickle_bad(u, "a dictionary's last key has no value");
    for (uint32_t i = 0; i < n; i++) VT_TRY(vt_pickle_append(u, &to->u.list, v[i]));
    return VT_OK;
}

/* Stores the value on top of the stack, which stays, in the memo, at the place that u->width bytes say; width 0: at the
 * next free one. VT_E_FORMAT: a place beyond the pickle's bytes. */
static vt_status store_in_memo(vt_pickle *u) {
    vt_node *n = NULL;
    uint64_t k = u->memo.n;
    if (u->width) VT_TRY(read_unsigned(u, u->width, &k));
    VT_TRY(peek_node(u, &n));
    if (k > u->n) return vt_pickle_bad(u, "memo %llu is beyond what the pickle can hold", (unsigned long long)k);
    while (u->memo.n <= k) VT_TRY(vt_pickle_append(u, &u->memo, NULL));
    u->memo.v[k] = n;
    return VT_OK;
}

/* Pushes the memo's entry whose number follows in u->width bytes; VT_E_FORMAT if it was never set. */
static vt_status push_from_memo(vt_pickle *u) {
    uint64_t k;
    VT_TRY(read_unsigned(u, u->width, &k));
    if (k >= u->memo.n || !u->memo.v[k])
        return vt_pickle_bad(u, "memo %llu is used but was never set", (unsigned long long)k);
    return push_node(u, u->memo.v[k]);
}

/* Pops the state of the object below it and appends it to an opaque one that has none; a dictionary's (_metadata of a
 * state dict) and a tensor's are dropped. VT_E_FORMAT: any other object. */
static vt_status set_object_state(vt_pickle *u) {
    vt_node *state = NULL, *to = NULL;
    VT_TRY(pop_node(u, &state));
    VT_TRY(peek_node(u, &to));
    if (to->kind == VT_NODE_OPAQUE && to->u.list.n < 2) return vt_pickle_append(u, &to->u.list, state);
    if (to->kind == VT_NODE_OPAQUE || to->kind == VT_NODE_DICT || to->kind == VT_NODE_TENSOR) return VT_OK;
    return vt_pickle_bad(u, "%s is given a state", vt_node_name(to));
}

/* Pushes the name that two lines (u->kind 0) or two texts popped from the stack spell; VT_E_FORMAT for names not
 * known. */
static vt_status push_global(vt_pickle *u) {
    vt_node_text module, name;
    vt_node *a = NULL, *b = NULL, *n = NULL;
    if (u->kind) {
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

/* Pops arguments and a name, and pushes what the call stands for; nothing is called. */
static vt_status push_call_result(vt_pickle *u) {
    vt_node *args = NULL, *callee = NULL, *n = NULL;
    VT_TRY(pop_node(u, &args));
    VT_TRY(pop_node(u, &callee));
    if (callee->kind != VT_NODE_NAME || args->kind != VT_NODE_TUPLE)
        return vt_pickle_bad(u, "%s is called with %s", vt_node_name(callee), vt_node_name(args));
    VT_TRY(vt_pickle_call(u, &n, callee, args));
    return push_node(u, n);
}

/* Pops a persistent id and pushes its storage. */
static vt_status push_persistent_object(vt_pickle *u) {
    vt_node *id = NULL, *n = NULL;
    VT_TRY(pop_node(u, &id));
    VT_TRY(vt_pickle_persistent(u, &n, id));
    return push_node(u, n);
}

/* Refuses protocols other than 2 to 5. */
static vt_status check_protocol(vt_pickle *u) {
    uint64_t v;
    VT_TRY(read_unsigned(u, u->width, &v));
    return v >= 2 && v <= 5 ? VT_OK : vt_pickle_bad(u, "pickle protocol %d, must be 2 to 5", (int)v);
}

/* Skips the length of a frame, only a hint for readers of streams. */
static vt_status skip_frame(vt_pickle *u) {
    uint64_t ignored;
    return read_unsigned(u, u->width, &ignored);
}

static const struct {
    vt_status (*run)(vt_pickle *u);
    int kind;
    uint32_t width;
} opcodes[256] = {
    [0x80] = {check_protocol, 0, 1},
    [0x95] = {skip_frame, 0, 8},
    ['('] = {push_mark, 0, 0},
    ['N'] = {push_constant, VT_NODE_NONE, 0},
    [0x88] = {push_constant, VT_NODE_BOOL, 1},
    [0x89] = {push_constant, VT_NODE_BOOL, 0},
    ['J'] = {push_int, 1, 4},
    ['K'] = {push_int, 0, 1},
    ['M'] = {push_int, 0, 2},
    [0x8a] = {push_long, VT_NODE_INT, 1},
    [0x8b] = {push_long, VT_NODE_INT, 4},
    ['G'] = {push_real, VT_NODE_REAL, 8},
    ['X'] = {push_text, VT_NODE_TEXT, 4},
    [0x8c] = {push_text, VT_NODE_TEXT, 1},
    [0x8d] = {push_text, VT_NODE_TEXT, 8},
    ['U'] = {push_text, VT_NODE_TEXT, 1}, /* of Python 2 */
    ['T'] = {push_text, VT_NODE_TEXT, 4}, /* of Python 2 */
    ['C'] = {push_text, VT_NODE_BYTES, 1},
    ['B'] = {push_text, VT_NODE_BYTES, 4},
    [0x8e] = {push_text, VT_NODE_BYTES, 8},
    ['}'] = {push_container, VT_NODE_DICT, 0},
    [']'] = {push_container, VT_NODE_LIST, 0},
    [')'] = {push_container, VT_NODE_TUPLE, 0},
    [0x8f] = {push_container, VT_NODE_SET, 0},
    ['t'] = {push_container, VT_NODE_TUPLE, TO_MARK},
    [0x85] = {push_container, VT_NODE_TUPLE, 1},
    [0x86] = {push_container, VT_NODE_TUPLE, 2},
    [0x87] = {push_container, VT_NODE_TUPLE, 3},
    ['s'] = {add_items, VT_NODE_DICT, 2},
    ['u'] = {add_items, VT_NODE_DICT, TO_MARK},
    ['a'] = {add_items, VT_NODE_LIST, 1},
    ['e'] = {add_items, VT_NODE_LIST, TO_MARK},
    [0x90] = {add_items, VT_NODE_LIST, TO_MARK}, /* of a set */
    ['q'] = {store_in_memo, 0, 1},
    ['r'] = {store_in_memo, 0, 4},
    [0x94] = {store_in_memo, 0, 0},
    ['h'] = {push_from_memo, 0, 1},
    ['j'] = {push_from_memo, 0, 4},
    ['c'] = {push_global, 0, 0},
    [0x93] = {push_global, 1, 0},
    ['R'] = {push_call_result, 0, 0},
    [0x81] = {push_call_result, 0, 0},
    ['b'] = {set_object_state, 0, 0},
    ['Q'] = {push_persistent_object, 0, 0},
};

vt_status vt_pickle_read(vt_node **out, vt_tensors *st, const uint8_t *bytes, size_t n, size_t *at, const char *part,
                         vt_node_list *stores, vt_err *e) {
    vt_pickle u = {.st = st, .p = bytes, .n = n, .at = *at, .op = *at, .part = part, .stores = stores, .e = e};
    *e = (vt_err){0}; /* the opcodes return its code */
    while (u.at < n) {
        u.op = u.at;
        uint8_t op = bytes[u.at++];
        if (op == '.') {
            *at = u.at;
            return pop_node(&u, out);
        }
        if (!opcodes[op].run) return vt_pickle_bad(&u, "opcode 0x%02x is not one that a state dict needs", op);
        u.kind = opcodes[op].kind, u.width = opcodes[op].width;
        VT_TRY(opcodes[op].run(&u));
    }
    u.op = n;
    return vt_pickle_bad(&u, "the pickle ends without its STOP");
}

/* ---- looking at nodes ---- */

bool vt_text_is(vt_node_text t, const char *s) { return t.n == strlen(s) && !memcmp(t.s, s, t.n); }

bool vt_node_is(const vt_node *n, const char *text) {
    return n && (n->kind == VT_NODE_TEXT || n->kind == VT_NODE_BYTES) && vt_text_is(n->u.text, text);
}

const vt_node *vt_node_item(const vt_node *n, uint32_t i) {
    bool list = n && (n->kind == VT_NODE_TUPLE || n->kind == VT_NODE_LIST || n->kind == VT_NODE_OPAQUE);
    return list && i < n->u.list.n ? n->u.list.v[i] : NULL;
}

bool vt_node_int(const vt_node *n, int64_t *out) {
    if (!n || n->kind != VT_NODE_INT) return false;
    *out = n->u.i;
    return true;
}

vt_node *vt_node_get(const vt_node *dict, const char *key) {
    vt_node *hit = NULL;
    for (uint32_t i = 0; dict->kind == VT_NODE_DICT && i < dict->u.list.n; i += 2) {
        if (vt_node_is(dict->u.list.v[i], key)) hit = dict->u.list.v[i + 1];
    }
    return hit;
}
