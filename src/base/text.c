/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether c ends a mark of direction. */
static bool is_direction_mark_end(const vt_text_at *at, unsigned char c) {
    if (at->lead == 0xD8) return c == 0x9C;
    if (at->lead != 0xE2) return false;
    if (at->second == 0x81) return c >= 0xA6 && c <= 0xA9;
    return at->second == 0x80 && (c == 0x8E || c == 0x8F || (c >= 0xAA && c <= 0xAE));
}

/* Returns whether c, after the bytes in `at`, ends a control character, and updates `at`. Inside a sequence bytes from
 * 0x80 on are parts of letters. */
static bool is_control_byte(vt_text_at *at, unsigned char c) {
    if (at->left > 0 && (c & 0xC0) == 0x80) {
        if (--at->left == 0) return is_direction_mark_end(at, c) || (at->lead == 0xC2 && c < 0xA0);
        at->second = c;
        return false;
    }
    at->lead = c;
    at->left = c < 0xC2 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 0;
    return c < 32 || c == 127 || (c >= 0x80 && c < 0xA0);
}

void vt_text_plain(char *text, size_t n, const char *keep, vt_text_at *at) {
    vt_text_at whole = {0};
    if (!at) at = &whole;
    for (size_t i = 0; i < n; i++) {
        bool last = at->left > 0 && ((unsigned char)text[i] & 0xC0) == 0x80; /* of a sequence, perhaps */
        if (!is_control_byte(at, (unsigned char)text[i]) || (text[i] && strchr(keep, text[i]))) continue;
        text[i] = '?';
        size_t before = !last ? 0 : at->lead == 0xE2 ? 2 : 1; /* bytes of the same sequence */
        for (size_t k = 1; k <= before && k <= i; k++) text[i - k] = '?';
    }
}

const char *vt_text_line(char *buf, size_t size, const char *text) {
    snprintf(buf, size, "%s", text);
    vt_text_plain(buf, strlen(buf), "", NULL);
    return buf;
}

bool vt_text_is_plain(const char *text) {
    vt_text_at at = {0};
    for (; *text; text++)
        if (is_control_byte(&at, (unsigned char)*text)) return false;
    return true;
}

size_t vt_utf8_sequence(const unsigned char *p) {
    size_t n = *p < 0xC2 ? 0 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : *p < 0xF5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) || (*p == 0xF0 && p[1] < 0x90) ||
        (*p == 0xF4 && p[1] > 0x8F))
        return 0;
    if (*p == 0xEF && p[1] == 0xBF && p[2] >= 0xBE) return 0; /* U+FFFE and U+FFFF, which XML does not have */
    return n;
}

void vt_text_item(char *list, size_t size, const char *sep, const char *fmt, ...) {
    size_t at = strlen(list);
    va_list ap;
    if (at) at += (size_t)snprintf(list + at, size - at, "%s", sep);
    va_start(ap, fmt);
    if (at < size) vsnprintf(list + at, size - at, fmt, ap);
    va_end(ap);
}

/* ---- streams into memory ---- */

/* Writes for a text stream: appends n bytes; returns n, or 0 if there is no memory. */
static ssize_t append_bytes(void *cookie, const char *data, size_t n) {
    vt_text_stream *w = cookie;
    if (n >= w->room - w->n) {
        size_t room = 2 * (w->n + n) + 1;
        char *more = w->short_of ? NULL : realloc(w->text, room);
        if (!more) {
            w->short_of = true;
            return 0;
        }
        w->text = more, w->room = room;
    }
    memcpy(w->text + w->n, data, n);
    w->text[w->n += n] = 0;
    return (ssize_t)n;
}

FILE *vt_text_stream_open(vt_text_stream *w) {
    *w = (vt_text_stream){.text = calloc(1, 1), .room = 1};
    if (w->text) w->stream = fopencookie(w, "w", (cookie_io_functions_t){.write = append_bytes});
    if (!w->stream) free(w->text), w->text = NULL;
    return w->stream;
}

char *vt_text_stream_close(vt_text_stream *w) {
    if (w->stream && fclose(w->stream) != 0) w->short_of = true;
    if (w->short_of) free(w->text), w->text = NULL;
    return w->text;
}
