/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

/* Returns what each character outside of a string stands for, in bytes of jansson 2.14 on 64 bits, rounded up: a table
 * of eight places, an array of eight, a pair and its copy of the key, a number and its place in an array. */
static size_t cost(char c) { return c == '{' ? 240 : c == '[' ? 144 : c == ':' ? 112 : c == ',' ? 48 : 0; }

enum { STRING = 48 }; /* besides its own bytes; the comma after it counts for the rest */

/* ---- what jansson was refused ---- */

static _Thread_local size_t refused;

/* Allocates for jansson and counts what was refused in this thread. */
static void *malloc_counting_failures(size_t n) {
    void *p = malloc(n);
    refused += p == NULL;
    return p;
}

static void install_counting_malloc(void) { json_set_alloc_funcs(malloc_counting_failures, free); }

size_t vt_json_refused(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_counting_malloc);
    return refused;
}

json_t *vt_json_whole(json_t *o, size_t before) {
    if (vt_json_refused() == before) return o;
    json_decref(o);
    return NULL;
}

/* ---- reading ---- */

/* Returns the first index at which the text's cost in memory exceeds `most`; n: it never does. */
static size_t find_excess(const char *text, size_t n, size_t most) {
    bool inside = false;
    size_t sum = n;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            sum += inside ? 0 : STRING, inside = !inside;
        else if (inside)
            i += text[i] == '\\';
        else
            sum += cost(text[i]);
        if (sum > most) return i;
    }
    return n;
}

/* Parses a text. jansson reports a name or word for which memory ran out as malformed: then why gets the real cause. */
static json_t *parse_json_text(const char *text, size_t n, json_error_t *why) {
    size_t before = vt_json_refused();
    json_t *o = vt_json_whole(json_loadb(text, n, JSON_REJECT_DUPLICATES, why), before);
    if (why && vt_json_refused() != before) {
        snprintf(why->text, JSON_ERROR_TEXT_LENGTH - 1, "no memory for it");
        why->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_out_of_memory; /* where jansson has its code of the error */
    }
    return o;
}

vt_status vt_json_why(const json_error_t *why) {
    return json_error_code(why) == json_error_out_of_memory ? VT_E_MEMORY : VT_E_FORMAT;
}

json_t *vt_json(const char *text, size_t n, json_error_t *why) {
    size_t most = n > (SIZE_MAX - VT_JSON_SPARE) / VT_JSON_TIMES ? SIZE_MAX : VT_JSON_SPARE + VT_JSON_TIMES * n;
    size_t at = find_excess(text, n, most);
    if (at == n) return parse_json_text(text, n, why);
    if (why) {
        *why = (json_error_t){.line = 1, .position = at < INT32_MAX ? (int)at : INT32_MAX};
        for (size_t i = 0; i < at; i++) why->line += text[i] == '\n';
        snprintf(why->text, JSON_ERROR_TEXT_LENGTH - 1, "%zu bytes of JSON would take more than %zu MB of memory", n,
                 most >> 20); /* the last byte is jansson's code of the error */
    }
    return NULL;
}

vt_status vt_json_file(json_t **out, const char *path, size_t most, vt_err *why, vt_err *e) {
    char *text;
    size_t n;
    json_error_t at = {0};
    *out = NULL;
    vt_status s = vt_file_load(path, most, &text, &n, why);
    if (s == VT_OK) {
        *out = vt_json(text, n, &at);
        free(text);
        s = *out ? VT_OK : vt_json_why(&at);
        if (s == VT_E_FORMAT) (void)vt_fail(why, s, "%s is no JSON: %.120s", path, at.text);
    }
    return s == VT_E_MEMORY ? vt_fail(e, s, "%s: no memory for it", path) : VT_OK;
}

/* ---- writing ---- */

/* Prints v with `digits` significant digits; returns the length. */
static int print_digits(char buf[VT_NUMBER_ROOM], double v, int digits) {
    return snprintf(buf, VT_NUMBER_ROOM, "%.*g", digits, v);
}

/* Up to 15 digits, whatever decimal was read comes back as it was; only below DBL_MIN doubles are further apart. */
int vt_json_number(char buf[VT_NUMBER_ROOM], double v) {
    int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG, n;
    do n = print_digits(buf, v, digits++);
    while (digits <= DBL_DECIMAL_DIG && strtod(buf, NULL) != v);
    return n;
}

/* Writes a real as jansson does: with a point or an exponent, so that it is read back as one; the exponent has neither
 * a plus nor leading zeros. */
static void put_real(FILE *f, double v, bool longest) {
    char buf[VT_NUMBER_ROOM];
    if (longest)
        print_digits(buf, v, DBL_DECIMAL_DIG);
    else
        vt_json_number(buf, v);
    char *e = strchr(buf, 'e');
    if (e)
        fprintf(f, "%.*se%d", (int)(e - buf), buf, atoi(e + 1));
    else
        fprintf(f, "%s%s", buf, strchr(buf, '.') ? "" : ".0");
}

/* Writes jansson's text, with its reals in their shortest form. longest: with 17 digits. */
static void put_text(FILE *f, const char *text, bool longest) {
    bool inside = false;
    for (const char *p = text; *p;) {
        size_t n =
            inside ? 0 : strspn(p, "+-.0123456789eE"); /* of the words only false and true hold an e, and end in it */
        bool number = n && (*p == '-' || (*p >= '0' && *p <= '9'));
        if (number && strcspn(p, ".eE") < n) {
            put_real(f, strtod(p, NULL), longest);
        } else {
            n = n ? n : inside && *p == '\\' ? 2 : 1;
            fwrite(p, 1, n, f);
            if (*p == '"') inside = !inside;
        }
        p += n;
    }
}

/* Returns o as text (vt_json_text, vt_json_hashed); NULL: no memory. */
static char *text_of(const json_t *o, size_t flags, bool longest) {
    size_t before = vt_json_refused();
    char *whole = o ? json_dumps(o, flags) : NULL;
    bool good = whole && vt_json_refused() == before;
    vt_text_stream w = {0};
    FILE *f = good ? vt_text_stream_open(&w) : NULL;
    if (f) put_text(f, whole, longest);
    free(whole);
    return vt_text_stream_close(&w);
}

json_t *vt_json_real(double v) { return isfinite(v) ? json_real(v) : json_null(); }

char *vt_json_text(const json_t *o, size_t flags) { return text_of(o, flags, false); }
char *vt_json_hashed(const json_t *o, size_t flags) { return text_of(o, flags, true); }

bool vt_json_write(FILE *f, const json_t *o, size_t flags) {
    char *text = vt_json_text(o, flags);
    if (text) fprintf(f, "%s\n", text);
    free(text);
    return text != NULL;
}

vt_status vt_json_commit(vt_file *f, const json_t *o, size_t flags, vt_err *e) {
    if (vt_json_write(f->stream, o, flags)) return vt_file_commit(f, e);
    vt_file_abandon(f);
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for it", f->path);
}

vt_status vt_json_save(const char *dir, const char *name, const json_t *o, size_t flags, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, dir, name, e));
    return vt_json_commit(&f, o, flags, e);
}
