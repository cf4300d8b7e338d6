#include "core/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"

/* What each character outside of a string stands for, in bytes of jansson 2.14 on 64 bits, rounded up: a table of eight
 * places, an array of eight, a pair and its copy of the key, a number and its place in an array. */
static size_t cost(char c) { return c == '{' ? 240 : c == '[' ? 144 : c == ':' ? 112 : c == ',' ? 48 : 0; }

enum { STRING = 48 }; /* besides its own bytes; the comma behind it pays for the rest */

/* Where the text asks for more than it may; n: nowhere. */
static size_t too_much(const char *text, size_t n, size_t most) {
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

json_t *vt_json(const char *text, size_t n, json_error_t *why) {
    size_t most = n > (SIZE_MAX - VT_JSON_SPARE) / VT_JSON_TIMES ? SIZE_MAX : VT_JSON_SPARE + VT_JSON_TIMES * n;
    size_t at = too_much(text, n, most);
    if (at == n) return json_loadb(text, n, JSON_REJECT_DUPLICATES, why);
    if (why) {
        *why = (json_error_t){.line = 1, .position = at < INT32_MAX ? (int)at : INT32_MAX};
        for (size_t i = 0; i < at; i++) why->line += text[i] == '\n';
        snprintf(why->text, JSON_ERROR_TEXT_LENGTH - 1, "%zu bytes of JSON would take more than %zu MB of memory", n,
                 most >> 20); /* the last byte is jansson's code of the error */
    }
    return NULL;
}

json_t *vt_json_file(const char *path) {
    char *text;
    size_t n;
    if (vt_file_read(path, VT_JSON_FILE, &text, &n, NULL) != VT_OK) return NULL;
    json_t *o = vt_json(text, n, NULL);
    free(text);
    return o;
}
