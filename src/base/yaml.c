/* SPDX-License-Identifier: MIT */
#include "base/yaml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>
#include "base/files.h"
#include "base/mem.h"

enum { FILE_MAX = 1 << 20, SCALAR_MAX = 4095, MAP_MOST = 10000 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    const char *text;
    size_t n;
    const char *noun; /* "recipe", for sentences */
    char path[200];   /* the end of it */
    vt_err *e;
} reader;

/* Fails with s and "PATH:LINE: ...". */
__attribute__((format(printf, 4, 5))) static vt_status refuse_line(reader *y, int line, vt_status s, const char *format,
                                                                   ...) {
    char what[500];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    return vt_fail(y->e, s, "%s:%d: %s", y->path, line, what);
}

static vt_status fail_memory(reader *y) { return vt_fail(y->e, VT_E_MEMORY, "%s: no memory", y->path); }

/* Returns the line of the current event, from 1 on. */
static int line_of(const reader *y) { return (int)y->event.start_mark.line + 1; }

/* Fails with the parser's error: VT_E_MEMORY or VT_E_FORMAT. */
static vt_status fail_parse(reader *y) {
    const yaml_parser_t *p = &y->parser;
    if (p->error == YAML_MEMORY_ERROR) return fail_memory(y);
    int line = (int)p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* has an offset only */
        line = 1;
        for (size_t i = 0; i < p->problem_offset && i < y->n; i++) line += y->text[i] == '\n';
    }
    return refuse_line(y, line, VT_E_FORMAT, "not YAML: %s%s%s%s", p->problem ? p->problem : "unknown problem",
                       p->context ? " (" : "", p->context ? p->context : "", p->context ? ")" : "");
}

/* Replaces y->event by the next one; VT_E_FORMAT: no YAML, or an alias, anchor or tag. */
static vt_status next_event(reader *y) {
    yaml_event_delete(&y->event);
    if (!yaml_parser_parse(&y->parser, &y->event)) return fail_parse(y);
    const yaml_event_t *v = &y->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    int line = line_of(y);
    if (v->type == YAML_ALIAS_EVENT) return refuse_line(y, line, VT_E_FORMAT, "a %s takes no aliases (*name)", y->noun);
    if (v->type == YAML_SCALAR_EVENT) anchor = v->data.scalar.anchor, tag = v->data.scalar.tag;
    if (v->type == YAML_SEQUENCE_START_EVENT) anchor = v->data.sequence_start.anchor, tag = v->data.sequence_start.tag;
    if (v->type == YAML_MAPPING_START_EVENT) anchor = v->data.mapping_start.anchor, tag = v->data.mapping_start.tag;
    if (anchor)
        return refuse_line(y, line, VT_E_FORMAT, "a %s takes no anchors (&%.40s)", y->noun, (const char *)anchor);
    if (tag) return refuse_line(y, line, VT_E_FORMAT, "a %s takes no tags (%.80s)", y->noun, (const char *)tag);
    return VT_OK;
}

/* Starts the parser on a text of at most FILE_MAX bytes; noun: what sentences call the document. */
static vt_status open_parser(reader *y, const char *text, size_t n, const char *path, const char *noun, vt_err *e) {
    *y = (reader){.noun = noun, .e = e};
    if (n > FILE_MAX)
        return vt_fail(e, VT_E_FORMAT, "%.200s: larger than %d bytes, which no %s is", path, FILE_MAX, noun);
    if (!yaml_parser_initialize(&y->parser)) return vt_fail(e, VT_E_MEMORY, "%.200s: no memory", path);
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3; /* libyaml takes a byte order mark for a word */
    size_t len = strlen(path), most = sizeof y->path - 1;
    snprintf(y->path, sizeof y->path, "%s%s", len > most ? "..." : "", path + (len > most ? len - most + 3 : 0));
    y->text = text, y->n = n;
    yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&y->parser, (const unsigned char *)text, n);
    return VT_OK;
}

vt_status vt_yaml_file(char **text, size_t *n, const char *path, vt_err *e) {
    return vt_file_read(path, FILE_MAX, text, n, e);
}

/* ---- trees ---- */

/* Frees what a node holds, and its children. */
static void clear_node(vt_yaml_node *x) {
    for (int i = 0; i < x->n; i++) clear_node(&x->items[i]);
    free(x->items), free(x->key), free(x->value);
    *x = (vt_yaml_node){0};
}

void vt_yaml_free(vt_yaml_node *root) {
    if (root) clear_node(root);
    free(root);
}

const vt_yaml_node *vt_yaml_get(const vt_yaml_node *map, const char *key) {
    for (int i = 0; i < map->n; i++)
        if (map->items[i].key && !strcmp(map->items[i].key, key)) return &map->items[i];
    return NULL;
}

/* Sets *out to a copy of the current event's scalar; VT_E_USAGE: longer than SCALAR_MAX, or with a NUL. what: its
 * name. */
static vt_status copy_scalar(reader *y, const char *what, char **out) {
    const char *text = (const char *)y->event.data.scalar.value;
    size_t n = y->event.data.scalar.length;
    if (n > SCALAR_MAX)
        return refuse_line(y, line_of(y), VT_E_USAGE, "%s has %zu bytes, must have at most %d: %.40s...", what, n,
                           SCALAR_MAX, text);
    if (memchr(text, 0, n)) return refuse_line(y, line_of(y), VT_E_USAGE, "%s holds a NUL character", what);
    *out = strdup(text);
    return *out ? VT_OK : fail_memory(y);
}

/* Appends an empty node with the current event's line to a list or map; *child: it, until the next one is appended. */
static vt_status add_child(reader *y, vt_yaml_node *to, vt_yaml_node **child) {
    if (!vt_grow(&to->items, (size_t)to->n, sizeof *to->items)) return fail_memory(y);
    *child = &to->items[to->n++];
    **child = (vt_yaml_node){.line = line_of(y)};
    return VT_OK;
}

static vt_status read_value(reader *y, vt_yaml_node *x, int depth);

/* Reads a list's items, up to its end, into x; depth: levels that each item may have. */
static vt_status read_list(reader *y, vt_yaml_node *x, int depth) {
    vt_yaml_node *child = NULL;
    for (x->kind = VT_YAML_LIST;;) {
        VT_TRY(next_event(y));
        if (y->event.type == YAML_SEQUENCE_END_EVENT) return VT_OK;
        VT_TRY(add_child(y, x, &child));
        VT_TRY(read_value(y, child, depth));
    }
}

/* Reads a map, whose start is the current event, up to its end into x; depth: levels that it may still have. Each key
 * is looked for among those before it: MAP_MOST bounds that. */
static vt_status read_map(reader *y, vt_yaml_node *x, int depth) {
    vt_yaml_node *child = NULL;
    for (x->kind = VT_YAML_MAP;;) {
        VT_TRY(next_event(y));
        if (y->event.type == YAML_MAPPING_END_EVENT) return VT_OK;
        if (y->event.type != YAML_SCALAR_EVENT)
            return refuse_line(y, line_of(y), VT_E_FORMAT, "a key must be a word, not a list or mapping");
        if (x->n == MAP_MOST)
            return refuse_line(y, line_of(y), VT_E_FORMAT, "a mapping has more than %d keys", MAP_MOST);
        VT_TRY(add_child(y, x, &child));
        VT_TRY(copy_scalar(y, "a key", &child->key));
        const vt_yaml_node *first = vt_yaml_get(x, child->key);
        if (first != child)
            return refuse_line(y, child->line, VT_E_USAGE, "%.80s is given twice, first in line %d", child->key,
                               first->line);
        VT_TRY(next_event(y));
        VT_TRY(read_value(y, child, depth));
    }
}

/* Reads into x, whose key stays, what the current event begins; VT_E_FORMAT if it has more than `depth` levels. */
static vt_status read_value(reader *y, vt_yaml_node *x, int depth) {
    if (y->event.type == YAML_SCALAR_EVENT) {
        x->kind = VT_YAML_SCALAR;
        return copy_scalar(y, x->key ? x->key : "a value", &x->value);
    }
    if (depth <= 1)
        return refuse_line(y, line_of(y), VT_E_FORMAT, "%s is nested too deeply", x->key ? x->key : "a value");
    return y->event.type == YAML_SEQUENCE_START_EVENT ? read_list(y, x, depth - 1) : read_map(y, x, depth - 1);
}

/* Reads the one document of the stream, a map or nothing, into root; VT_E_FORMAT: anything else, or a second one. */
static vt_status read_document(reader *y, vt_yaml_node *root, int depth) {
    const yaml_event_t *v = &y->event;
    root->kind = VT_YAML_MAP;
    VT_TRY(next_event(y)); /* the stream's start */
    VT_TRY(next_event(y));
    if (v->type == YAML_STREAM_END_EVENT) return VT_OK;
    if (v->data.document_start.tag_directives.start != v->data.document_start.tag_directives.end)
        return refuse_line(y, line_of(y), VT_E_FORMAT, "a %s takes no tags (%%TAG)", y->noun);
    VT_TRY(next_event(y));
    if (v->type == YAML_MAPPING_START_EVENT)
        VT_TRY(read_map(y, root, depth));
    else if (v->type != YAML_SCALAR_EVENT || v->data.scalar.length)
        return refuse_line(y, line_of(y), VT_E_FORMAT, "a %s must be lines of the form KEY: VALUE", y->noun);
    VT_TRY(next_event(y)); /* the document's end */
    VT_TRY(next_event(y));
    if (v->type == YAML_STREAM_END_EVENT) return VT_OK;
    return refuse_line(y, line_of(y), VT_E_FORMAT, "a second document begins, a %s is one", y->noun);
}

vt_status vt_yaml_tree(vt_yaml_node **out, const char *text, size_t n, const char *path, const char *noun, int depth,
                       vt_err *e) {
    reader y;
    *out = NULL;
    vt_yaml_node *root = calloc(1, sizeof *root);
    if (!root) return vt_fail(e, VT_E_MEMORY, "%.200s: no memory", path);
    vt_status s = open_parser(&y, text, n, path, noun, e);
    if (s == VT_OK) {
        s = read_document(&y, root, depth);
        yaml_event_delete(&y.event);
        yaml_parser_delete(&y.parser);
    }
    if (s == VT_OK)
        *out = root;
    else
        vt_yaml_free(root);
    return s;
}
