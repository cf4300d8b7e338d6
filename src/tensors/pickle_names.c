/* SPDX-License-Identifier: MIT */
/* The names that a pickle may use and what each of them means here: those of docs/formats.md, and two that training
 * scripts leave (collections.Counter: torch's MultiStepLR; yacs.config.CfgNode: Swin's official training checkpoints).
 * How torch builds a tensor: torch/_utils.py and torch/serialization.py (1.13, 2.x). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "tensors/npy.h"
#include "tensors/pickle.h"

typedef enum meaning {
    DICT,      /* called: a dictionary */
    SET,       /* called: a set */
    TUPLE,     /* torch.Size: its argument */
    STORAGE,   /* in a persistent id: the type of the items */
    UNTYPED,   /* ... bytes */
    DTYPE,     /* an argument of _rebuild_tensor_v3 */
    TENSOR,    /* called: a view of a storage */
    TENSOR_V3, /* ... of an untyped one */
    PARAMETER, /* called: its first argument */
    FROM_TYPE, /* called: its first argument, called */
    NUMBER,    /* numpy's scalar */
    ENCODE,    /* text to bytes */
    OPAQUE     /* called or not: not looked into */
} meaning;

/* A type of numbers: its storage, and two names of its dtype. */
#define TYPE(storage, name, other, dtype)                                                                              \
    {"torch", storage, STORAGE, dtype}, {"torch", name, DTYPE, dtype}, { "torch", other, DTYPE, dtype }

static const struct {
    const char *module, *name;
    meaning is;
    vt_dtype dtype;
} names[] = {
    {"collections", "OrderedDict", DICT, 0},
    {"collections", "defaultdict", DICT, 0},
    {"collections", "Counter", DICT, 0},
    {"builtins", "dict", DICT, 0},
    {"__builtin__", "dict", DICT, 0},
    {"yacs.config", "CfgNode", DICT, 0},
    {"builtins", "set", SET, 0},
    {"__builtin__", "set", SET, 0},
    {"torch._utils", "_rebuild_tensor", TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_V3, 0},
    {"torch._utils", "_rebuild_parameter", PARAMETER, 0},
    {"torch._utils", "_rebuild_parameter_with_state", PARAMETER, 0},
    {"torch.nn.parameter", "Parameter", PARAMETER, 0},
    {"torch._tensor", "_rebuild_from_type_v2", FROM_TYPE, 0},
    TYPE("DoubleStorage", "float64", "double", VT_F64),
    TYPE("FloatStorage", "float32", "float", VT_F32),
    TYPE("HalfStorage", "float16", "half", VT_F16),
    TYPE("BFloat16Storage", "bfloat16", "bfloat16", VT_BF16),
    TYPE("LongStorage", "int64", "long", VT_I64),
    TYPE("IntStorage", "int32", "int", VT_I32),
    TYPE("ShortStorage", "int16", "short", VT_I16),
    TYPE("CharStorage", "int8", "int8", VT_I8),
    TYPE("ByteStorage", "uint8", "uint8", VT_U8),
    TYPE("BoolStorage", "bool", "bool", VT_BOOL),
    {"torch.storage", "UntypedStorage", UNTYPED, VT_U8},
    {"torch", "UntypedStorage", UNTYPED, VT_U8},
    {"torch.storage", "TypedStorage", OPAQUE, 0},
    {"torch", "Size", TUPLE, 0},
    {"torch", "device", OPAQUE, 0},
    {"torch.serialization", "_get_layout", OPAQUE, 0},
    {"argparse", "Namespace", OPAQUE, 0},
    {"numpy.core.multiarray", "scalar", NUMBER, 0},
    {"numpy._core.multiarray", "scalar", NUMBER, 0},
    {"numpy.core.multiarray", "_reconstruct", OPAQUE, 0},
    {"numpy._core.multiarray", "_reconstruct", OPAQUE, 0},
    {"numpy", "dtype", OPAQUE, 0},
    {"numpy", "ndarray", OPAQUE, 0},
    {"pathlib", "Path", OPAQUE, 0},
    {"pathlib", "PosixPath", OPAQUE, 0},
    {"pathlib", "WindowsPath", OPAQUE, 0},
    {"pathlib", "PurePosixPath", OPAQUE, 0},
    {"pathlib", "PureWindowsPath", OPAQUE, 0},
    {"pathlib._local", "PosixPath", OPAQUE, 0},
    {"_codecs", "encode", ENCODE, 0},
    {"builtins", "bytearray", OPAQUE, 0},
    {"__builtin__", "bytearray", OPAQUE, 0},
};
#define COUNT ((int)(sizeof names / sizeof *names))

#define WHOLE_MODEL                                                                                                    \
    "the file holds a whole model as Python code, not its state dict: load it where it was made and save "             \
    "torch.save(model.state_dict(), FILE)"

vt_status vt_pickle_global(vt_pickle *u, vt_node **out, vt_node_text module, vt_node_text name) {
    vt_node_text of = module;
    if (vt_text_is(of, "torch.cuda")) of.n = strlen("torch"); /* storages of very old files */
    for (int i = 0; i < COUNT; i++) {
        if (!vt_text_is(of, names[i].module) || !vt_text_is(name, names[i].name)) continue;
        if (of.n != module.n && names[i].is != STORAGE) continue;
        if (!(*out = vt_pickle_node(u, VT_NODE_NAME))) return u->e->code;
        (*out)->row = (uint16_t)i;
        return VT_OK;
    }
    static const char *const models[] = {"torch.nn.modules.", "timm.", "torchvision.models.", "transformers."};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (module.n > strlen(models[i]) && !memcmp(module.s, models[i], strlen(models[i])))
            return vt_pickle_bad(u, "the pickle names %.*s %.*s: " WHOLE_MODEL, (int)(module.n < 80 ? module.n : 80),
                                 module.s, (int)(name.n < 80 ? name.n : 80), name.s);
    return vt_pickle_bad(u,
                         "the pickle names %.*s %.*s, which is not among the names that a state dict needs; nothing of "
                         "it was run. Save the weights alone: torch.save(model.state_dict(), FILE)",
                         (int)(module.n < 80 ? module.n : 80), module.s, (int)(name.n < 80 ? name.n : 80), name.s);
}

const char *vt_node_name(const vt_node *n) {
    static const char *const kinds[] = {"None",   "a truth value", "a whole number", "a number", "a text",
                                        "bytes",  "a tuple",       "a list",         "a set",    "a dict",
                                        "a name", "a storage",     "a tensor"};
    return n->kind == VT_NODE_OPAQUE || n->kind == VT_NODE_NAME ? names[n->row].name : kinds[n->kind];
}

/* ---- persistent ids: ('storage', type, key, location, numel[, view]) ---- */

/* Sets s->view and view_numel to the view of a legacy file's storage: NULL or None (all of it) or (key, offset, numel).
 * VT_E_FORMAT if it does not lie in s->numel items. */
static vt_status read_view(vt_pickle *u, vt_node_store *s, const vt_node *view) {
    s->view = 0, s->view_numel = s->numel;
    if (!view || view->kind == VT_NODE_NONE) return VT_OK;
    bool ok = view->kind == VT_NODE_TUPLE && view->u.list.n == 3 && vt_node_int(view->u.list.v[1], &s->view) &&
              vt_node_int(view->u.list.v[2], &s->view_numel);
    if (!ok || s->view < 0 || s->view_numel < 0 || s->view > s->numel || s->view_numel > s->numel - s->view)
        return vt_pickle_bad(u, "storage %.*s: its view does not lie in its %" PRId64 " items", (int)s->key.n, s->key.s,
                             s->numel);
    return VT_OK;
}

vt_status vt_pickle_persistent(vt_pickle *u, vt_node **out, const vt_node *id) {
    vt_node *const *v = id->u.list.v;
    uint32_t n = id->kind == VT_NODE_TUPLE ? id->u.list.n : 0;
    if (n && vt_node_is(v[0], "module")) return vt_pickle_bad(u, WHOLE_MODEL);
    if (n < 5 || !vt_node_is(v[0], "storage") || v[1]->kind != VT_NODE_NAME || v[2]->kind != VT_NODE_TEXT)
        return vt_pickle_bad(u, "a persistent id is not ('storage', type, key, location, numel)");
    meaning m = names[v[1]->row].is;
    if (m != STORAGE && m != UNTYPED)
        return vt_pickle_bad(u, "%s is no type of storage that is read here", vt_node_name(v[1]));
    vt_node_store *s = vt_pickle_take(u, sizeof *s);
    if (!s || !(*out = vt_pickle_node(u, VT_NODE_STORE))) return u->e->code;
    (*out)->u.store = s;
    s->key = v[2]->u.text, s->dtype = names[v[1]->row].dtype, s->untyped = m == UNTYPED;
    if (!s->key.n || s->key.n > 100) return vt_pickle_bad(u, "a storage's key has %zu characters", s->key.n);
    if (!vt_node_int(v[4], &s->numel) || s->numel < 0)
        return vt_pickle_bad(u, "storage %.*s has no number of items", (int)s->key.n, s->key.s);
    VT_TRY(read_view(u, s, n > 5 ? v[5] : NULL));
    return u->stores ? vt_pickle_append(u, u->stores, *out) : VT_OK;
}

/* ---- calls ---- */

/* Reads a tuple of whole numbers >= 0 into out [*n]; VT_E_FORMAT: anything else, or more than VT_ST_MAX_DIMS. what:
 * "size". */
static vt_status read_int_tuple(vt_pickle *u, int64_t *out, int *n, const vt_node *tuple, const char *what) {
    if (tuple->kind != VT_NODE_TUPLE) return vt_pickle_bad(u, "a tensor's %s is %s", what, vt_node_name(tuple));
    if (tuple->u.list.n > VT_ST_MAX_DIMS)
        return vt_pickle_bad(u, "a tensor of %u dimensions, the limit is %d", tuple->u.list.n, VT_ST_MAX_DIMS);
    *n = (int)tuple->u.list.n;
    for (int i = 0; i < *n; i++)
        if (!vt_node_int(tuple->u.list.v[i], &out[i]) || out[i] < 0)
            return vt_pickle_bad(u, "a tensor's %s %d is not a whole number from 0", what, i);
    return VT_OK;
}

/* Sets *out to a tensor of v [n]: (storage, offset, size, stride, requires_grad, hooks[, dtype in version 3,
 * metadata]), not checked against the storage. VT_E_FORMAT: other arguments. */
static vt_status make_tensor(vt_pickle *u, vt_node **out, bool v3, vt_node *const *v, uint32_t n) {
    if (n < (v3 ? 7u : 4u) || v[0]->kind != VT_NODE_STORE)
        return vt_pickle_bad(u, "a tensor is not built of (storage, offset, size, stride)");
    vt_node_tensor *t = vt_pickle_take(u, sizeof *t);
    if (!t || !(*out = vt_pickle_node(u, VT_NODE_TENSOR))) return u->e->code;
    (*out)->u.tensor = t;
    int dims, steps;
    t->store = v[0], t->dtype = v[0]->u.store->dtype;
    if (!vt_node_int(v[1], &t->offset) || t->offset < 0)
        return vt_pickle_bad(u, "a tensor's offset is not a number from 0");
    VT_TRY(read_int_tuple(u, t->shape, &dims, v[2], "size"));
    VT_TRY(read_int_tuple(u, t->stride, &steps, v[3], "stride"));
    if (dims != steps) return vt_pickle_bad(u, "a tensor has %d sizes and %d strides", dims, steps);
    t->ndim = dims;
    if (v3 && (v[6]->kind != VT_NODE_NAME || names[v[6]->row].is != DTYPE))
        return vt_pickle_bad(u, "a tensor's type is %s", vt_node_name(v[6]));
    if (v3) t->dtype = names[v[6]->row].dtype;
    if (!v3 && v[0]->u.store->untyped) return vt_pickle_bad(u, "a tensor on an untyped storage has no type");
    return VT_OK;
}

/* Sets *out to a dictionary of v [n]: dict(), dict([(k, v), ...]), Counter({...}), which is v[0] itself, or, empty,
 * other arguments such as defaultdict(factory). VT_E_FORMAT: an item is no pair. */
static vt_status make_dict(vt_pickle *u, vt_node **out, vt_node *const *v, uint32_t n) {
    if (n == 1 && v[0]->kind == VT_NODE_DICT) {
        *out = v[0];
        return VT_OK;
    }
    if (!(*out = vt_pickle_node(u, VT_NODE_DICT))) return u->e->code;
    const vt_node_list *pairs = n == 1 && v[0]->kind == VT_NODE_LIST ? &v[0]->u.list : NULL;
    for (uint32_t i = 0; pairs && i < pairs->n; i++) {
        const vt_node *p = pairs->v[i];
        if ((p->kind != VT_NODE_LIST && p->kind != VT_NODE_TUPLE) || p->u.list.n != 2)
            return vt_pickle_bad(u, "item %u of a dictionary is not a pair", i);
        for (int k = 0; k < 2; k++) VT_TRY(vt_pickle_append(u, &(*out)->u.list, p->u.list.v[k]));
    }
    return VT_OK;
}

/* Sets *out to the bytes of _codecs.encode(text, 'latin1'): each character below 256 is one. VT_E_FORMAT: anything
 * else. */
static vt_status encode_latin1(vt_pickle *u, vt_node **out, vt_node *const *v, uint32_t n) {
    if (n != 2 || v[0]->kind != VT_NODE_TEXT || !vt_node_is(v[1], "latin1"))
        return vt_pickle_bad(u, "_codecs.encode is used for something else than bytes");
    vt_node_text from = v[0]->u.text;
    char *to = vt_pickle_take(u, from.n + 1);
    if (!to || !(*out = vt_pickle_node(u, VT_NODE_BYTES))) return u->e->code;
    (*out)->u.text.s = to;
    for (size_t i = 0; i < from.n; i++) {
        uint8_t c = (uint8_t)from.s[i];
        if (c >= 0x80) {
            if ((c != 0xc2 && c != 0xc3) || i + 1 == from.n || ((uint8_t)from.s[i + 1] & 0xc0) != 0x80)
                return vt_pickle_bad(u, "_codecs.encode: the text is not latin-1");
            c = (uint8_t)(c << 6 | ((uint8_t)from.s[++i] & 0x3f));
        }
        to[(*out)->u.text.n++] = (char)c;
    }
    return VT_OK;
}

/* Sets *out to an opaque node that keeps the arguments of a call. */
static vt_status make_opaque(vt_pickle *u, vt_node **out, const vt_node *callee, vt_node *args) {
    if (!(*out = vt_pickle_node(u, VT_NODE_OPAQUE))) return u->e->code;
    (*out)->row = callee->row;
    return vt_pickle_append(u, &(*out)->u.list, args);
}

bool vt_node_dtype(const vt_node *n, vt_dtype *dtype, bool *swap) {
    const vt_node *code = vt_node_item(vt_node_item(n, 0), 0);
    bool text = code && (code->kind == VT_NODE_TEXT || code->kind == VT_NODE_BYTES);
    if (!text || !vt_npy_dtype(dtype, code->u.text.s, code->u.text.n)) return false;
    *swap = vt_node_is(vt_node_item(vt_node_item(n, 1), 1), ">") && vt_dtype_size(*dtype) > 1;
    return true;
}

/* Sets *out to the value of numpy's scalar(dtype, bytes), or to an opaque node if it is no number that is read. */
static vt_status make_numpy_scalar(vt_pickle *u, vt_node **out, const vt_node *callee, vt_node *args) {
    const vt_node *bytes = vt_node_item(args, 1);
    vt_npy a = {.numel = 1};
    VT_TRY(make_opaque(u, out, callee, args));
    if (!bytes || bytes->kind != VT_NODE_BYTES || !vt_node_dtype(vt_node_item(args, 0), &a.dtype, &a.swap) ||
        bytes->u.text.n != vt_dtype_size(a.dtype))
        return VT_OK;
    a.data = (const uint8_t *)bytes->u.text.s;
    (*out)->kind = vt_npy_is_real(&a) ? VT_NODE_REAL : VT_NODE_INT;
    if (vt_npy_is_real(&a))
        (*out)->u.r = vt_npy_real(&a, 0);
    else
        (*out)->u.i = vt_npy_whole(&a, 0);
    return VT_OK;
}

vt_status vt_pickle_call(vt_pickle *u, vt_node **out, const vt_node *callee, vt_node *args) {
    vt_node *const *v = args->u.list.v;
    uint32_t n = args->u.list.n;
    const char *name = vt_node_name(callee);
    switch (names[callee->row].is) {
    case DICT:
        return make_dict(u, out, v, n);
    case SET: /* set([...]) */
        *out = n == 1 && v[0]->kind == VT_NODE_LIST ? v[0] : vt_pickle_node(u, VT_NODE_SET);
        return *out ? VT_OK : u->e->code;
    case TUPLE:
        if (n != 1 || (v[0]->kind != VT_NODE_TUPLE && v[0]->kind != VT_NODE_LIST)) break;
        *out = v[0];
        return VT_OK;
    case TENSOR:
        return make_tensor(u, out, false, v, n);
    case TENSOR_V3:
        return make_tensor(u, out, true, v, n);
    case PARAMETER:
        if (!n || v[0]->kind != VT_NODE_TENSOR) break;
        *out = v[0];
        return VT_OK;
    case FROM_TYPE: /* (function, type, arguments, state) */
        if (n < 3 || v[0]->kind != VT_NODE_NAME || v[2]->kind != VT_NODE_TUPLE || names[v[0]->row].is == FROM_TYPE)
            break;
        return vt_pickle_call(u, out, v[0], v[2]);
    case NUMBER:
        return make_numpy_scalar(u, out, callee, args);
    case ENCODE:
        return encode_latin1(u, out, v, n);
    case OPAQUE:
        return make_opaque(u, out, callee, args);
    default:
        break;
    }
    return vt_pickle_bad(u, "%s is called with arguments that it does not take", name);
}
