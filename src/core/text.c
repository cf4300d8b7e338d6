/* SPDX-License-Identifier: MIT */
#include "core/text.h"

#include <stdio.h>
#include <string.h>

/* Is c, which follows what `at` has seen, obeyed? Bytes from 0x80 on are parts of letters inside of a sequence. */
static bool obeyed(vt_text_at *at, unsigned char c) {
    if (at->left > 0 && (c & 0xC0) == 0x80) {
        at->left--;
        return at->lead == 0xC2 && c < 0xA0;
    }
    at->lead = c;
    at->left = c < 0xC2 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : c < 0xF5 ? 3 : 0;
    return c < 32 || c == 127 || (c >= 0x80 && c < 0xA0);
}

void vt_text_plain(char *text, size_t n, const char *keep, vt_text_at *at) {
    vt_text_at whole = {0};
    if (!at) at = &whole;
    for (size_t i = 0; i < n; i++) {
        bool second = at->left > 0;
        if (!obeyed(at, (unsigned char)text[i]) || (text[i] && strchr(keep, text[i]))) continue;
        text[i] = '?';
        if (second && i && (unsigned char)text[i - 1] == 0xC2) text[i - 1] = '?';
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
        if (obeyed(&at, (unsigned char)*text)) return false;
    return true;
}
