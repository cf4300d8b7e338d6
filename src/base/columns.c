/* SPDX-License-Identifier: MIT */
#include "base/columns.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = VT_COLUMNS_MOST, GAP = 2 };

void vt_columns_begin(vt_columns *t, const vt_column *column, int n) {
    *t = (vt_columns){.column = column, .n = n < MOST ? n : MOST};
    vt_text_stream_open(&t->cells);
}

void vt_columns_titles(vt_columns *t, const char *format, ...) {
    va_list values;
    vt_columns_begin(t, NULL, 0);
    va_start(values, format);
    vsnprintf(t->titles, sizeof t->titles, format, values);
    va_end(values);
    char *rest = t->titles;
    for (char *title; t->n < MOST && (title = strsep(&rest, "\t")); t->n++)
        t->own[t->n] = (vt_column){title + (*title == '-'), *title == '-', 0};
    t->column = t->own;
}

void vt_columns_styled(vt_columns *t, vt_style style, const char *format, ...) {
    FILE *f = t->cells.stream;
    va_list values;
    if (!f) return;
    va_start(values, format);
    fputc((int)style + 1, f);
    vfprintf(f, format, values);
    fputc(0, f);
    va_end(values);
}

void vt_columns_cells(vt_columns *t, const char *format, ...) {
    char text[1000], *rest = text, *cell;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    while ((cell = strsep(&rest, "\t"))) vt_columns_cell(t, "%s", cell);
}

/* Returns the number of characters of UTF-8. */
static int utf8_length(const char *text) {
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* Writes each column's width: that of its longest cell or its title. */
static void measure_widths(const vt_columns *t, int *width) {
    const char *end = t->cells.text + t->cells.n;
    for (int k = 0; k < t->n; k++) width[k] = utf8_length(t->column[k].title);
    int k = 0;
    for (const char *p = t->cells.text; p < end; p += strlen(p) + 1, k = (k + 1) % t->n)
        if (utf8_length(p + 1) > width[k]) width[k] = utf8_length(p + 1);
}

/* Drops columns (width -1), those of the largest rank first, never of rank 0, until the rest fits into `most` (0:
 * always). */
static void drop_columns_to_fit(const vt_columns *t, int *width, int most) {
    for (;;) {
        int sum = -GAP, last = -1;
        for (int k = 0; k < t->n; k++) {
            if (width[k] < 0) continue;
            sum += width[k] + GAP;
            if (t->column[k].rank && (last < 0 || t->column[k].rank >= t->column[last].rank)) last = k;
        }
        if (!most || sum <= most || last < 0) return;
        width[last] = -1;
    }
}

/* Prints cell k of a row after *pending spaces, and sets *pending to the spaces before the next one; an empty cell
 * prints nothing and adds its width to *pending. */
static void print_cell(FILE *f, const vt_columns *t, const vt_look *look, int k, int width, int *pending,
                       const char *text, vt_style style) {
    int n = utf8_length(text), before = t->column[k].left ? 0 : width - n;
    if (!n) {
        *pending += width + GAP;
        return;
    }
    fprintf(f, "%*s", *pending + before, "");
    if (style && look->style) look->style(f, style);
    fputs(text, f);
    if (style && look->style) look->style(f, VT_STYLE_NONE);
    *pending = width - n - before + GAP;
}

/* Prints titles (unless all are empty) and rows, of the first column and of those from `from` to before `to`. */
static void print_part(FILE *f, const vt_columns *t, const vt_look *look, const int *width, int from, int to) {
    bool titled = false;
    int pending = 0, k = 0;
    for (int i = 0; i < t->n; i++) titled = titled || *t->column[i].title;
    for (int i = 0; i < to && titled; i = i < from ? from : i + 1)
        if (width[i] >= 0) print_cell(f, t, look, i, width[i], &pending, t->column[i].title, VT_STYLE_NONE);
    if (titled) fputc('\n', f);
    pending = 0;
    for (const char *p = t->cells.text, *end = p + t->cells.n; p < end; p += strlen(p) + 1) {
        if (width[k] >= 0 && (!k || (k >= from && k < to)))
            print_cell(f, t, look, k, width[k], &pending, p + 1, (vt_style)(*p - 1));
        if (++k < t->n) continue;
        fputc('\n', f);
        k = pending = 0;
    }
}

/* Prints the table in as many parts as look->width needs (0: one), the first column in each; width -1: left out. */
static void print_table(FILE *f, const vt_columns *t, const vt_look *look, const int *width) {
    int from = 1, to;
    do {
        int sum = width[0];
        for (to = from; to < t->n; to++) {
            if (width[to] >= 0) sum += GAP + width[to];
            if (width[to] >= 0 && look->width && sum > look->width && to > from) break;
        }
        if (from > 1) fputc('\n', f);
        print_part(f, t, look, width, from, to);
        from = to;
    } while (from < t->n);
}

void vt_columns_end(vt_columns *t, FILE *f, const vt_look *look) {
    int width[MOST];
    char *text = vt_text_stream_close(&t->cells);
    if (text) {
        measure_widths(t, width);
        drop_columns_to_fit(t, width, look->width);
        print_table(f, t, look, width);
    } else {
        fputs("(no memory for this table)\n", f);
    }
    free(text);
    *t = (vt_columns){0};
}
