/* SPDX-License-Identifier: MIT */
/* Text that comes from files, made safe to show: a terminal obeys control characters, also those of C1 (U+0080 to
 * U+009F), whether as UTF-8 or as single bytes, and marks of direction (U+061C, U+200E, U+200F, U+202A to U+202E,
 * U+2066 to U+2069), by which a name is shown backwards. All are called control characters here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where in a UTF-8 sequence a piece of text ended; zero at its start. */
typedef struct vt_text_at {
    unsigned char lead, second; /* the sequence's first two bytes */
    int left;
} vt_text_at;

/* Replaces control characters in text [n], but for `keep`, by '?'. at: it goes on from there; NULL: this is all. */
void vt_text_plain(char *text, size_t n, const char *keep, vt_text_at *at);
/* Copies text into buf, cut to fit, with every control character as '?'; returns buf. */
const char *vt_text_line(char *buf, size_t size, const char *text);
/* Returns whether it has no control characters. */
bool vt_text_is_plain(const char *text);

/* Returns the length, 2 to 4, of the UTF-8 sequence at p; 0: an ASCII byte, malformed or cut
 * off (Unicode 15, table 3-7), or U+FFFE or U+FFFF, which XML and YAML do not have. */
size_t vt_utf8_sequence(const unsigned char *p);

/* Appends an item to the text `list`, after `sep` if it is not the first, cut to fit. */
__attribute__((format(printf, 4, 5))) void vt_text_item(char *list, size_t size, const char *sep, const char *fmt, ...);

/* ---- text that is put together by writing to a stream in memory ---- */

/* A stream into memory that reports at the end whether all of it was kept. (glibc's open_memstream does not: if memory
 * runs out it drops the rest, or in its fclose all of it, and reports success.) */
typedef struct vt_text_stream {
    FILE *stream;
    char *text;
    size_t n, room; /* length; bytes taken */
    bool short_of;  /* there was no memory for some of it */
} vt_text_stream;
FILE *vt_text_stream_open(vt_text_stream *w);  /* NULL: no memory; vt_text_stream_close is then still to be called */
char *vt_text_stream_close(vt_text_stream *w); /* the text, w->n bytes and a 0, to be freed; NULL: no memory */
