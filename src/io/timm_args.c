/* SPDX-License-Identifier: MIT */
/* What timm's train.py writes beside the weights: `args`, an argparse.Namespace or a dict. Nothing of it is executed:
 * the plain values under the keys that describe a network and its pixels become a JSON object. */
#include <stdlib.h>
#include <string.h>
#include "core/json.h"
#include "io/state_dict.h"

enum { NODES = 500, DEPTH = 4 }; /* that are looked at: a list may hold one list many times, or itself */

/* One value; NULL: it is None, or nothing plain. */
static json_t *value_of(const vt_node *n, int depth, int *left) {
    if (depth > DEPTH || --*left < 0) return NULL;
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
            json_t *v = value_of(n->u.list.v[i], depth + 1, left);
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
            json_t *v = *name ? value_of(n->u.list.v[i + 1], depth + 1, left) : NULL;
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
    int left = NODES, of_timm = 0;
    if (!state) return VT_OK;
    size_t before = vt_json_refused();
    json_t *all = json_object();
    for (uint32_t i = 0; i < state->u.list.n; i += 2)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            if (!vt_node_is(state->u.list.v[i], keys[k])) continue;
            json_t *v = value_of(state->u.list.v[i + 1], 0, &left);
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
