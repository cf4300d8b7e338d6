/* SPDX-License-Identifier: MIT */
/* Setting keys of a recipe: by one assignment, or by YAML, a map of scalars, lists of them, and maps of these. */
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/text.h"
#include "base/yaml.h"
#include "train/recipe.h"

/* Tells whether the key takes several words with blanks between them. */
static bool takes_words(const vt_opt *o) { return !strcmp(o->key, "forms"); }
/* Tells whether the key takes several numbers. */
static bool takes_list(const vt_opt *o) {
    return o->type == VT_OPT_TRIPLE || !strcmp(o->key, "drops") || !strcmp(o->key, "extra");
}

/* Tells whether it is the name of a section, or "groups". */
static bool is_section(const char *name) {
    vt_recipe_section s;
    return !strcmp(name, "groups") || (*name && vt_recipe_section_named(NULL, name, &s));
}

/* ---- unknown keys ---- */

enum { KEYS_MAX = 256 };

/* Fails with VT_E_UNKNOWN for an unknown key, with all keys of its section. */
static vt_status fail_with_keys(const char *key, const char *where, vt_err *e) {
    char section[VT_RECIPE_KEY_MAX], list[400] = "";
    vt_recipe_section s;
    snprintf(section, sizeof section, "%.*s", (int)strcspn(key, "."), key);
    if (!strchr(key, '.') || !vt_recipe_section_named(NULL, section, &s))
        return vt_fail(e, VT_E_UNKNOWN, "%s: there is no key '%.80s' (see 'vitrine help recipe')", where, key);
    for (const vt_opt *o = s.opts; o && o->key; o++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", *list ? ", " : "", o->key);
    return vt_fail(e, VT_E_UNKNOWN, "%s: there is no key '%.80s'; %s has: %s", where, key, section,
                   *list ? list : "no keys");
}

/* Fails with VT_E_UNKNOWN for an unknown section, with the most similar name. */
static vt_status fail_no_section(const char *name, const char *where, vt_err *e) {
    const char *known[64];
    size_t n = 0;
    vt_recipe_section s;
    for (int i = 0; n < 63 && vt_recipe_section_at(NULL, i, &s); i++) known[n++] = s.name;
    known[n++] = "groups";
    const char *near = vt_nearest(name, known + 1, n - 1); /* the first is the top, which has no name */
    return vt_fail(e, VT_E_UNKNOWN, "%s: there is no section '%.80s'%s%s%s", where, name,
                   near ? "; did you mean '" : " (see 'vitrine help recipe')", near ? near : "", near ? "'?" : "");
}

/* Fails with VT_E_UNKNOWN for an unknown key. Suggests the most similar key of those that end in the same word, or of
 * all. */
static vt_status no_key(const char *key, const char *where, vt_err *e) {
    char text[KEYS_MAX][VT_RECIPE_KEY_MAX];
    const char *all[KEYS_MAX], *same[KEYS_MAX], *dot = strrchr(key, '.');
    size_t n = 0, n_same = 0;
    vt_recipe_section s;
    if (is_section(key))
        return vt_fail(e, VT_E_UNKNOWN, "%s: '%s' is a section, not a key: write %s.KEY", where, key, key);
    for (int i = 0; vt_recipe_section_at(NULL, i, &s); i++)
        for (const vt_opt *o = s.opts; o && o->key && n < KEYS_MAX; o++) {
            if (!vt_recipe_full_key(text[n], s.name, o->key)) continue;
            if (!strcmp(o->key, dot ? dot + 1 : key)) same[n_same++] = text[n];
            all[n] = text[n], n++;
        }
    const char *near = vt_nearest(key, n_same ? same : all, n_same ? n_same : n);
    if (!near && n_same) near = same[0];
    if (!near) return fail_with_keys(key, where, e);
    return vt_fail(e, VT_E_UNKNOWN, "%s: there is no key '%.80s'; did you mean '%s'?", where, key, near);
}

/* ---- setting ---- */

/* Returns the length of the UTF-8 character at p; 0: it is none, or may not stand within one line of YAML. */
static size_t printable_length(const unsigned char *p) {
    bool control = *p < 0x20 || *p == 0x7F || (p[0] == 0xC2 && p[1] < 0xA0);
    bool line_end = p[0] == 0xE2 && p[1] == 0x80 && (p[2] | 1) == 0xA9; /* U+2028, U+2029 */
    bool mark = p[0] == 0xEF && p[1] == 0xBB && p[2] == 0xBF;           /* of byte order */
    return control || line_end || mark ? 0 : *p < 0x80 ? 1 : vt_utf8_sequence(p);
}

/* Fails with VT_E_USAGE for a text with a byte that is not printable UTF-8; `what` ("key", "value") names it. */
static vt_status check_printable(const char *text, const char *key, const char *what, const char *where, vt_err *e) {
    const unsigned char *p = (const unsigned char *)text;
    for (size_t n; *p; p += n)
        if (!(n = printable_length(p)))
            return vt_fail(e, VT_E_USAGE, "%s: %.80s: byte 0x%02x of the %s is not printable UTF-8 text", where, key,
                           *p, what);
    return VT_OK;
}

/* Sets groups.PATTERN to a weight decay, adding the pattern if it is new. VT_E_USAGE: too long, one too many, or no
 * weight decay. */
static vt_status set_group(vt_recipe *r, const char *key, const char *value, const char *where, vt_err *e) {
    const char *pattern = strchr(key, '.') + 1;
    size_t most = sizeof r->groups[0].pattern - 1;
    if (!*pattern || strlen(pattern) > most)
        return vt_fail(e, VT_E_USAGE, "%s: the pattern of %.80s has %zu bytes, must have between 1 and %zu", where, key,
                       strlen(pattern), most);
    int i = 0;
    while (i < r->n_groups && strcmp(r->groups[i].pattern, pattern)) i++;
    if (i == VT_RECIPE_GROUPS)
        return vt_fail(e, VT_E_USAGE, "%s: %s is one pattern too many, groups takes at most %d", where, key,
                       VT_RECIPE_GROUPS);
    double decay;
    const vt_opt one[] = {{key, "", VT_OPT_REAL, 0, 0, 0, 10, NULL, NULL}, VT_OPT_END};
    VT_TRY(vt_opt_set(one, &decay, key, value, where, e));
    snprintf(r->groups[i].pattern, sizeof r->groups[i].pattern, "%s", pattern);
    r->groups[i].weight_decay = decay;
    if (i == r->n_groups) r->n_groups++;
    return VT_OK;
}

/* Sets a full key; where ("file:3", "set") begins the sentence of a refusal. VT_E_UNKNOWN: no such key; VT_E_USAGE: no
 * such value. */
static vt_status set_key(vt_recipe *r, const char *key, const char *value, const char *where, vt_err *e) {
    char squeezed[VT_RECIPE_VALUE_MAX];
    vt_recipe_section s;
    VT_TRY(check_printable(key, key, "key", where, e));
    VT_TRY(check_printable(value, key, "value", where, e));
    if (strlen(value) >= VT_RECIPE_VALUE_MAX)
        return vt_fail(e, VT_E_USAGE, "%s: the value of %.80s has %zu bytes, must have at most %d", where, key,
                       strlen(value), VT_RECIPE_VALUE_MAX - 1);
    if (!strncmp(key, "groups.", 7)) return set_group(r, key, value, where, e);
    const vt_opt *o = vt_recipe_key(r, key, &s);
    if (!o) return no_key(key, where, e);
    if (takes_list(o)) { /* "1, 2, 3" is as good as "1,2,3" */
        size_t n = 0;
        for (const char *p = value; *p; p++)
            if (*p != ' ') squeezed[n++] = *p;
        squeezed[n] = 0;
        value = squeezed;
    }
    vt_opt one[] = {*o, VT_OPT_END};
    one[0].key = key; /* the whole of it, for the sentence */
    return vt_opt_set(one, s.params, key, value, where, e);
}

vt_status vt_recipe_set(vt_recipe *r, const char *assignment, vt_err *e) {
    char key[VT_RECIPE_KEY_MAX];
    size_t n = strcspn(assignment, "=");
    if (!assignment[n] || !n) return vt_fail(e, VT_E_USAGE, "@set '%.80s' is not of the form KEY=VALUE", assignment);
    if (n >= sizeof key)
        return vt_fail(e, VT_E_UNKNOWN, "@set: the key '%.40s...' has %zu bytes, must have at most %zu", assignment, n,
                       sizeof key - 1);
    snprintf(key, sizeof key, "%.*s", (int)n, assignment);
    return set_key(r, key, assignment + n + 1, vt_argument("set"), e);
}

/* ---- YAML ---- */

enum { DEPTH = 4 }; /* one more than a recipe has, to name the key that is nested too deeply */

typedef struct reader {
    vt_recipe *r;
    const vt_yaml_node *root;
    const char *path;
    char where[VT_PATH_MAX + 16];
} reader;

/* Returns "FILE:LINE", with which a refusal begins, in d->where. */
static const char *place(reader *d, int line) {
    snprintf(d->where, sizeof d->where, "%s:%d", d->path, line);
    return d->where;
}

/* Sets a key to a YAML list: its scalars joined with commas, or words with blanks. VT_E_USAGE: the key takes one value,
 * or a place holds none or several; VT_E_FORMAT: nested too deeply. */
static vt_status apply_list(reader *d, const char *key, const vt_yaml_node *list, vt_err *e) {
    char value[VT_RECIPE_VALUE_MAX] = "";
    vt_recipe_section s;
    const vt_opt *o = vt_recipe_key(d->r, key, &s);
    const char *between = o && takes_words(o) ? " " : ",";
    if (o && *between == ',' && !takes_list(o))
        return vt_fail(e, VT_E_USAGE, "%s: %s takes one value, not a list", place(d, list->line), key);
    for (int i = 0; i < list->n; i++) {
        const vt_yaml_node *item = &list->items[i];
        size_t used = strlen(value), room = sizeof value - used;
        if (item->kind != VT_YAML_SCALAR)
            return vt_fail(e, VT_E_FORMAT, "%s: %s is nested too deeply: its list takes plain values",
                           place(d, item->line), key);
        if (!*item->value || strstr(item->value, between))
            return vt_fail(e, VT_E_USAGE, "%s: the list of %s holds '%.80s', must hold one %s in each place",
                           place(d, item->line), key, item->value, *between == ',' ? "number" : "word");
        if ((size_t)snprintf(value + used, room, "%s%s", used ? between : "", item->value) >= room)
            return vt_fail(e, VT_E_USAGE, "%s: the list of %s has more than %zu bytes", place(d, list->line), key,
                           sizeof value - 1);
    }
    return set_key(d->r, key, value, place(d, list->line), e);
}

static vt_status apply_map(reader *d, const char *section, const vt_yaml_node *map, vt_err *e);

/* Applies entry x, of full key `key`, of a recipe's YAML below `section` ("": the top): a value, a list, at the top a
 * section; an empty one sets nothing. VT_E_USAGE: also given flat at the top, or another kind than it takes;
 * VT_E_FORMAT: nested too deeply; VT_E_UNKNOWN: no such key or section. */
static vt_status apply_node(reader *d, const char *section, const char *key, const vt_yaml_node *x, vt_err *e) {
    vt_recipe_section s;
    if (!*section && is_section(key)) {
        if (x->kind == VT_YAML_MAP) return apply_map(d, key, x, e);
        if (x->kind == VT_YAML_SCALAR && !*x->value) return VT_OK; /* "augment:" with all its keys in comments */
        return vt_fail(e, VT_E_USAGE, "%s: %s is a section: its keys stand indented below it, or are written %s.KEY",
                       place(d, x->line), key, key);
    }
    const vt_yaml_node *flat = *section ? vt_yaml_get(d->root, key) : NULL;
    if (flat)
        return vt_fail(e, VT_E_USAGE, "%s: %s is given twice, first in line %d",
                       place(d, x->line > flat->line ? x->line : flat->line), key,
                       x->line > flat->line ? flat->line : x->line);
    if (x->kind == VT_YAML_LIST) return apply_list(d, key, x, e);
    if (x->kind == VT_YAML_SCALAR) return set_key(d->r, key, x->value, place(d, x->line), e);
    if (*section)
        return vt_fail(e, VT_E_FORMAT, "%s: %s is nested too deeply: a recipe has sections and keys, no more",
                       place(d, x->line), key);
    if (vt_recipe_key(d->r, key, &s))
        return vt_fail(e, VT_E_USAGE, "%s: %s takes a value, it is not a section", place(d, x->line), key);
    return fail_no_section(key, place(d, x->line), e);
}

/* Applies all entries of a map, whose keys are below `section` ("": at the top). */
static vt_status apply_map(reader *d, const char *section, const vt_yaml_node *map, vt_err *e) {
    char key[VT_RECIPE_KEY_MAX];
    for (int i = 0; i < map->n; i++) {
        const vt_yaml_node *x = &map->items[i];
        if (!vt_recipe_full_key(key, section, x->key))
            return vt_fail(e, VT_E_USAGE, "%s: a key has %zu bytes, must have at most %d: %.40s...", place(d, x->line),
                           strlen(x->key), VT_RECIPE_KEY_MAX - 1, x->key);
        VT_TRY(apply_node(d, section, key, x, e));
    }
    return VT_OK;
}

vt_status vt_recipe_parse(vt_recipe *r, const char *text, size_t n, const char *path, vt_err *e) {
    vt_yaml_node *root;
    VT_TRY(vt_yaml_tree(&root, text, n, path, "recipe", DEPTH, e));
    vt_status s = apply_map(&(reader){.r = r, .root = root, .path = path}, "", root, e);
    vt_yaml_free(root);
    return s;
}

vt_status vt_recipe_read(vt_recipe *r, const char *path, vt_err *e) {
    char *text;
    size_t n;
    VT_TRY(vt_yaml_file(&text, &n, path, e));
    vt_status s = vt_recipe_parse(r, text, n, path, e);
    free(text);
    return s;
}
