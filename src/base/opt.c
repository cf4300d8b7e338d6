/* SPDX-License-Identifier: MIT */
#include "base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

/* Parses a finite decimal number (no nan, inf, hexadecimal or blank) at the start of text; *end: what follows it. */
static bool parse_decimal(const char *text, const char **end, double *out) {
    /* strtod also takes "nan", "inf", hexadecimal and leading blanks: none of them is a number a person meant here */
    if (!strchr("+-.0123456789", text[0]) || !text[0]) return false;
    if (text[strspn(text, "+-")] == '0' && (text[strspn(text, "+-") + 1] | 32) == 'x') return false;
    char *stop;
    errno = 0;
    *out = strtod(text, &stop);
    *end = stop;
    return stop != text && isfinite(*out);
}

bool vt_parse_real(const char *text, double *out) {
    const char *end;
    double a, b = 1;
    if (!parse_decimal(text, &end, &a)) return false;
    if (*end == '/') {
        if (!parse_decimal(end + 1, &end, &b) || !(b > 0)) return false;
    }
    if (*end || !isfinite(a / b)) return false;
    *out = a / b;
    return true;
}

bool vt_parse_int(const char *text, long long *out) {
    if (!strchr("+-0123456789", text[0]) || !text[0]) return false;
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && errno == 0;
}

bool vt_parse_triple(const char *text, double out[3]) {
    char buf[128];
    if (strlen(text) >= sizeof buf) return false;
    snprintf(buf, sizeof buf, "%s", text);
    int n = 0;
    char *save = NULL;
    for (char *t = strtok_r(buf, ",", &save); t; t = strtok_r(NULL, ",", &save))
        if (n == 3 || !vt_parse_real(t, &out[n++])) return false;
    if (n == 1) out[1] = out[2] = out[0];
    return n == 1 || n == 3;
}

static bool equal_ignoring_case(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

/* Returns how many letters to insert, leave out or change, or neighbours to swap (each once), turn a into b; 99 if
 * either has more than 62. */
static int edit_distance(const char *a, const char *b) {
    int rows[3][64], n = (int)strlen(b);
    if (n > 62 || strlen(a) > 62) return 99;
    for (int j = 0; j <= n; j++) rows[0][j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = last[j - 1] + !equal_ignoring_case(a[i - 1], b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool swapped =
                i > 1 && j > 1 && equal_ignoring_case(a[i - 1], b[j - 2]) && equal_ignoring_case(a[i - 2], b[j - 1]);
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[strlen(a) % 3][n];
}

const char *vt_nearest(const char *word, const char *const *list, size_t n) {
    const char *best = NULL;
    int third = (int)(strlen(word) < 10 ? strlen(word) / 3 : 3), least = (third ? third : 1) + 1; /* no further away */
    for (size_t i = 0; i < n; i++) {
        int d = edit_distance(word, list[i]);
        bool prefix = strlen(word) >= 2 && !strncasecmp(word, list[i], strlen(word));
        bool cut = prefix && d == 1; /* of two as near the one that only lost its last letter */
        if (prefix && d > 1) d = 1;
        if (d < least || (d == least && cut)) least = d, best = list[i];
    }
    return best;
}

vt_status vt_fail_unknown(const char *what, const char *word, const char *const *list, size_t n, const char *look,
                          vt_err *e) {
    char all[300] = "";
    const char *near = vt_nearest(word, list, n);
    if (near) return vt_fail(e, VT_E_UNKNOWN, "unknown %s '%s'; did you mean '%s'?", what, word, near);
    if (look) return vt_fail(e, VT_E_UNKNOWN, "unknown %s '%s' (see '%s')", what, word, look);
    for (size_t i = 0; i < n; i++) vt_text_item(all, sizeof all, ", ", "%s", list[i]);
    return vt_fail(e, VT_E_UNKNOWN, "unknown %s '%s'; there are: %s", what, word, all);
}

/* ---- values ---- */

/* Reads an option's value into v: three numbers of a TRIPLE, else one. Not of a TEXT. */
static void load_numbers(const vt_opt *o, const void *params, double v[3]) {
    const void *at = (const char *)params + o->offset;
    if (o->type == VT_OPT_INT || o->type == VT_OPT_CHOICE)
        v[0] = *(const int *)at;
    else if (o->type == VT_OPT_BOOL)
        v[0] = *(const bool *)at;
    else
        memcpy(v, at, (o->type == VT_OPT_TRIPLE ? 3 : 1) * sizeof *v);
}

/* Writes what load_numbers reads. */
static void store_numbers(const vt_opt *o, void *params, const double v[3]) {
    void *at = (char *)params + o->offset;
    if (o->type == VT_OPT_INT || o->type == VT_OPT_CHOICE)
        *(int *)at = (int)v[0];
    else if (o->type == VT_OPT_BOOL)
        *(bool *)at = v[0] != 0;
    else
        memcpy(at, v, (o->type == VT_OPT_TRIPLE ? 3 : 1) * sizeof *v);
}

/* Sets an option to its default. */
static void store_default(const vt_opt *o, void *params) {
    if (o->type == VT_OPT_TEXT)
        snprintf((char *)params + o->offset, (size_t)o->max, "%s", o->preset_text ? o->preset_text : "");
    else
        store_numbers(o, params, (const double[3]){o->preset, o->preset, o->preset});
}

void vt_opt_defaults(const vt_opt *opts, void *params) {
    for (; opts && opts->key; opts++) store_default(opts, params);
}

/* Returns the place of text among the words of "a|b|c", in any case, or -1. */
static int choice_index(const char *choices, const char *text) {
    size_t n = strlen(text);
    int at = 0;
    for (const char *p = choices; p; p = strchr(p, '|'), p = p ? p + 1 : NULL, at++)
        if (n && strcspn(p, "|") == n && !strncasecmp(p, text, n)) return at;
    return -1;
}

/* Parses the text of a value that is not a TEXT into v [3], without a look at its range; false: it is none of its type.
 * must: what it has to be, for sentences. */
static bool parse_numbers(const vt_opt *o, const char *text, double v[3], char must[300]) {
    long long whole = 0;
    switch (o->type) {
    case VT_OPT_CHOICE:
        snprintf(must, 300, "must be one of %s", o->choices);
        return (v[0] = choice_index(o->choices, text)) >= 0;
    case VT_OPT_BOOL:
        snprintf(must, 300, "must be 0 or 1");
        whole = choice_index("0|1|no|yes|false|true", text);
        v[0] = (double)(whole % 2);
        return whole >= 0;
    case VT_OPT_INT:
        snprintf(must, 300, "must be a whole number between %.12g and %.12g", o->min, o->max);
        bool parsed = vt_parse_int(text, &whole);
        v[0] = (double)whole;
        return parsed;
    case VT_OPT_TRIPLE:
        snprintf(must, 300, "must be three numbers separated by commas, or one");
        return vt_parse_triple(text, v);
    default:
        snprintf(must, 300, "which is not a number (0.25) or a fraction (2/255)");
        return vt_parse_real(text, v);
    }
}

/* Parses a value, checks its range and stores it; VT_E_USAGE, nothing stored, if it is refused. who: begins the
 * sentence. */
static vt_status set_option_value(const vt_opt *o, void *params, const char *value, const char *who, vt_err *e) {
    double v[3];
    char must[300];
    if (o->type == VT_OPT_TEXT) {
        if (strlen(value) >= (size_t)o->max)
            return vt_fail(e, VT_E_USAGE, "%s: option %s is longer than %.0f bytes", who, o->key, o->max - 1);
        snprintf((char *)params + o->offset, (size_t)o->max, "%s", value);
        return VT_OK;
    }
    if (!*value) return vt_fail(e, VT_E_USAGE, "%s: option %s has no value", who, o->key);
    if (o->preset_text && !strcasecmp(value, o->preset_text)) { /* the canonical text of a default reads back */
        store_default(o, params);
        return VT_OK;
    }
    if (!parse_numbers(o, value, v, must))
        return vt_fail(e, VT_E_USAGE, "%s: option %s is '%s', %s", who, o->key, value, must);
    bool ranged = o->type != VT_OPT_CHOICE && o->type != VT_OPT_BOOL;
    for (int k = 0; ranged && k < (o->type == VT_OPT_TRIPLE ? 3 : 1); k++)
        if (!(v[k] >= o->min && v[k] <= o->max))
            return vt_fail(e, VT_E_USAGE, "%s: option %s is %s, must be between %.12g and %.12g", who, o->key, value,
                           o->min, o->max);
    store_numbers(o, params, v);
    return VT_OK;
}

/* Fails with VT_E_UNKNOWN: an unknown option, with the nearest key or all of them. */
static vt_status fail_unknown_option(const vt_opt *opts, const char *key, const char *who, vt_err *e) {
    const char *names[32] = {0};
    size_t n = 0;
    for (const vt_opt *o = opts; o && o->key && n < 32; o++) names[n++] = o->key;
    const char *near = vt_nearest(key, names, n);
    if (near) return vt_fail(e, VT_E_UNKNOWN, "%s has no option '%s'; did you mean '%s'?", who, key, near);
    char all[256] = "";
    for (size_t i = 0; i < n; i++) vt_text_item(all, sizeof all, ", ", "%s", names[i]);
    return vt_fail(e, VT_E_UNKNOWN, "%s has no option '%s'; its options are: %s", who, key, n ? all : "none");
}

/* Returns the row of a key, in any case; NULL: there is none. */
static const vt_opt *find_option(const vt_opt *opts, const char *key) {
    for (; opts && opts->key; opts++)
        if (!strcasecmp(opts->key, key)) return opts;
    return NULL;
}

vt_status vt_opt_set(const vt_opt *opts, void *params, const char *key, const char *value, const char *who, vt_err *e) {
    const vt_opt *o = find_option(opts, key);
    return o ? set_option_value(o, params, value, who, e) : fail_unknown_option(opts, key, who, e);
}

bool vt_opt_int(const vt_opt *opts, const void *params, const char *key, int *out) {
    const vt_opt *o = find_option(opts, key);
    if (!o || o->type != VT_OPT_INT) return false;
    *out = *(const int *)((const char *)params + o->offset);
    return true;
}

vt_status vt_opt_parse(const vt_opt *opts, void *params, const char *text, const char *who, vt_err *e) {
    for (const char *p = text; *p;) {
        char item[128];
        size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof item)
            return vt_fail(e, VT_E_USAGE, "%s: '%s' is not a list key=value,key=value", who, text);
        memcpy(item, p, n);
        item[n] = 0;
        p += n;
        if (*p == ',' && !*++p) return vt_fail(e, VT_E_USAGE, "%s: '%s' ends in a comma", who, text);
        char *eq = strchr(item, '=');
        if (!eq) return vt_fail(e, VT_E_USAGE, "%s: '%s' is not of the form key=value", who, item);
        *eq = 0;
        VT_TRY(vt_opt_set(opts, params, item, eq + 1, who, e));
    }
    return VT_OK;
}

/* Writes the shortest decimal that reads back as v, or k/255 if v in (0, 1) is that and takes more than six digits;
 * returns the length. */
static int number_text(double v, char *buf, size_t size) {
    double k = v * 255;
    if (v == round(v) && fabs(v) < 1e6) return snprintf(buf, size, "%.0f", v); /* not 1e+01 */
    for (int digits = 1; digits < 17; digits++) {
        char t[40];
        snprintf(t, sizeof t, "%.*g", digits, v);
        if (strtod(t, NULL) == v) return snprintf(buf, size, "%s", t);
        if (digits == 6 && v > 0 && v < 1 && fabs(k - round(k)) < 1e-12 && round(k) / 255 == v)
            return snprintf(buf, size, "%.0f/255", round(k));
    }
    return snprintf(buf, size, "%.17g", v);
}

int vt_opt_value(const vt_opt *o, const void *params, char *buf, size_t size) {
    double v[3] = {0};
    char t[3][64];
    if (o->type == VT_OPT_TEXT) return snprintf(buf, size, "%s", (const char *)params + o->offset);
    load_numbers(o, params, v);
    bool triple = o->type == VT_OPT_TRIPLE;
    if (o->preset_text && v[0] == o->preset && (!triple || (v[1] == o->preset && v[2] == o->preset)))
        return snprintf(buf, size, "%s", o->preset_text);
    if (o->type == VT_OPT_CHOICE) {
        const char *p = o->choices;
        for (int i = 0; i < (int)v[0]; i++) p = strchr(p, '|') + 1;
        return snprintf(buf, size, "%.*s", (int)strcspn(p, "|"), p);
    }
    if (o->type == VT_OPT_INT || o->type == VT_OPT_BOOL) return snprintf(buf, size, "%.0f", v[0]);
    for (int k = 0; k < 3; k++) number_text(v[k], t[k], sizeof t[k]);
    return triple ? snprintf(buf, size, "%s,%s,%s", t[0], t[1], t[2]) : snprintf(buf, size, "%s", t[0]);
}

int vt_opt_text(const vt_opt *opts, const void *params, char *buf, size_t size) {
    int n = 0;
    if (size) buf[0] = 0;
    for (const vt_opt *o = opts; o && o->key; o++) {
        char v[256];
        vt_opt_value(o, params, v, sizeof v);
        size_t used = (size_t)n < size ? (size_t)n : size;
        n += snprintf(buf + used, size - used, "%s%s=%s", n ? "," : "", o->key, v);
    }
    return n;
}

/* ---- choices ---- */

const vt_arg *vt_arg_find(const vt_arg *table, const char *name) {
    for (const vt_arg *a = table; a && a->name; a++)
        if (!strcmp(a->name, name)) return a;
    return NULL;
}

const char *vt_chosen_nth(const vt_choices *c, const char *name, int i) {
    for (int k = 0; k < c->n; k++)
        if (!strcmp(c->list[k].name, name) && i-- == 0) return c->list[k].value;
    return NULL;
}

bool vt_is_chosen(const vt_choices *c, const char *name) { return vt_chosen(c, name) != NULL; }

const char *vt_chosen(const vt_choices *c, const char *name) {
    for (int k = c->n - 1; k >= 0; k--)
        if (!strcmp(c->list[k].name, name)) return c->list[k].value;
    return NULL;
}

bool vt_choose(vt_choices *c, const char *name, const char *value) {
    if (c->n == VT_CHOICES_MOST) return false;
    c->list[c->n].name = name;
    c->list[c->n++].value = value;
    return true;
}

vt_status vt_chosen_int(const vt_choices *c, const char *name, long long min, long long max, long long absent,
                        long long *out, vt_err *e) {
    const char *text = vt_chosen(c, name);
    *out = absent;
    if (!text) return VT_OK;
    if (!vt_parse_int(text, out))
        return vt_fail(e, VT_E_USAGE, "@%s is '%s', must be a whole number between %lld and %lld", name, text, min,
                       max);
    if (*out < min || *out > max)
        return vt_fail(e, VT_E_USAGE, "@%s is %s, must be between %lld and %lld", name, text, min, max);
    return VT_OK;
}
