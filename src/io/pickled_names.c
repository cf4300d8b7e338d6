/* SPDX-License-Identifier: MIT */
/* The names of classes that training scripts write beside the weights: torchvision's class_to_idx, mmpretrain's CLASSES
 * and the like. Nothing of it is executed: they become the text "labels" (models/model.h). */
#include <stdlib.h>
#include <string.h>
#include "io/state_dict.h"

enum { NODES = 2000, DEPTH = 3, MOST = 100000 }; /* that are looked at; classes */

static const char *const keys[] = {"class_to_idx", "idx_to_class", "id2label", "classes", "CLASSES", "class_names"};

/* Puts the name of a class in its place; false: this is no list of names. */
static bool set_class_name(const vt_node **names, uint32_t n, const vt_node *name, int64_t at) {
    bool fits = name->kind == VT_NODE_TEXT && name->u.text.n && at >= 0 && at < (int64_t)n && !names[at];
    if (fits) names[at] = name;
    return fits;
}

static int64_t parse_class_number(const vt_node *n) {
    char text[16] = "";
    if (n->kind == VT_NODE_INT) return n->u.i;
    if (n->kind != VT_NODE_TEXT || !n->u.text.n || n->u.text.n >= sizeof text) return -1;
    memcpy(text, n->u.text.s, n->u.text.n);
    return text[strspn(text, "0123456789")] ? -1 : strtol(text, NULL, 10);
}

/* A list of names, name: number, or number: name; each number once. Returns how many, 0: it is none of these. */
static uint32_t read_names(const vt_node *v, const vt_node **names) {
    bool dict = v->kind == VT_NODE_DICT, list = v->kind == VT_NODE_LIST || v->kind == VT_NODE_TUPLE;
    uint32_t n = dict ? v->u.list.n / 2 : v->u.list.n;
    for (uint32_t i = 0; i < n; i++) {
        const vt_node *a = v->u.list.v[dict ? 2 * i : i], *b = dict ? v->u.list.v[2 * i + 1] : NULL;
        bool forth = dict && b->kind == VT_NODE_INT;
        if (!set_class_name(names, n, dict && !forth ? b : a, !dict ? i : parse_class_number(forth ? b : a))) return 0;
    }
    return list || dict ? n : 0;
}

static vt_status store_labels(vt_tensors *st, const vt_node *const *names, uint32_t n, vt_err *e) {
    size_t bytes = 1, at = 0;
    for (uint32_t i = 0; i < n; i++) bytes += names[i]->u.text.n + 1;
    char *text = vt_tensors_take(st, bytes, e);
    if (!text) return e->code;
    for (uint32_t i = 0; i < n; i++) {
        for (size_t k = 0; k < names[i]->u.text.n; k++)
            text[at++] = (unsigned char)names[i]->u.text.s[k] < ' ' ? ' ' : names[i]->u.text.s[k];
        text[at++] = '\n';
    }
    text[at] = 0;
    return vt_tensors_add_meta(st, "labels", text, e);
}

static vt_status try_names(vt_tensors *st, const vt_node *v, bool *found, vt_err *e) {
    bool some = v->kind == VT_NODE_DICT || v->kind == VT_NODE_LIST || v->kind == VT_NODE_TUPLE;
    uint32_t n = some ? v->u.list.n : 0;
    if (n < 2 || n > 2 * MOST) return VT_OK;
    const vt_node **names = calloc(n, sizeof *names);
    if (!names) return vt_fail(e, VT_E_MEMORY, "%s: no memory for the names of its classes", st->path);
    n = read_names(v, names);
    *found = n > 1;
    vt_status s = *found ? store_labels(st, names, n, e) : VT_OK;
    free(names);
    return s;
}

static vt_status find_class_names(vt_tensors *st, const vt_node *dict, int depth, int *left, bool *found, vt_err *e) {
    for (uint32_t i = 0; i < dict->u.list.n && !*found && --*left > 0; i += 2) {
        const vt_node *key = dict->u.list.v[i], *v = dict->u.list.v[i + 1];
        bool named = false;
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) named = named || vt_node_is(key, keys[k]);
        if (named)
            VT_TRY(try_names(st, v, found, e));
        else if (v->kind == VT_NODE_DICT && depth < DEPTH)
            VT_TRY(find_class_names(st, v, depth + 1, left, found, e));
    }
    return VT_OK;
}

vt_status vt_pickled_names(vt_tensors *st, const vt_node *root, vt_err *e) {
    int left = NODES;
    bool found = false;
    return find_class_names(st, root, 0, &left, &found, e);
}
