/* SPDX-License-Identifier: MIT */
/* Which part of what torch.save wrote is the state dict, what of the rest is kept, and what to say of it
 * (docs/formats.md). Nothing is executed. */
#include "tensors/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"

#define MAX_DEPTH 16

/* Keys under which training scripts put a state dict, in the order in which they win: the plain weights before their
 * running average, which is another model. */
static const char *const wrappers[] = {"state_dict", "model",     "model_state_dict", "net", "module",
                                       "student",    "model_ema", "state_dict_ema",   "ema", "teacher"};
#define WRAPPERS ((int)(sizeof wrappers / sizeof *wrappers))

typedef struct walk {
    vt_tensors *st;
    const vt_stores *from;
    vt_err *e;
} walk;

/* What a node is, found out once: a pickle may name one dictionary in many places. */
enum { UNKNOWN, NOTHING, STATE, OPTIMIZER };

/* Returns whether n is a tensor, or a dictionary with one below text keys (sets n->seen, once); an optimiser's state
 * has none, nor what is deeper than MAX_DEPTH. */
static bool has_tensors(vt_node *n, int depth) {
    if (n->kind == VT_NODE_TENSOR) return true;
    if (n->kind != VT_NODE_DICT || depth > MAX_DEPTH) return false;
    if (n->seen == UNKNOWN) {
        n->seen = NOTHING; /* also while it is looked into: a dictionary may hold itself */
        bool optimizer = vt_node_get(n, "state") && vt_node_get(n, "param_groups"), yes = false;
        for (uint32_t i = 0; i < n->u.list.n && !yes && !optimizer; i += 2)
            yes = n->u.list.v[i]->kind == VT_NODE_TEXT && has_tensors(n->u.list.v[i + 1], depth + 1);
        n->seen = optimizer ? OPTIMIZER : yes ? STATE : NOTHING;
    }
    return n->seen == STATE;
}

/* Returns whether n is a dictionary with tensors under names. */
static bool is_state(vt_node *n) { return n && n->kind == VT_NODE_DICT && has_tensors(n, 0); }

/* ---- timm's train.py: `args`, a Namespace or a dict; plain values under the keys that describe a network become a
 * JSON object ---- */

enum { ARGS_NODES = 500, ARGS_DEPTH = 4 }; /* that are looked at: a list may hold one list many times, or itself */

/* Returns a plain value as JSON; NULL: None, nothing plain, a list with such an item, deeper than ARGS_DEPTH, or no
 * memory. *left: nodes that may still be looked at, counted down; below 0, the result is not whole. */
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

/* Returns the dictionary of training arguments, a Namespace's or one itself; NULL: it is neither. */
static const vt_node *training_args(const vt_node *n) {
    const vt_node *state = n->kind == VT_NODE_OPAQUE && n->u.list.n > 1 ? n->u.list.v[1] : n;
    return state->kind == VT_NODE_DICT ? state : NULL;
}

/* Sets st->args to JSON of what timm's training arguments say of the network; without effect if they are not timm's or
 * have more than ARGS_NODES nodes. */
static vt_status keep_timm_args(vt_tensors *st, const vt_node *args, vt_err *e) {
    static const char *const keys[] = {"model",         "mean",         "std",      "img_size",
                                       "input_size",    "num_classes",  "crop_pct", "crop_mode",
                                       "interpolation", "model_kwargs", "gp"};
    const vt_node *state = training_args(args);
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

static const char *const name_keys[] = {"class_to_idx", "idx_to_class", "id2label",
                                        "classes",      "CLASSES",      "class_names"};

/* Returns the number that a node, or a text of up to 15 digits, says; -1: none. */
static int64_t parse_class_number(const vt_node *n) {
    char text[16] = "";
    if (n->kind == VT_NODE_INT) return n->u.i;
    if (n->kind != VT_NODE_TEXT || !n->u.text.n || n->u.text.n >= sizeof text) return -1;
    memcpy(text, n->u.text.s, n->u.text.n);
    return text[strspn(text, "0123456789")] ? -1 : strtol(text, NULL, 10);
}

/* Fills names [n], all NULL, from a list of names, a dictionary of name: number or number: name; false: anything else,
 * or a number not once in [0, n). */
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

/* Sets *found if v is names of 2 to NAMES_MOST classes, and adds them to st as the text "labels"; otherwise VT_OK
 * without effect. */
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

/* Adds the first class names below `dict` (try_names), at most NAMES_DEPTH deep; *found: there were some. *left: nodes
 * that may still be looked at, counted down. */
static vt_status find_class_names(vt_tensors *st, const vt_node *dict, int depth, int *left, bool *found, vt_err *e) {
    for (uint32_t i = 0; i < dict->u.list.n && !*found && --*left > 0; i += 2) {
        const vt_node *key = dict->u.list.v[i], *v = dict->u.list.v[i + 1];
        bool named = false;
        for (size_t k = 0; k < sizeof name_keys / sizeof *name_keys; k++)
            named = named || vt_node_is(key, name_keys[k]);
        if (named)
            VT_TRY(try_names(st, v, found, e));
        else if (v->kind == VT_NODE_DICT && depth < NAMES_DEPTH)
            VT_TRY(find_class_names(st, v, depth + 1, left, found, e));
    }
    return VT_OK;
}

/* Adds the names of the model's outputs, if root has them beside the weights, as the text "labels", one a line. */
static vt_status keep_class_names(vt_tensors *st, const vt_node *root, vt_err *e) {
    int left = NAMES_NODES;
    bool found = false;
    return find_class_names(st, root, 0, &left, &found, e);
}

/* ---- notes ---- */

/* Returns whether n is None, a truth value, a number or a text. */
static bool is_scalar(const vt_node *n) { return n->kind <= VT_NODE_TEXT; }

/* Writes a scalar as a note shows it. */
static void format_scalar(const vt_node *n, char *buf, size_t size) {
    if (n->kind == VT_NODE_INT)
        snprintf(buf, size, "%lld", (long long)n->u.i);
    else if (n->kind == VT_NODE_REAL)
        snprintf(buf, size, "%.9g", n->u.r);
    else if (n->kind == VT_NODE_TEXT)
        snprintf(buf, size, "%.*s", (int)(n->u.text.n < 200 ? n->u.text.n : 200), n->u.text.s);
    else
        snprintf(buf, size, "%s", n->kind == VT_NODE_NONE ? "None" : n->u.i ? "True" : "False");
}

/* Returns "prefix.key" in st's memory, "?" for a key that is no text or whole number; NULL, w->e says why: longer than
 * 1000 characters, or with a zero. */
static const char *join_dotted_name(walk *w, const char *prefix, const vt_node *key) {
    char number[32];
    vt_node_text k = {number, 0};
    if (key->kind == VT_NODE_TEXT)
        k = key->u.text;
    else
        k.n = (size_t)snprintf(number, sizeof number, key->kind == VT_NODE_INT ? "%lld" : "?", (long long)key->u.i);
    if (k.n > 1000 || memchr(k.s, 0, k.n)) {
        vt_fail(w->e, VT_E_FORMAT, "%s: a name of %zu characters below '" VT_NAME "' is too long or has a zero in it",
                w->st->path, k.n, prefix);
        return NULL;
    }
    return vt_tensors_text(w->st, w->e, "%s%s%.*s", prefix, *prefix ? "." : "", (int)k.n, k.s);
}

/* Adds a note on an entry that is no part of the state dict; of training arguments, one on each of their plain
 * values. */
static vt_status add_entry_note(walk *w, const char *prefix, const vt_node *key, vt_node *n) {
    char value[256];
    const char *name = join_dotted_name(w, prefix, key);
    if (!name) return w->e->code;
    if (is_scalar(n)) {
        format_scalar(n, value, sizeof value);
        return vt_tensors_add_note(w->st, VT_NOTE_VALUE, name, value, w->e);
    }
    const vt_node *args = n->kind == VT_NODE_OPAQUE || vt_node_is(key, "args") ? training_args(n) : NULL;
    if (args && !has_tensors(n, 0)) {
        const vt_node_list *state = &args->u.list;
        for (uint32_t i = 0; i < state->n; i += 2)
            if (is_scalar(state->v[i + 1])) VT_TRY(add_entry_note(w, name, state->v[i], state->v[i + 1]));
        return VT_OK;
    }
    snprintf(value, sizeof value, "%s", vt_node_name(n));
    bool tensors = has_tensors(n, 0);
    if (n->seen == OPTIMIZER)
        snprintf(value, sizeof value, "optimiser state, its tensors were not read");
    else if (tensors)
        snprintf(value, sizeof value, "%s outside the chosen state dict",
                 n->kind == VT_NODE_DICT ? "tensors" : "a tensor");
    return vt_tensors_add_note(w->st, VT_NOTE_IGNORED, name, value, w->e);
}

/* ---- the state dict ---- */

/* Writes "a, b, c" to buf, as far as it fits: the dictionaries with tensors in `dict`, each after `prefix` and a dot.
 * Returns how many. */
static int list_states(const vt_node *dict, const char *prefix, char *buf, size_t size) {
    int n = 0;
    *buf = 0;
    for (uint32_t i = 0; i < dict->u.list.n; i += 2) {
        const vt_node *k = dict->u.list.v[i];
        if (k->kind != VT_NODE_TEXT || !is_state(dict->u.list.v[i + 1])) continue;
        n++;
        if (strlen(buf) + strlen(prefix) + 44 < size)
            vt_text_item(buf, size, ", ", "%s%s%.*s", prefix, *prefix ? "." : "",
                         (int)(k->u.text.n < 40 ? k->u.text.n : 40), k->u.text.s);
    }
    return n;
}

/* Returns the place of the dictionary with tensors whose key is the first n characters of a name; of two equal keys the
 * later one counts. -1: none. */
static int64_t find_entry(const vt_node *dict, const char *name, size_t n) {
    int64_t hit = -1;
    for (uint32_t i = 0; i < dict->u.list.n; i += 2) {
        const vt_node *k = dict->u.list.v[i];
        bool same = k->kind == VT_NODE_TEXT && k->u.text.n == n && !memcmp(k->u.text.s, name, n);
        if (same && is_state(dict->u.list.v[i + 1])) hit = i;
    }
    return hit;
}

/* Returns the place of the one dictionary that holds tensors; -1: none, several, or tensors beside it. */
static int64_t only_entry_with_tensors(const vt_node *dict) {
    int64_t only = -1;
    for (uint32_t i = 0; i < dict->u.list.n; i += 2) {
        vt_node *value = dict->u.list.v[i + 1];
        if (dict->u.list.v[i]->kind != VT_NODE_TEXT || !has_tensors(value, 0)) continue;
        if (only >= 0 || value->kind == VT_NODE_TENSOR) return -1;
        only = i;
    }
    return only;
}

/* Returns the place of the entry of `dict` to go on with, by the list of wrappers or as the only one; -1: dict is the
 * state dict itself. why: gets the reason, for the note. */
static int64_t choose_entry(const vt_node *dict, char *why, size_t size) {
    char all[200];
    int64_t at = -1;
    for (int k = 0; k < WRAPPERS && at < 0; k++) at = find_entry(dict, wrappers[k], strlen(wrappers[k]));
    snprintf(why, size, "the only entry with tensors");
    if (at < 0) return only_entry_with_tensors(dict);
    bool several = list_states(dict, "", all, sizeof all) > 1;
    snprintf(why, size, several ? "one of several entries with tensors: %s" : "the entry with tensors", all);
    return at;
}

/* Sets *list to the names of the state dicts in `dict`, below st->part, if there are several and *list is still "". */
static vt_status keep_list(walk *w, const char **list, const vt_node *dict) {
    char all[200];
    if (**list || list_states(dict, w->st->part, all, sizeof all) < 2) return VT_OK;
    const char *text = vt_tensors_text(w->st, w->e, "%s", all);
    if (text) *list = text;
    return text ? VT_OK : w->e->code;
}

/* Sets *dict to the value of its entry `at`, adds the key to st->part, notes the choice with `why`, and the other
 * entries, and sets st->parts if there were several. */
static vt_status descend_into_entry(walk *w, vt_node **dict, int64_t at, const char *why) {
    char name[100];
    const vt_node_list *l = &(*dict)->u.list;
    const vt_node *key = l->v[at];
    VT_TRY(keep_list(w, &w->st->parts, *dict));
    const char *part = join_dotted_name(w, w->st->part, key);
    if (!part) return w->e->code;
    w->st->part = part;
    snprintf(name, sizeof name, "%.*s", (int)(key->u.text.n < 90 ? key->u.text.n : 90), key->u.text.s);
    VT_TRY(vt_tensors_add_note(w->st, VT_NOTE_CHOSEN, name, why, w->e));
    for (uint32_t i = 0; i < l->n; i += 2)
        if (i != at) VT_TRY(add_entry_note(w, "", l->v[i], l->v[i + 1]));
    *dict = l->v[at + 1];
    return VT_OK;
}

/* Adds to st every tensor below `dict`, names joined to `prefix` by dots, and notes on its other entries; VT_E_FORMAT
 * deeper than MAX_DEPTH, or a tensor or name is refused. */
static vt_status add_tensors(walk *w, vt_node *dict, const char *prefix, int depth) {
    if (depth > MAX_DEPTH)
        return vt_fail(w->e, VT_E_FORMAT, "%s: " VT_NAME ": dictionaries are nested deeper than %d", w->st->path,
                       prefix, MAX_DEPTH);
    for (uint32_t i = 0; i < dict->u.list.n; i += 2) {
        vt_node *key = dict->u.list.v[i], *value = dict->u.list.v[i + 1];
        if (key->kind != VT_NODE_TEXT || !has_tensors(value, depth)) {
            VT_TRY(add_entry_note(w, prefix, key, value));
            continue;
        }
        const char *name = join_dotted_name(w, prefix, key);
        if (!name) return w->e->code;
        VT_TRY(value->kind == VT_NODE_TENSOR ? vt_state_tensor(w->st, name, value->u.tensor, w->from, w->e)
                                             : add_tensors(w, value, name, depth + 1));
    }
    return VT_OK;
}

/* Sets *dict to the entry `want`, by dots to entries within entries (descend_into_entry); a level with one entry alone
 * is looked through. VT_E_UNKNOWN: there is none with tensors. */
static vt_status follow_entry_path(walk *w, vt_node **dict, const char *want) {
    char all[200];
    const char *rest = want, *part = w->st->part;
    const vt_node *level = *dict; /* where the rest is missing, if it is */
    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        size_t n = strlen(rest);
        int64_t at = find_entry(*dict, rest, n);
        while (at < 0 && n)
            if (rest[--n] == '.') at = find_entry(*dict, rest, n);
        bool found = at >= 0;
        if (!found) at = only_entry_with_tensors(*dict);
        if (at < 0) break;
        VT_TRY(descend_into_entry(w, dict, at, found ? "as asked for" : "the only entry with tensors"));
        if (found && !rest[n]) return VT_OK;
        if (found) rest += n + 1, level = *dict, part = w->st->part;
    }
    list_states(level, part, all, sizeof all);
    return vt_fail(w->e, VT_E_UNKNOWN, "%s: has no entry '%.100s' with tensors%s%s", w->st->path, want,
                   *all ? "; there are: " : "", all);
}

const char vt_state_all[] = "*";

/* Adds to st every tensor of a tree of dictionaries, lists and tuples, each looked at once (sets n->seen), names joined
 * to `name` by dots; deeper than MAX_DEPTH nothing. */
static vt_status add_all(walk *w, vt_node *n, const char *name, int depth) {
    bool dict = n->kind == VT_NODE_DICT;
    if (n->kind == VT_NODE_TENSOR) return vt_state_tensor(w->st, name, n->u.tensor, w->from, w->e);
    if ((!dict && n->kind != VT_NODE_LIST && n->kind != VT_NODE_TUPLE) || n->seen || depth > MAX_DEPTH) return VT_OK;
    n->seen = 1;
    for (uint32_t i = 0; i < n->u.list.n; i += dict ? 2 : 1) {
        const vt_node place = {.kind = VT_NODE_INT, .u.i = i};
        vt_node *inner = n->u.list.v[dict ? i + 1 : i];
        const char *full = join_dotted_name(w, name, dict ? n->u.list.v[i] : &place);
        if (!full) return w->e->code;
        VT_TRY(add_all(w, inner, full, depth + 1));
    }
    return VT_OK;
}

vt_status vt_state_add(vt_tensors *st, vt_node *root, const vt_stores *from, const char *want, vt_err *e) {
    walk w = {st, from, e};
    char why[256];
    if (want == vt_state_all) return add_all(&w, root, "", 0);
    if (root->kind != VT_NODE_DICT)
        return vt_fail(e, VT_E_FORMAT, "%s: holds %s, not a state dict", st->path, vt_node_name(root));
    const vt_node *args = vt_node_get(root, "args");
    int64_t at;
    if (args) VT_TRY(keep_timm_args(st, args, e));
    VT_TRY(keep_class_names(st, root, e));
    if (want) VT_TRY(follow_entry_path(&w, &root, want));
    for (int depth = 0; depth < MAX_DEPTH && (at = choose_entry(root, why, sizeof why)) >= 0; depth++)
        VT_TRY(descend_into_entry(&w, &root, at, why));
    bool tensors = false;
    for (uint32_t i = 0; i < root->u.list.n; i += 2) tensors |= root->u.list.v[i + 1]->kind == VT_NODE_TENSOR;
    if (!tensors) VT_TRY(keep_list(&w, &st->inside, root));
    VT_TRY(add_tensors(&w, root, "", 0));
    return st->count ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: holds no tensors under names", st->path);
}
