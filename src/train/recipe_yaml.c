/* Recipes from YAML, of which one mapping of scalars, or of mappings of scalars, is accepted. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>
#include "train/recipe_keys.h"

enum { FILE_MAX = 1 << 20, SEEN_MAX = 512 };

typedef struct reader {
    vt_recipe *r;
    vt_err *e;
    const char *text;
    size_t n;
    char path[200];
    yaml_parser_t parser;
    yaml_event_t event; /* the current one */
    int n_seen;
    struct {
        char key[VT_RECIPE_KEY_MAX];
        int line;
    } seen[SEEN_MAX];
} reader;

__attribute__((format(printf, 4, 5))) static vt_status refuse(reader *d, int line, vt_status s, const char *format,
                                                              ...) {
    char what[500];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    return vt_fail(d->e, s, "%s:%d: %s", d->path, line, what);
}

static int line_of(const reader *d) { return (int)d->event.start_mark.line + 1; }

static vt_status not_yaml(reader *d) {
    const yaml_parser_t *p = &d->parser;
    if (p->error == YAML_MEMORY_ERROR) return vt_fail(d->e, VT_E_MEMORY, "%s: no memory", d->path);
    int line = (int)p->problem_mark.line + 1;
    if (p->error == YAML_READER_ERROR) { /* has an offset only */
        line = 1;
        for (size_t i = 0; i < p->problem_offset && i < d->n; i++) line += d->text[i] == '\n';
    }
    return refuse(d, line, VT_E_FORMAT, "not YAML: %s%s%s%s", p->problem ? p->problem : "unknown problem",
                  p->context ? " (" : "", p->context ? p->context : "", p->context ? ")" : "");
}

/* The next event, of which those that a recipe has no use for are refused. */
static vt_status next(reader *d) {
    yaml_event_delete(&d->event);
    if (!yaml_parser_parse(&d->parser, &d->event)) return not_yaml(d);
    const yaml_event_t *v = &d->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    if (v->type == YAML_ALIAS_EVENT) return refuse(d, line_of(d), VT_E_FORMAT, "a recipe takes no aliases (*name)");
    if (v->type == YAML_SCALAR_EVENT) anchor = v->data.scalar.anchor, tag = v->data.scalar.tag;
    if (v->type == YAML_SEQUENCE_START_EVENT) anchor = v->data.sequence_start.anchor, tag = v->data.sequence_start.tag;
    if (v->type == YAML_MAPPING_START_EVENT) anchor = v->data.mapping_start.anchor, tag = v->data.mapping_start.tag;
    if (anchor) return refuse(d, line_of(d), VT_E_FORMAT, "a recipe takes no anchors (&%.40s)", (const char *)anchor);
    if (tag) return refuse(d, line_of(d), VT_E_FORMAT, "a recipe takes no tags (%.80s)", (const char *)tag);
    return VT_OK;
}

/* Copies the current scalar. */
static vt_status scalar(reader *d, const char *what, char *out, size_t size) {
    const char *text = (const char *)d->event.data.scalar.value;
    size_t n = d->event.data.scalar.length;
    if (n >= size)
        return refuse(d, line_of(d), VT_E_USAGE, "%s has %zu bytes, must have at most %zu: %.40s...", what, n, size - 1,
                      text);
    if (memchr(text, 0, n)) return refuse(d, line_of(d), VT_E_USAGE, "%s holds a NUL character", what);
    snprintf(out, size, "%s", text);
    return VT_OK;
}

static vt_status once(reader *d, const char *key, int line) {
    for (int i = 0; i < d->n_seen; i++)
        if (!strcmp(d->seen[i].key, key))
            return refuse(d, line, VT_E_USAGE, "%s is given twice, first in line %d", key, d->seen[i].line);
    if (d->n_seen == SEEN_MAX)
        return refuse(d, line, VT_E_USAGE, "%s is one key too many, a recipe takes at most %d", key, SEEN_MAX);
    snprintf(d->seen[d->n_seen].key, VT_RECIPE_KEY_MAX, "%s", key);
    d->seen[d->n_seen++].line = line;
    return VT_OK;
}

static vt_status apply(reader *d, const char *key, const char *value, int line) {
    char where[240];
    snprintf(where, sizeof where, "%s:%d", d->path, line);
    return vt_recipe_apply(d->r, key, value, where, d->e);
}

/* A sequence of scalars, joined with commas, or words with blanks. */
static vt_status list(reader *d, const char *key, int line) {
    char value[VT_RECIPE_VALUE_MAX] = "", item[VT_RECIPE_VALUE_MAX];
    vt_recipe_section s;
    const vt_opt *o = vt_recipe_key(d->r, key, &s);
    const char between = o && vt_recipe_takes_words(o) ? ' ' : ',';
    if (o && between == ',' && !vt_recipe_takes_list(o))
        return refuse(d, line, VT_E_USAGE, "%s takes one value, not a list", key);
    for (;;) {
        VT_TRY(next(d));
        if (d->event.type == YAML_SEQUENCE_END_EVENT) return apply(d, key, value, line);
        if (d->event.type != YAML_SCALAR_EVENT)
            return refuse(d, line_of(d), VT_E_FORMAT, "%s is nested too deeply: its list takes plain values", key);
        VT_TRY(scalar(d, key, item, sizeof item));
        size_t used = strlen(value), n = strlen(item);
        if (!n || strchr(item, between))
            return refuse(d, line_of(d), VT_E_USAGE, "the list of %s holds '%s', must hold one %s in each place", key,
                          item, between == ',' ? "number" : "word");
        if (used + n + 2 > sizeof value)
            return refuse(d, line, VT_E_USAGE, "the list of %s has more than %zu bytes", key, sizeof value - 1);
        if (used) value[used++] = between;
        memcpy(value + used, item, n + 1);
    }
}

static vt_status mapping(reader *d, const char *section);

/* What follows a section's name at the top. */
static vt_status section_body(reader *d, const char *name, int line) {
    if (d->event.type == YAML_MAPPING_START_EVENT) return mapping(d, name);
    /* "augment:" with all its keys in comments */
    if (d->event.type == YAML_SCALAR_EVENT && !d->event.data.scalar.length) return VT_OK;
    return refuse(d, line, VT_E_USAGE, "%s is a section: its keys stand indented below it, or are written %s.KEY", name,
                  name);
}

static vt_status value_of(reader *d, const char *key, bool deep, int line) {
    char value[VT_RECIPE_VALUE_MAX], where[240];
    vt_recipe_section s;
    if (!deep && (!strcmp(key, "groups") || (*key && vt_recipe_section_named(d->r, key, &s))))
        return section_body(d, key, line);
    if (d->event.type == YAML_SEQUENCE_START_EVENT) return list(d, key, line);
    if (d->event.type == YAML_SCALAR_EVENT) {
        VT_TRY(scalar(d, key, value, sizeof value));
        return apply(d, key, value, line);
    }
    if (deep)
        return refuse(d, line, VT_E_FORMAT, "%s is nested too deeply: a recipe has sections and keys, no more", key);
    if (vt_recipe_key(d->r, key, &s)) return refuse(d, line, VT_E_USAGE, "%s takes a value, it is not a section", key);
    snprintf(where, sizeof where, "%s:%d", d->path, line);
    return vt_recipe_no_section(key, where, d->e);
}

/* Keys and values up to the end of the mapping that has begun. */
static vt_status mapping(reader *d, const char *section) {
    char key[VT_RECIPE_KEY_MAX], full[VT_RECIPE_KEY_MAX];
    for (;;) {
        VT_TRY(next(d));
        if (d->event.type == YAML_MAPPING_END_EVENT) return VT_OK;
        int line = line_of(d);
        if (d->event.type != YAML_SCALAR_EVENT)
            return refuse(d, line, VT_E_FORMAT, "a key must be a word, not a list or mapping");
        VT_TRY(scalar(d, "a key", key, sizeof key));
        if (!vt_recipe_full_key(full, section, key))
            return refuse(d, line, VT_E_UNKNOWN, "the key %s of %s has more than %d bytes", key, section,
                          VT_RECIPE_KEY_MAX - 1);
        VT_TRY(once(d, full, line));
        VT_TRY(next(d));
        VT_TRY(value_of(d, full, *section != 0, line));
    }
}

static vt_status document(reader *d) {
    VT_TRY(next(d)); /* the stream's start */
    VT_TRY(next(d));
    if (d->event.type == YAML_STREAM_END_EVENT) return VT_OK; /* nothing set */
    const yaml_event_t *v = &d->event;
    if (v->data.document_start.tag_directives.start != v->data.document_start.tag_directives.end)
        return refuse(d, line_of(d), VT_E_FORMAT, "a recipe takes no tags (%%TAG)");
    VT_TRY(next(d));
    if (v->type == YAML_MAPPING_START_EVENT)
        VT_TRY(mapping(d, ""));
    else if (v->type != YAML_SCALAR_EVENT || v->data.scalar.length)
        return refuse(d, line_of(d), VT_E_FORMAT, "a recipe must be lines of the form KEY: VALUE");
    VT_TRY(next(d)); /* the document's end */
    VT_TRY(next(d));
    if (v->type == YAML_STREAM_END_EVENT) return VT_OK;
    return refuse(d, line_of(d), VT_E_FORMAT, "a second document begins, a recipe is one");
}

vt_status vt_recipe_parse(vt_recipe *r, const char *text, size_t n, const char *path, vt_err *e) {
    if (n > FILE_MAX)
        return vt_fail(e, VT_E_FORMAT, "%.200s: larger than %d bytes, which no recipe is", path, FILE_MAX);
    reader *d = calloc(1, sizeof *d);
    if (!d || !yaml_parser_initialize(&d->parser)) {
        free(d);
        return vt_fail(e, VT_E_MEMORY, "%.200s: no memory", path);
    }
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, n -= 3; /* libyaml takes a byte order mark for a word */
    size_t len = strlen(path), most = sizeof d->path - 1;
    snprintf(d->path, sizeof d->path, "%s%s", len > most ? "..." : "", path + (len > most ? len - most + 3 : 0));
    d->r = r, d->e = e, d->text = text, d->n = n;
    yaml_parser_set_encoding(&d->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&d->parser, (const unsigned char *)text, n);
    vt_status s = document(d);
    yaml_event_delete(&d->event);
    yaml_parser_delete(&d->parser);
    free(d);
    return s;
}

vt_status vt_recipe_read(vt_recipe *r, const char *path, vt_err *e) {
    FILE *f = fopen(path, "rb");
    if (!f) return vt_fail(e, VT_E_IO, "%.300s: cannot be opened: %s", path, strerror(errno));
    char *text = malloc(FILE_MAX + 1);
    size_t n = text ? fread(text, 1, FILE_MAX + 1, f) : 0; /* one byte more shows a file that is too large */
    int why = !text ? ENOMEM : ferror(f) ? errno : 0;
    fclose(f);
    vt_status s =
        why ? vt_fail(e, why == ENOMEM ? VT_E_MEMORY : VT_E_IO, "%.300s: cannot be read: %s", path, strerror(why))
            : vt_recipe_parse(r, text, n, path, e);
    free(text);
    return s;
}
