/* SPDX-License-Identifier: MIT */
/* What training scripts write beside the weights, of which nothing is executed. */
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "tensors/pickle.h"

/* ---- timm's train.py: `args`, a Namespace or a dict; plain values under the keys that describe a network become a
 * JSON object ---- */

enum { ARGS_NODES = 500, ARGS_DEPTH = 4 }; /* that are looked at: a list may hold one list many times, or itself */

/* One value; NULL: it is None, or nothing plain. */
static json_t *node_to_json(const vt_node *n, int depth, int *left) {
    if (depth > ARGS_DEPTH || --*left < 0) return NULL;
    json_t *out = NULL;
    switch (n->kind) {
    case VT_NODE_BOOL:
        return json_boolean(n->u.i);
    case VT_NODE_INT:
        return json_integer((json_int_t)n->u.i);
    case VT_NODE_REAL:
        return json_real(n->u.r);
    case VT_NODE_TEXT:
        return n->u.text.n && n->u.text.n < 200 ? json_stringn(n->u.text.s, n->u.text.n) : NULL;
    case VT_NODE_TUPLE:
    case VT_NODE_LIST:
        out = json_array();
        for (uint32_t i = 0; out && i < n->u.list.n; i++) {
            json_t *v = node_to_json(n->u.list.v[i], depth + 1, left);
            if (!v) { /* a list without one of its items is another list */
                json_decref(out);
                return NULL;
            }
            json_array_append_new(out, v);
        }
        return out;
    case VT_NODE_DICT:
        out = json_object();
        for (uint32_t i = 0; out && i < n->u.list.n && *left >= 0; i += 2) {
            const vt_node *k = n->u.list.v[i];
            char name[64] = "";
            if (k->kind == VT_NODE_TEXT && k->u.text.n < sizeof name) memcpy(name, k->u.text.s, k->u.text.n);
            json_t *v = *name ? node_to_json(n->u.list.v[i + 1], depth + 1, left) : NULL;
            if (v) json_object_set_new(out, name, v);
        }
        return out;
    default:
        return NULL;
    }
}

const vt_node *vt_state_args(const vt_node *n) {
    const vt_node *state = n->kind == VT_NODE_OPAQUE && n->u.list.n > 1 ? n->u.list.v[1] : n;
    return state->kind == VT_NODE_DICT ? state : NULL;
}

vt_status vt_timm_args(vt_tensors *st, const vt_node *args, vt_err *e) {
    static const char *const keys[] = {"model",         "mean",         "std",      "img_size",
                                       "input_size",    "num_classes",  "crop_pct", "crop_mode",
                                       "interpolation", "model_kwargs", "gp"};
    const vt_node *state = vt_state_args(args);
    int left = ARGS_NODES, of_timm = 0;
    if (!state) return VT_OK;
    size_t before = vt_json_refused();
    json_t *all = json_object();
    for (uint32_t i = 0; i < state->u.list.n; i += 2)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            if (!vt_node_is(state->u.list.v[i], keys[k])) continue;
            json_t *v = node_to_json(state->u.list.v[i + 1], 0, &left);
            of_timm |= k < 4 ? 1 << k : 0; /* which timm's parser always sets, if to None */
            if (v) json_object_set_new(all, strcmp(keys[k], "gp") ? keys[k] : "global_pool", v);
        }
    char *text = (all = vt_json_whole(all, before)) ? vt_json_text(all, JSON_COMPACT) : NULL;
    json_decref(all);
    if (!text) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its training arguments", st->path);
    if (of_timm == 15 && left >= 0) st->args = vt_tensors_text(st, e, "%s", text);
    free(text);
    if (of_timm != 15 || left < 0) return VT_OK;
    return st->args ? VT_OK : e->code;
}

/* ---- names of classes: torchvision's class_to_idx, mmpretrain's CLASSES and the like, which become "labels" ---- */

enum { NAMES_NODES = 2000, NAMES_DEPTH = 3, NAMES_MOST = 100000 }; /* that are looked at; classes */

static const char *const keys[] = {"class_to_idx", "idx_to_class", "id2label", "classes", "CLASSES", "class_names"};

/* The number that a node or its digits say; -1: none. */
static int64_t parse_class_number(const vt_node *n) {
    char text[16] = "";
    if (n->kind == VT_NODE_INT) return n->u.i;
    if (n->kind != VT_NODE_TEXT || !n->u.text.n || n->u.text.n >= sizeof text) return -1;
    memcpy(text, n->u.text.s, n->u.text.n);
    return text[strspn(text, "0123456789")] ? -1 : strtol(text, NULL, 10);
}

/* Fills names [n] from a list of names, name: number, or number: name, each number once. false: it is none of these. */
static bool read_names(const vt_node *v, const vt_node **names, uint32_t n) {
    bool dict = v->kind == VT_NODE_DICT;
    for (uint32_t i = 0; i < n; i++) {
        const vt_node *a = v->u.list.v[dict ? 2 * i : i], *b = dict ? v->u.list.v[2 * i + 1] : a;
        const vt_node *name = !dict || b->kind == VT_NODE_INT ? a : b;
        int64_t at = dict ? parse_class_number(name == a ? b : a) : i;
        bool fits = name->kind == VT_NODE_TEXT && name->u.text.n && at >= 0 && at < n && !names[at];
        if (!fits) return false;
        names[at] = name;
    }
    return true;
}

/* Makes the text "labels" of what v names, if it is names. */
static vt_status try_names(vt_tensors *st, const vt_node *v, bool *found, vt_err *e) {
    bool some = v->kind == VT_NODE_DICT || v->kind == VT_NODE_LIST || v->kind == VT_NODE_TUPLE;
    uint32_t n = some ? v->u.list.n / (v->kind == VT_NODE_DICT ? 2 : 1) : 0;
    if (n < 2 || n > NAMES_MOST) return VT_OK;
    const vt_node **names = calloc(n, sizeof *names);
    if (!names) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the names of its classes", st->path);
    *found = read_names(v, names, n);
    size_t bytes = 1, at = 0;
    for (uint32_t i = 0; *found && i < n; i++) bytes += names[i]->u.text.n + 1;
    char *text = *found ? vt_tensors_take(st, bytes, e) : NULL;
    for (uint32_t i = 0; text && i < n; i++) {
        for (size_t k = 0; k < names[i]->u.text.n; k++)
            text[at++] = (unsigned char)names[i]->u.text.s[k] < ' ' ? ' ' : names[i]->u.text.s[k];
        text[at++] = '\n';
    }
    if (text) text[at] = 0;
    free(names);
    return text ? vt_tensors_add_meta(st, "labels", text, e) : *found ? e->code : VT_OK;
}

static vt_status find_class_names(vt_tensors *st, const vt_node *dict, int depth, int *left, bool *found, vt_err *e) {
    for (uint32_t i = 0; i < dict->u.list.n && !*found && --*left > 0; i += 2) {
        const vt_node *key = dict->u.list.v[i], *v = dict->u.list.v[i + 1];
        bool named = false;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) named = named || vt_node_is(key, keys[k]);
        if (named)
            VT_TRY(try_names(st, v, found, e));
        else if (v->kind == VT_NODE_DICT && depth < NAMES_DEPTH)
            VT_TRY(find_class_names(st, v, depth + 1, left, found, e));
    }
    return VT_OK;
}

vt_status vt_pickled_names(vt_tensors *st, const vt_node *root, vt_err *e) {
    int left = NAMES_NODES;
    bool found = false;
    return find_class_names(st, root, 0, &left, &found, e);
}
