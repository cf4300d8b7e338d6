/* SPDX-License-Identifier: MIT */
#include "core/fold.h"

#include <string.h>

bool vt_fold_is_row(const char *line, size_t n) {
    int fields = 0;
    size_t gap = 2; /* spaces before here */
    for (size_t i = 0; i < n; i++) {
        if (line[i] == ' ') {
            gap++;
            continue;
        }
        fields += gap >= 2;
        gap = 0;
    }
    return fields >= 3;
}

typedef struct lines {
    const char *text;
    size_t n;
} lines;

/* The next line at *at, without its end; false past the last. */
static bool read_next_line(const lines *l, size_t *at, const char **line, size_t *n) {
    if (*at >= l->n) return false;
    const char *start = l->text + *at, *end = memchr(start, '\n', l->n - *at);
    *line = start, *n = end ? (size_t)(end - start) : l->n - *at;
    *at += *n + 1;
    return true;
}

/* May the table be cut before character c? It is blank in every line, and no space between two words. */
static bool is_column_gap(const lines *l, size_t c) {
    const char *line;
    size_t n;
    for (size_t at = 0; read_next_line(l, &at, &line, &n);) {
        bool word = c > 0 && c + 1 < n && line[c - 1] != ' ' && line[c + 1] != ' ';
        if (c < n && (line[c] != ' ' || word)) return false;
    }
    return true;
}

static size_t longest_line_length(const lines *l) {
    const char *line;
    size_t n, most = 0;
    for (size_t at = 0; read_next_line(l, &at, &line, &n);)
        if (n > most) most = n;
    return most;
}

/* Where a part that begins at `from` ends: the last blank column within `room`, else the first one behind it. */
static size_t find_cut_column(const lines *l, size_t from, size_t room, size_t most) {
    if (most - from <= room) return most;
    for (size_t c = from + room; c > from + 1; c--)
        if (is_column_gap(l, c) && !is_column_gap(l, c - 1)) return c;
    for (size_t c = from + room; c < most; c++)
        if (is_column_gap(l, c)) return c;
    return most;
}

static void print_part(FILE *f, const lines *l, size_t label, size_t from, size_t to) {
    const char *line;
    size_t n;
    for (size_t at = 0; read_next_line(l, &at, &line, &n);) {
        size_t end = n < to ? n : to, last = from > label ? label : 0; /* the first part holds its label anyway */
        while (end > from && line[end - 1] == ' ') end--;
        if (last) fprintf(f, "%-*.*s", (int)last, (int)(n < last ? n : last), line);
        if (end > from) fwrite(line + from, 1, end - from, f);
        fputc('\n', f);
    }
}

void vt_fold(FILE *f, const char *text, size_t n, int width) {
    const lines l = {text, n};
    size_t most = longest_line_length(&l), room = (size_t)width, label = 0;
    if (most <= room) {
        fwrite(text, 1, n, f);
        return;
    }
    while (label < most && is_column_gap(&l, label)) label++;
    while (label < most && !is_column_gap(&l, label)) label++;
    if (label > room / 2) label = 0;
    for (size_t from = 0, to; from < most; from = to) {
        to = find_cut_column(&l, from, from ? room - label : room, most);
        if (from) fputc('\n', f);
        print_part(f, &l, label, from, to);
    }
}
