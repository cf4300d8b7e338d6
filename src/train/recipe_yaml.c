/* SPDX-License-Identifier: MIT */
/* Recipes from YAML: one map of scalars, or of maps of scalars; several numbers or words may be a list. */
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/yaml.h"
#include "train/recipe.h"

enum { DEPTH = 4 }; /* one more than a recipe has, to name the key that is nested too deeply */

typedef struct reader {
    vt_recipe *r;
    const vt_yaml_node *root;
    const char *path;
    char where[VT_PATH_MAX + 16];
} reader;

/* "FILE:LINE", with which a refusal begins. */
static const char *place(reader *d, int line) {
    snprintf(d->where, sizeof d->where, "%s:%d", d->path, line);
    return d->where;
}

/* Scalars joined with commas, or words with blanks. */
static vt_status apply_list(reader *d, const char *key, const vt_yaml_node *list, vt_err *e) {
    char value[VT_RECIPE_VALUE_MAX] = "";
    vt_recipe_section s;
    const vt_opt *o = vt_recipe_key(d->r, key, &s);
    const char *between = o && vt_recipe_takes_words(o) ? " " : ",";
    if (o && *between == ',' && !vt_recipe_takes_list(o))
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
    return vt_recipe_apply(d->r, key, value, place(d, list->line), e);
}

static vt_status apply_map(reader *d, const char *section, const vt_yaml_node *map, vt_err *e);

static vt_status apply_node(reader *d, const char *section, const char *key, const vt_yaml_node *x, vt_err *e) {
    vt_recipe_section s;
    if (!*section && vt_recipe_is_section(key)) {
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
    if (x->kind == VT_YAML_SCALAR) return vt_recipe_apply(d->r, key, x->value, place(d, x->line), e);
    if (*section)
        return vt_fail(e, VT_E_FORMAT, "%s: %s is nested too deeply: a recipe has sections and keys, no more",
                       place(d, x->line), key);
    if (vt_recipe_key(d->r, key, &s))
        return vt_fail(e, VT_E_USAGE, "%s: %s takes a value, it is not a section", place(d, x->line), key);
    return vt_recipe_no_section(key, place(d, x->line), e);
}

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
