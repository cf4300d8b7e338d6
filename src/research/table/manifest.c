/* SPDX-License-Identifier: MIT */
#include "research/table/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/opt.h"

/* ---- schema ---- */

typedef enum kind { TEXT, NUMBER, WORDS, KEYED, NODE, RECORDS } kind;
typedef struct field {
    const char *key;
    kind kind;
    size_t offset;
} field;

#define AT(type, member) offsetof(type, member)
static const field data_fields[] = {{"path", TEXT, AT(vt_manifest_data, path)},
                                    {"images", TEXT, AT(vt_manifest_data, images)},
                                    {"split", TEXT, AT(vt_manifest_data, split)},
                                    {"published", TEXT, AT(vt_manifest_data, label)},
                                    {"side", NUMBER, AT(vt_manifest_data, side)},
                                    {"classes", NUMBER, AT(vt_manifest_data, classes)},
                                    {"train", NUMBER, AT(vt_manifest_data, train)},
                                    {"test", NUMBER, AT(vt_manifest_data, test)},
                                    {"set", WORDS, AT(vt_manifest_data, set)},
                                    {"options", WORDS, AT(vt_manifest_data, options)},
                                    {NULL, TEXT, 0}};
static const field attack_fields[] =
    {{"spec", TEXT, AT(vt_manifest_attack, spec)},           {"eps", TEXT, AT(vt_manifest_attack, eps)},
     {"norm", TEXT, AT(vt_manifest_attack, norm)},           {"published", TEXT, AT(vt_manifest_attack, label)},
     {"data", WORDS, AT(vt_manifest_attack, data)},          {"images", TEXT, AT(vt_manifest_attack, images)},
     {"seeds", WORDS, AT(vt_manifest_attack, seed_words)},   {"steps", NUMBER, AT(vt_manifest_attack, steps)},
     {"certify", TEXT, AT(vt_manifest_attack, certify)},     {"spectrum", TEXT, AT(vt_manifest_attack, spectrum)},
     {"orderings", TEXT, AT(vt_manifest_attack, orderings)}, {NULL, TEXT, 0}};
static const field row_fields[] = {{"recipe", TEXT, AT(vt_manifest_row, recipe)},
                                   {"checkpoint", TEXT, AT(vt_manifest_row, checkpoint)},
                                   {"init", TEXT, AT(vt_manifest_row, init)},
                                   {"weights", TEXT, AT(vt_manifest_row, weights)},
                                   {"group", TEXT, AT(vt_manifest_row, group)},
                                   {"curve", TEXT, AT(vt_manifest_row, curve)},
                                   {"set", WORDS, AT(vt_manifest_row, set)},
                                   {"set_for", NODE, AT(vt_manifest_row, set_for)},
                                   {"options", WORDS, AT(vt_manifest_row, options)},
                                   {"init_options", WORDS, AT(vt_manifest_row, init_options)},
                                   {"attacks", WORDS, AT(vt_manifest_row, attacks)},
                                   {"data", WORDS, AT(vt_manifest_row, data)},
                                   {"seeds", WORDS, AT(vt_manifest_row, seed_words)},
                                   {"published", KEYED, AT(vt_manifest_row, published)},
                                   {NULL, TEXT, 0}};
static const field primary_fields[] = {{"above", TEXT, AT(vt_manifest_primary, above_name)},
                                       {"below", TEXT, AT(vt_manifest_primary, below_name)},
                                       {"frontier", WORDS, AT(vt_manifest_primary, frontier_names)},
                                       {"at", TEXT, AT(vt_manifest_primary, at_name)},
                                       {"column", TEXT, AT(vt_manifest_primary, column_name)},
                                       {"data", TEXT, AT(vt_manifest_primary, data_name)},
                                       {NULL, TEXT, 0}};
static const field figure_fields[] = {{"x", TEXT, AT(vt_manifest_figure, x_name)},
                                      {"y", TEXT, AT(vt_manifest_figure, y_name)},
                                      {"data", TEXT, AT(vt_manifest_figure, data_name)},
                                      {NULL, TEXT, 0}};
static const field calibration_fields[] = {{"rows", WORDS, AT(vt_manifest_calibration, row_names)},
                                           {"points", KEYED, AT(vt_manifest_calibration, points)},
                                           {"column", TEXT, AT(vt_manifest_calibration, column_name)},
                                           {"data", TEXT, AT(vt_manifest_calibration, data_name)},
                                           {NULL, TEXT, 0}};
static const field top_fields[] = {{"name", TEXT, AT(vt_manifest, name)},
                                   {"title", TEXT, AT(vt_manifest, title)},
                                   {"table", TEXT, AT(vt_manifest, table)},
                                   {"published", TEXT, AT(vt_manifest, published_file)},
                                   {"claims", TEXT, AT(vt_manifest, claims_file)},
                                   {"match", KEYED, AT(vt_manifest, match)},
                                   {"subject", WORDS, AT(vt_manifest, subjects)},
                                   {"orderings", WORDS, AT(vt_manifest, orderings)},
                                   {"notes", WORDS, AT(vt_manifest, notes)},
                                   {"comparable", WORDS, AT(vt_manifest, comparable)},
                                   {"sources", KEYED, AT(vt_manifest, sources)},
                                   {"seeds", WORDS, AT(vt_manifest, seed_words)},
                                   {"data", RECORDS, 0},
                                   {"attacks", RECORDS, 1},
                                   {"rows", RECORDS, 2},
                                   {"primary", RECORDS, 3},
                                   {"figures", RECORDS, 4},
                                   {"calibrations", RECORDS, 5},
                                   {NULL, TEXT, 0}};

#define LIST(key, fields, type, member)                                                                                \
    { key, fields, sizeof(type), AT(vt_manifest, member), AT(vt_manifest, n_##member) }
static const struct {
    const char *name;
    const field *fields;
    size_t size, list, count; /* of an item; where vt_manifest has the list, and its length */
} records[] = {LIST("data", data_fields, vt_manifest_data, data),
               LIST("attacks", attack_fields, vt_manifest_attack, attacks),
               LIST("rows", row_fields, vt_manifest_row, rows),
               LIST("primary", primary_fields, vt_manifest_primary, primary),
               LIST("figures", figure_fields, vt_manifest_figure, figures),
               LIST("calibrations", calibration_fields, vt_manifest_calibration, calibrations)};

/* ---- reading by the schema ---- */

vt_status vt_manifest_no_memory(const vt_manifest *m, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory", m->path);
}

/* VT_E_USAGE with the manifest's path, the node's line and key, and `what` is wrong. */
static vt_status fail_at_node(const vt_manifest *m, const vt_yaml_node *x, const char *what, vt_err *e) {
    return vt_fail(e, VT_E_USAGE, "%s:%d: %s %s", m->path, x->line, x->key ? x->key : "this", what);
}

vt_status vt_manifest_words(const vt_manifest *m, vt_words *w, const vt_yaml_node *x, vt_err *e) {
    int n = x->kind == VT_YAML_LIST ? x->n : 1;
    const vt_yaml_node *items = x->kind == VT_YAML_LIST ? x->items : x;
    if (x->kind == VT_YAML_MAP) return fail_at_node(m, x, "takes a word or a list of words", e);
    w->word = calloc((size_t)n + 1, sizeof *w->word);
    if (!w->word) return vt_manifest_no_memory(m, e);
    for (int i = 0; i < n; i++) {
        if (items[i].kind != VT_YAML_SCALAR || !*items[i].value) return fail_at_node(m, x, "must hold plain words", e);
        w->word[w->n++] = items[i].value;
    }
    return VT_OK;
}

/* Sets k to the KEY: VALUE lines of a map; VT_E_USAGE: x is none, or a value is itself a list or map. */
static vt_status read_keyed(const vt_manifest *m, vt_keyed *k, const vt_yaml_node *x, vt_err *e) {
    if (x->kind != VT_YAML_MAP) return fail_at_node(m, x, "takes lines of the form KEY: VALUE", e);
    k->pair = calloc((size_t)x->n + 1, sizeof *k->pair);
    if (!k->pair) return vt_manifest_no_memory(m, e);
    for (int i = 0; i < x->n; i++) {
        if (x->items[i].kind != VT_YAML_SCALAR) return fail_at_node(m, &x->items[i], "takes one value", e);
        k->pair[k->n].key = x->items[i].key;
        k->pair[k->n++].value = x->items[i].value;
    }
    return VT_OK;
}

/* Sets *out to the node's whole number; VT_E_USAGE unless it is one from 1 to 2^31 - 1. */
static vt_status read_number(const vt_manifest *m, int64_t *out, const vt_yaml_node *x, vt_err *e) {
    long long v;
    if (x->kind != VT_YAML_SCALAR || !vt_parse_int(x->value, &v) || v < 1 || v > INT32_MAX)
        return fail_at_node(m, x, "must be a whole number from 1", e);
    *out = v;
    return VT_OK;
}

/* The schema's field of that key; NULL: none. */
static const field *find_field(const field *fields, const char *key) {
    for (; fields->key; fields++)
        if (!strcmp(fields->key, key)) return fields;
    return NULL;
}

/* VT_E_USAGE for a key that `of` does not have, with the nearest one. */
static vt_status fail_unknown_key(const vt_manifest *m, const field *fields, const vt_yaml_node *x, const char *of,
                                  vt_err *e) {
    const char *names[32];
    size_t n = 0;
    for (; fields[n].key && n < 32; n++) names[n] = fields[n].key;
    const char *near = vt_nearest(x->key, names, n);
    return vt_fail(e, VT_E_USAGE, "%s:%d: unknown key '%.60s' of %.60s%s%s%s", m->path, x->line, x->key, of,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static vt_status read_record(vt_manifest *m, const field *fields, void *to, const vt_yaml_node *x, vt_err *e);

/* Reads a map of named records into m's list `which`; VT_E_USAGE if it is none, or for more than 512. */
static vt_status read_records(vt_manifest *m, int which, const vt_yaml_node *x, vt_err *e) {
    if (x->kind != VT_YAML_MAP || !x->n)
        return fail_at_node(m, x, "takes names, each with its keys indented below it", e);
    if (x->n > VT_MANIFEST_MOST) return fail_at_node(m, x, "holds more than 512 names", e);
    char *items = calloc((size_t)x->n, records[which].size);
    if (!items) return vt_manifest_no_memory(m, e);
    memcpy((char *)m + records[which].list, &items, sizeof items); /* as a pointer to its own type */
    int *n = (int *)(void *)((char *)m + records[which].count);
    for (int i = 0; i < x->n; i++) {
        void *to = items + (size_t)i * records[which].size;
        *n = i + 1;
        *(const char **)to = x->items[i].key; /* name comes first in each */
        bool empty = x->items[i].kind == VT_YAML_SCALAR && !*x->items[i].value;
        if (!empty && x->items[i].kind != VT_YAML_MAP)
            return fail_at_node(m, &x->items[i], "takes keys indented below it", e);
        if (strlen(x->items[i].key) > 60) return fail_at_node(m, &x->items[i], "is longer than 60 bytes", e);
        if (!empty) VT_TRY(read_record(m, records[which].fields, to, &x->items[i], e));
    }
    return VT_OK;
}

/* Reads a map's keys by their fields into the struct `to`; VT_E_USAGE for unknown keys and wrong values. */
static vt_status read_record(vt_manifest *m, const field *fields, void *to, const vt_yaml_node *x, vt_err *e) {
    for (int i = 0; i < x->n; i++) {
        const vt_yaml_node *v = &x->items[i];
        const field *f = find_field(fields, v->key);
        if (!f) return fail_unknown_key(m, fields, v, x->key ? x->key : "a manifest", e);
        void *at = (char *)to + f->offset;
        if (f->kind == TEXT) {
            if (v->kind != VT_YAML_SCALAR || !*v->value) return fail_at_node(m, v, "takes one value", e);
            *(const char **)at = v->value;
        }
        if (f->kind == NUMBER) VT_TRY(read_number(m, at, v, e));
        if (f->kind == WORDS) VT_TRY(vt_manifest_words(m, at, v, e));
        if (f->kind == KEYED) VT_TRY(read_keyed(m, at, v, e));
        if (f->kind == NODE) *(const vt_yaml_node **)at = v;
        if (f->kind == RECORDS) VT_TRY(read_records(m, (int)f->offset, v, e));
    }
    return VT_OK;
}

void vt_manifest_close(vt_manifest *m) {
    if (!m) return;
    for (int i = 0; i < m->n_rows; i++) {
        vt_manifest_row *r = &m->rows[i];
        free(r->set.word), free(r->options.word), free(r->init_options.word), free(r->attacks.word), free(r->data.word);
        free(r->seed_words.word), free(r->seeds), free(r->published.pair);
    }
    for (int i = 0; i < m->n_attacks; i++) free(m->attacks[i].data.word), free(m->attacks[i].seed_words.word);
    for (int i = 0; i < m->n_primary; i++) free(m->primary[i].frontier_names.word), free(m->primary[i].rows);
    for (int i = 0; i < m->n_calibrations; i++)
        free(m->calibrations[i].row_names.word), free(m->calibrations[i].points.pair), free(m->calibrations[i].rows);
    for (int i = 0; i < m->n_data; i++) free(m->data[i].set.word), free(m->data[i].options.word);
    for (int i = 0; i < m->n_joined; i++) free(m->joined[i]);
    free(m->joined), free(m->rows), free(m->attacks), free(m->data), free(m->primary), free(m->figures),
        free(m->calibrations), free(m->comparable.word), free(m->match.pair), free(m->sources.pair);
    free(m->seed_words.word), free(m->orderings.word), free(m->notes.word), free(m->subjects.word);
    vt_yaml_free(m->tree);
    free(m->path), free(m->dir);
    free(m);
}

vt_status vt_manifest_parse(vt_manifest **out, const char *text, size_t n, const char *path, vt_err *e) {
    vt_err why = {0};
    *out = NULL;
    vt_manifest *m = calloc(1, sizeof *m);
    const char *slash = strrchr(path, '/');
    if (m)
        m->path = strdup(path), m->dir = slash ? strndup(path, (size_t)(slash - path) + (slash == path)) : strdup(".");
    if (!m || !m->path || !m->dir) {
        vt_manifest_close(m);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    }
    vt_status s = vt_yaml_tree(&m->tree, text, n, path, "manifest", 5, &why);
    if (s == VT_OK) s = read_record(m, top_fields, m, m->tree, &why);
    if (s == VT_OK) s = vt_manifest_check(m, &why);
    if (s == VT_OK) {
        *out = m;
        return VT_OK;
    }
    vt_manifest_close(m); /* a manifest is a way to use vitrine: what is wrong with it is wrong usage */
    return vt_fail(e, s == VT_E_MEMORY ? s : VT_E_USAGE, "%s", why.text);
}

vt_status vt_manifest_open(vt_manifest **out, const char *path, vt_err *e) {
    char *text;
    size_t n;
    vt_err why = {0};
    *out = NULL;
    vt_status s = vt_yaml_file(&text, &n, path, &why);
    if (s != VT_OK) return vt_fail(e, s == VT_E_MEMORY ? s : VT_E_USAGE, "%s", why.text);
    s = vt_manifest_parse(out, text, n, path, e);
    free(text);
    return s;
}
