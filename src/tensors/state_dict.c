/* SPDX-License-Identifier: MIT */
/* Which part of what torch.save wrote is the state dict, and what to say of the rest (docs/formats.md). */
#include "tensors/pickle.h"

#include <stdio.h>
#include <string.h>
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

/* Is there a tensor in it, under names? An optimiser's state does not count. */
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

static bool is_state(vt_node *n) { return n && n->kind == VT_NODE_DICT && has_tensors(n, 0); }

/* ---- notes ---- */

static bool is_scalar(const vt_node *n) { return n->kind <= VT_NODE_TEXT; }

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

/* "prefix.key" of a text or whole-number key. */
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

/* A note on an entry that is no part of the state dict. */
static vt_status add_entry_note(walk *w, const char *prefix, const vt_node *key, vt_node *n) {
    char value[256];
    const char *name = join_dotted_name(w, prefix, key);
    if (!name) return w->e->code;
    if (is_scalar(n)) {
        format_scalar(n, value, sizeof value);
        return vt_tensors_add_note(w->st, VT_NOTE_VALUE, name, value, w->e);
    }
    const vt_node *args = n->kind == VT_NODE_OPAQUE || vt_node_is(key, "args") ? vt_state_args(n) : NULL;
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

/* "a, b, c": the entries of a dictionary that hold tensors, each after `prefix` and a dot. Returns how many. */
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

/* The place of the entry with tensors whose key is the first n characters of a name; of two equal keys the later one
 * counts. -1: none. */
static int64_t find_entry(const vt_node *dict, const char *name, size_t n) {
    int64_t hit = -1;
    for (uint32_t i = 0; i < dict->u.list.n; i += 2) {
        const vt_node *k = dict->u.list.v[i];
        bool same = k->kind == VT_NODE_TEXT && k->u.text.n == n && !memcmp(k->u.text.s, name, n);
        if (same && is_state(dict->u.list.v[i + 1])) hit = i;
    }
    return hit;
}

/* The place of the one entry that holds tensors; -1: there are several, or tensors beside it. */
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

/* The entry of `dict` to go on with; -1: dict is the state dict itself. why: for the note. */
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

/* Keeps the list of a dictionary's state dicts, if there are several; the first that is kept counts. */
static vt_status keep_list(walk *w, const char **list, const vt_node *dict) {
    char all[200];
    if (**list || list_states(dict, w->st->part, all, sizeof all) < 2) return VT_OK;
    const char *text = vt_tensors_text(w->st, w->e, "%s", all);
    if (text) *list = text;
    return text ? VT_OK : w->e->code;
}

/* Goes on with the value of entry `at`, whose name joins st->part, and notes the others. */
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

/* Goes to the entry `want`, or by dots to entries within entries; what holds nothing else is looked through. */
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

/* Every tensor of a tree of dictionaries, lists and tuples, each of which is looked at once. */
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
    if (args) VT_TRY(vt_timm_args(st, args, e));
    VT_TRY(vt_pickled_names(st, root, e));
    if (want) VT_TRY(follow_entry_path(&w, &root, want));
    for (int depth = 0; depth < MAX_DEPTH && (at = choose_entry(root, why, sizeof why)) >= 0; depth++)
        VT_TRY(descend_into_entry(&w, &root, at, why));
    bool tensors = false;
    for (uint32_t i = 0; i < root->u.list.n; i += 2) tensors |= root->u.list.v[i + 1]->kind == VT_NODE_TENSOR;
    if (!tensors) VT_TRY(keep_list(&w, &st->inside, root));
    VT_TRY(add_tensors(&w, root, "", 0));
    return st->count ? VT_OK : vt_fail(e, VT_E_FORMAT, "%s: holds no tensors under names", st->path);
}
