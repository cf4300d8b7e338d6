/* SPDX-License-Identifier: MIT */
#include "spec/instances.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/text.h"

enum { FIELDS = 6 };

/* Splits a line, in place, at commas, blanks around the fields cut off; returns how many there are, of which FIELDS are
 * set. */
static int split_fields(char *line, const char *field[FIELDS]) {
    int n = 0;
    for (char *p = line; p; n++) {
        char *comma = strchr(p, ',');
        if (comma) *comma = 0;
        p += strspn(p, " \t\r");
        for (size_t k = strlen(p); k && strchr(" \t\r", p[k - 1]); k--) p[k - 1] = 0;
        if (n < FIELDS) field[n] = p;
        p = comma ? comma + 1 : NULL;
    }
    return n;
}

/* Appends the file's name without folder, .gz and ending. */
static void append_stem(char *to, size_t size, const char *path) {
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t n = strlen(name) - (vt_ends_in(name, ".gz") ? 3 : 0), end = n;
    while (end > 1 && name[end - 1] != '.') end--;
    const size_t at = strlen(to);
    snprintf(to + at, size - at, "%.*s", (int)(end > 1 ? end - 1 : n), name);
}

/* Appends a line's instance or result to l; VT_E_FORMAT: its fields, or a name twice in instances. */
static vt_status read_row(vt_instances *l, char *line, int number, bool results, vt_err *e) {
    const char *field[FIELDS] = {0}, *seconds = NULL;
    const int n = split_fields(line, field);
    if (l->n == VT_INSTANCES_MOST)
        return vt_fail(e, VT_E_FORMAT, "%s: has more than %d lines", l->path, VT_INSTANCES_MOST);
    if (!vt_grow(&l->list, l->n, sizeof *l->list)) return vt_fail(e, VT_E_MEMORY, "%s: no memory", l->path);
    vt_instance *x = &l->list[l->n];
    *x = (vt_instance){.category = "", .verdict = ""};
    if (results ? n != 6 && n != 4 : n != 3 && n != 2)
        return vt_fail(e, VT_E_FORMAT, "%s: line %d: has %d fields, must have %s", l->path, number, n,
                       results ? "6 (category, network, specification, seconds to prepare, verdict, seconds) or 4"
                               : "3 (network, specification, seconds) or 2");
    if (n == 6) x->category = field[0];
    x->network = field[n == 6], x->spec = field[(n == 6) + 1];
    if (results)
        x->verdict = field[n == 6 ? 4 : 2];
    else
        seconds = n == 3 ? field[2] : NULL;
    if (!*x->network || !*x->spec) return vt_fail(e, VT_E_FORMAT, "%s: line %d: an empty field", l->path, number);
    if (seconds && (!vt_parse_real(seconds, &x->seconds) || x->seconds <= 0))
        return vt_fail(e, VT_E_FORMAT, "%s: line %d: '%.40s' is no number of seconds", l->path, number, seconds);
    append_stem(x->name, sizeof x->name - 1, x->network);
    strcat(x->name, "_");
    append_stem(x->name, sizeof x->name, x->spec);
    if (!results && vt_instances_find(l, x->name))
        return vt_fail(e, VT_E_FORMAT, "%s: line %d: %.200s occurs twice", l->path, number, x->name);
    l->n++;
    return VT_OK;
}

vt_status vt_instances_read(vt_instances *l, const char *path, bool results, vt_err *e) {
    *l = (vt_instances){.path = strdup(path)};
    if (!l->path) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    VT_TRY(vt_file_text(path, VT_INSTANCES_BYTES, &l->text, e));
    int number = 1;
    for (char *line = l->text; line; number++) {
        char *end = strchr(line, '\n');
        if (end) *end = 0;
        vt_text_plain(line, strlen(line), "\t\r", NULL);
        if (line[strspn(line, " \t\r")] && *line != '#') VT_TRY(read_row(l, line, number, results, e));
        line = end ? end + 1 : NULL;
    }
    return VT_OK;
}

void vt_instances_free(vt_instances *l) {
    free(l->text), free(l->path), free(l->list);
    *l = (vt_instances){0};
}

const vt_instance *vt_instances_find(const vt_instances *l, const char *name) {
    for (size_t i = l->n; i-- > 0;)
        if (!strcmp(l->list[i].name, name)) return &l->list[i];
    return NULL;
}
