/* SPDX-License-Identifier: MIT */
/* Recipes from YAML, of which one mapping of scalars, or of mappings of scalars, is accepted. */
#include <stdlib.h>
#include <string.h>
#include "core/yaml.h"
#include "train/recipe_keys.h"

enum { SEEN_MAX = 512 };

typedef struct reader {
    vt_recipe *r;
    vt_yaml y;
    int n_seen;
    struct {
        char key[VT_RECIPE_KEY_MAX];
        int line;
    } seen[SEEN_MAX];
} reader;

static vt_status register_key_once(reader *d, const char *key, int line) {
    for (int i = 0; i < d->n_seen; i++)
        if (!strcmp(d->seen[i].key, key))
            return vt_yaml_refuse(&d->y, line, VT_E_USAGE, "%s is given twice, first in line %d", key, d->seen[i].line);
    if (d->n_seen == SEEN_MAX)
        return vt_yaml_refuse(&d->y, line, VT_E_USAGE, "%s is one key too many, a recipe takes at most %d", key,
                              SEEN_MAX);
    snprintf(d->seen[d->n_seen].key, VT_RECIPE_KEY_MAX, "%s", key);
    d->seen[d->n_seen++].line = line;
    return VT_OK;
}

static vt_status apply_setting(reader *d, const char *key, const char *value, int line) {
    char where[240];
    snprintf(where, sizeof where, "%s:%d", d->y.path, line);
    return vt_recipe_apply(d->r, key, value, where, d->y.e);
}

/* A sequence of scalars, joined with commas, or words with blanks. */
static vt_status read_list(reader *d, const char *key, int line) {
    char value[VT_RECIPE_VALUE_MAX] = "", item[VT_RECIPE_VALUE_MAX];
    vt_recipe_section s;
    const vt_opt *o = vt_recipe_key(d->r, key, &s);
    const char between = o && vt_recipe_takes_words(o) ? ' ' : ',';
    if (o && between == ',' && !vt_recipe_takes_list(o))
        return vt_yaml_refuse(&d->y, line, VT_E_USAGE, "%s takes one value, not a list", key);
    for (;;) {
        VT_TRY(vt_yaml_next(&d->y));
        if (d->y.event.type == YAML_SEQUENCE_END_EVENT) return apply_setting(d, key, value, line);
        if (d->y.event.type != YAML_SCALAR_EVENT)
            return vt_yaml_refuse(&d->y, vt_yaml_line(&d->y), VT_E_FORMAT,
                                  "%s is nested too deeply: its list takes plain values", key);
        VT_TRY(vt_yaml_scalar(&d->y, key, item, sizeof item));
        size_t used = strlen(value), n = strlen(item);
        if (!n || strchr(item, between))
            return vt_yaml_refuse(&d->y, vt_yaml_line(&d->y), VT_E_USAGE,
                                  "the list of %s holds '%s', must hold one %s in each place", key, item,
                                  between == ',' ? "number" : "word");
        if (used + n + 2 > sizeof value)
            return vt_yaml_refuse(&d->y, line, VT_E_USAGE, "the list of %s has more than %zu bytes", key,
                                  sizeof value - 1);
        if (used) value[used++] = between;
        memcpy(value + used, item, n + 1);
    }
}

static vt_status read_mapping(reader *d, const char *section);

/* What follows a section's name at the top. */
static vt_status section_body(reader *d, const char *name, int line) {
    if (d->y.event.type == YAML_MAPPING_START_EVENT) return read_mapping(d, name);
    /* "augment:" with all its keys in comments */
    if (d->y.event.type == YAML_SCALAR_EVENT && !d->y.event.data.scalar.length) return VT_OK;
    return vt_yaml_refuse(&d->y, line, VT_E_USAGE,
                          "%s is a section: its keys stand indented below it, or are written %s.KEY", name, name);
}

static vt_status value_of(reader *d, const char *key, bool deep, int line) {
    char value[VT_RECIPE_VALUE_MAX], where[240];
    vt_recipe_section s;
    if (!deep && (!strcmp(key, "groups") || (*key && vt_recipe_section_named(d->r, key, &s))))
        return section_body(d, key, line);
    if (d->y.event.type == YAML_SEQUENCE_START_EVENT) return read_list(d, key, line);
    if (d->y.event.type == YAML_SCALAR_EVENT) {
        VT_TRY(vt_yaml_scalar(&d->y, key, value, sizeof value));
        return apply_setting(d, key, value, line);
    }
    if (deep)
        return vt_yaml_refuse(&d->y, line, VT_E_FORMAT,
                              "%s is nested too deeply: a recipe has sections and keys, no more", key);
    if (vt_recipe_key(d->r, key, &s))
        return vt_yaml_refuse(&d->y, line, VT_E_USAGE, "%s takes a value, it is not a section", key);
    snprintf(where, sizeof where, "%s:%d", d->y.path, line);
    return vt_recipe_no_section(key, where, d->y.e);
}

/* Keys and values up to the end of the mapping that has begun. */
static vt_status read_mapping(reader *d, const char *section) {
    char key[VT_RECIPE_KEY_MAX], full[VT_RECIPE_KEY_MAX];
    for (;;) {
        VT_TRY(vt_yaml_next(&d->y));
        if (d->y.event.type == YAML_MAPPING_END_EVENT) return VT_OK;
        int line = vt_yaml_line(&d->y);
        if (d->y.event.type != YAML_SCALAR_EVENT)
            return vt_yaml_refuse(&d->y, line, VT_E_FORMAT, "a key must be a word, not a list or mapping");
        VT_TRY(vt_yaml_scalar(&d->y, "a key", key, sizeof key));
        if (!vt_recipe_full_key(full, section, key))
            return vt_yaml_refuse(&d->y, line, VT_E_UNKNOWN, "the key %s of %s has more than %d bytes", key, section,
                                  VT_RECIPE_KEY_MAX - 1);
        VT_TRY(register_key_once(d, full, line));
        VT_TRY(vt_yaml_next(&d->y));
        VT_TRY(value_of(d, full, *section != 0, line));
    }
}

static vt_status read_document(reader *d) {
    VT_TRY(vt_yaml_next(&d->y)); /* the stream's start */
    VT_TRY(vt_yaml_next(&d->y));
    if (d->y.event.type == YAML_STREAM_END_EVENT) return VT_OK; /* nothing set */
    const yaml_event_t *v = &d->y.event;
    if (v->data.document_start.tag_directives.start != v->data.document_start.tag_directives.end)
        return vt_yaml_refuse(&d->y, vt_yaml_line(&d->y), VT_E_FORMAT, "a recipe takes no tags (%%TAG)");
    VT_TRY(vt_yaml_next(&d->y));
    if (v->type == YAML_MAPPING_START_EVENT)
        VT_TRY(read_mapping(d, ""));
    else if (v->type != YAML_SCALAR_EVENT || v->data.scalar.length)
        return vt_yaml_refuse(&d->y, vt_yaml_line(&d->y), VT_E_FORMAT, "a recipe must be lines of the form KEY: VALUE");
    VT_TRY(vt_yaml_next(&d->y)); /* the document's end */
    VT_TRY(vt_yaml_next(&d->y));
    if (v->type == YAML_STREAM_END_EVENT) return VT_OK;
    return vt_yaml_refuse(&d->y, vt_yaml_line(&d->y), VT_E_FORMAT, "a second document begins, a recipe is one");
}

vt_status vt_recipe_parse(vt_recipe *r, const char *text, size_t n, const char *path, vt_err *e) {
    reader *d = calloc(1, sizeof *d);
    if (!d) return vt_fail(e, VT_E_MEMORY, "%.200s: no memory", path);
    d->r = r;
    vt_status s = vt_yaml_open(&d->y, text, n, path, "recipe", e);
    if (s == VT_OK) {
        s = read_document(d);
        vt_yaml_close(&d->y);
    }
    free(d);
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
