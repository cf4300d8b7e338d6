/* SPDX-License-Identifier: MIT */
#include "research/table/published.h"

#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/mem.h"
#include "base/opt.h"

/* CELLS: four times what SpecFormer prints; laws compare every row with every other. */
enum { CELLS_MOST = 4000, FILE_MOST = 1 << 24 };

/* Value columns: what they hold and between which numbers. */
static const struct {
    const char *name;
    double low, high;
} units[] =
    {[VT_PERCENT] = {"accuracy", 0, 100}, [VT_POINTS] = {"points", -100, 100}, [VT_FACTOR] = {"relative_time", 0, 1e6},
     [VT_SCORE] = {"score", 0, 100},      [VT_GAIN] = {"gain", -100, 1000},    [VT_COUNT] = {"parameters", 0, 1e15},
     [VT_ERROR] = {"error", 0, 1e15}};

int vt_published_key(const vt_published *p, const char *key) {
    for (int k = 0; k < p->n_keys; k++)
        if (!strcmp(p->keys[k], key)) return k;
    return -1;
}

const char *vt_published_at(const vt_published *p, int i, const char *key) {
    int k = vt_published_key(p, key);
    return k < 0 ? "" : p->cells[i].at[k];
}

bool vt_published_listed(const char *const *keys, const char *key) {
    for (; *keys; keys++)
        if (!strcmp(*keys, key)) return true;
    return false;
}

bool vt_published_agree(const vt_published *p, int a, int b, const char *const *but) {
    for (int k = 0; k < p->n_keys; k++)
        if (!vt_published_listed(but, p->keys[k]) && strcmp(p->cells[a].at[k], p->cells[b].at[k])) return false;
    return true;
}

void vt_published_close(vt_published *p) {
    if (!p) return;
    free(p->path), free(p->text), free(p->cells);
    free(p);
}

/* Cuts a line at its commas; fields point into it. Returns how many there are, or most + 1. */
static int split_fields(char *line, char **fields, int most) {
    int n = 0;
    for (char *p = line; n < most;) {
        fields[n++] = p;
        p += strcspn(p, ",");
        if (!*p) return n;
        *p++ = 0;
    }
    return most + 1;
}

/* Reads the key columns and the unit from the first line; VT_E_USAGE: too few or many columns, one twice, or no known
 * unit. */
static vt_status parse_header(vt_published *p, char *line, int number, vt_err *e) {
    char *fields[VT_PUBLISHED_KEYS + 1];
    int n = split_fields(line, fields, VT_PUBLISHED_KEYS + 1);
    if (n < 2 || n > VT_PUBLISHED_KEYS + 1)
        return vt_fail(e, VT_E_USAGE, "%s:%d: must name 1 to %d key columns and one of numbers", p->path, number,
                       VT_PUBLISHED_KEYS);
    for (int i = 0; i < n - 1; i++) {
        if (vt_published_key(p, fields[i]) >= 0)
            return vt_fail(e, VT_E_USAGE, "%s:%d: the column %.40s is there twice", p->path, number, fields[i]);
        p->keys[p->n_keys++] = fields[i];
    }
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (!strcmp(units[u].name, fields[n - 1])) {
            p->unit = (vt_published_unit)u;
            return VT_OK;
        }
    return vt_fail(e, VT_E_USAGE,
                   "%s:%d: the last column is '%.40s', must be accuracy (in percent), points, relative_time, score, "
                   "gain, parameters or error",
                   p->path, number, fields[n - 1]);
}

/* VT_E_USAGE if another cell has the same keys. */
static vt_status refuse_duplicate(const vt_published *p, const struct vt_published_cell *c, vt_err *e) {
    for (int i = 0; i < p->n; i++) {
        int k = 0;
        while (k < p->n_keys && !strcmp(p->cells[i].at[k], c->at[k])) k++;
        if (k == p->n_keys)
            return vt_fail(e, VT_E_USAGE, "%s:%d: this cell is given in line %d already", p->path, c->line,
                           p->cells[i].line);
    }
    return VT_OK;
}

/* Appends a line's cell; VT_E_USAGE for wrong fields, a number out of range, a duplicate, too many cells. */
static vt_status parse_cell(vt_published *p, char *line, int number, vt_err *e) {
    char *fields[VT_PUBLISHED_KEYS + 1];
    struct vt_published_cell c = {.line = number};
    int n = split_fields(line, fields, VT_PUBLISHED_KEYS + 1);
    if (n != p->n_keys + 1)
        return vt_fail(e, VT_E_USAGE, "%s:%d: has %s%d fields, must have %d", p->path, number,
                       n > VT_PUBLISHED_KEYS + 1 ? "more than " : "", n > VT_PUBLISHED_KEYS + 1 ? n - 1 : n,
                       p->n_keys + 1);
    for (int k = 0; k < p->n_keys; k++) c.at[k] = fields[k];
    c.shown = fields[p->n_keys];
    if (!vt_parse_real(c.shown, &c.value) || !(c.value >= units[p->unit].low && c.value <= units[p->unit].high))
        return vt_fail(e, VT_E_USAGE, "%s:%d: %s is '%.40s', must be a number from %g to %g", p->path, number,
                       units[p->unit].name, c.shown, units[p->unit].low, units[p->unit].high);
    VT_TRY(refuse_duplicate(p, &c, e));
    if (p->n == CELLS_MOST) return vt_fail(e, VT_E_USAGE, "%s:%d: more than %d cells", p->path, number, CELLS_MOST);
    if (!vt_grow(&p->cells, (size_t)p->n, sizeof c)) return vt_fail(e, VT_E_MEMORY, "%s: no memory", p->path);
    p->cells[p->n++] = c;
    return VT_OK;
}

/* VT_E_USAGE if there is no number, or no accuracy above 1: whole tables of those are shares, not percent. */
static vt_status check_unit(const vt_published *p, vt_err *e) {
    double most = 0;
    for (int i = 0; i < p->n; i++)
        if (p->cells[i].value > most) most = p->cells[i].value;
    if (!p->n) return vt_fail(e, VT_E_USAGE, "%s: holds no number", p->path);
    if (p->unit == VT_PERCENT && most <= 1)
        return vt_fail(e, VT_E_USAGE,
                       "%s: no accuracy is above %g, so they seem to be shares from 0 to 1; they must be in percent",
                       p->path, most);
    return VT_OK;
}

/* Cuts p->text [n] into lines and reads header and cells; VT_E_USAGE for NUL characters and quotes. */
static vt_status parse(vt_published *p, size_t n, vt_err *e) {
    int number = 0;
    if (memchr(p->text, 0, n)) return vt_fail(e, VT_E_USAGE, "%s: holds a NUL character", p->path);
    for (char *line = p->text + 3 * !strncmp(p->text, "\xEF\xBB\xBF", 3), *end = p->text + n; line < end;) {
        size_t len = strcspn(line, "\n");
        char *next = line + len + 1;
        line[len] = 0, number++;
        if (len && line[len - 1] == '\r') line[len - 1] = 0;
        if (*line && *line != '#') {
            if (strchr(line, '"')) return vt_fail(e, VT_E_USAGE, "%s:%d: quotes are not taken", p->path, number);
            VT_TRY(p->n_keys ? parse_cell(p, line, number, e) : parse_header(p, line, number, e));
        }
        line = next;
    }
    return check_unit(p, e);
}

vt_status vt_published_parse(vt_published **out, const char *text, size_t n, const char *path, vt_err *e) {
    *out = NULL;
    vt_published *p = calloc(1, sizeof *p);
    if (p) p->path = strdup(path), p->text = malloc(n + 1);
    if (!p || !p->path || !p->text) {
        vt_published_close(p);
        return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    }
    memcpy(p->text, text, n);
    p->text[n] = 0;
    vt_status s = parse(p, n, e);
    if (s != VT_OK) {
        vt_published_close(p);
        return s;
    }
    *out = p;
    return VT_OK;
}

vt_status vt_published_open(vt_published **out, const char *path, vt_err *e) {
    char *text;
    size_t n;
    *out = NULL;
    vt_err why = {0};
    if (vt_file_read(path, FILE_MOST, &text, &n, &why) != VT_OK) return vt_fail(e, VT_E_USAGE, "%s", why.text);
    vt_status s = vt_published_parse(out, text, n, path, e);
    free(text);
    return s;
}
