/* SPDX-License-Identifier: MIT */
/* Tables of text. A column is as wide as its longest cell. If the table is wider than allowed, whole columns are
 * dropped, those of the largest rank first; what then is still too wide comes in parts, one below the other, each with
 * the first column. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include "base/text.h"

enum { VT_COLUMNS_MOST = 32 };

typedef enum vt_style { VT_STYLE_NONE, VT_STYLE_BOLD, VT_STYLE_GOOD, VT_STYLE_BAD } vt_style;

/* Where a table is shown: {0} stands for a file, which gets everything, without styles. */
typedef struct vt_look {
    int width;                              /* columns that may be used; 0: any number */
    void (*style)(FILE *f, vt_style style); /* sets what follows; NULL: never */
} vt_look;
#define VT_LOOK_PAGE (&(vt_look){.width = 80}) /* the same in a terminal, a pipe and a file */

typedef struct vt_column {
    const char *title;
    bool left; /* text begins at the left edge; numbers end at the right one */
    int rank;  /* 0: always shown; the larger, the sooner it leaves */
} vt_column;

typedef struct vt_columns {
    const vt_column *column; /* given, or `own` */
    int n;
    vt_column own[VT_COLUMNS_MOST];
    char titles[400];
    vt_text_stream cells; /* each a byte of style, its text, a zero */
} vt_columns;

/* Begins a table of n columns (at most VT_COLUMNS_MOST), whose rows must last until vt_columns_end. */
void vt_columns_begin(vt_columns *t, const vt_column *column, int n);
/* Begins a table whose columns are the titles that the format gives, separated by tabs, all of rank 0; a '-' before a
 * title makes its column one of text (left-aligned). t must not move until vt_columns_end. */
void vt_columns_titles(vt_columns *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds the next cell, row by row; "" leaves one empty. */
#define vt_columns_cell(t, ...) vt_columns_styled(t, VT_STYLE_NONE, __VA_ARGS__)
/* Adds the next cell, shown in a style if the look has styles. */
void vt_columns_styled(vt_columns *t, vt_style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds the cells that the format gives (cut after 999 bytes), separated by tabs. */
void vt_columns_cells(vt_columns *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints titles (unless all are empty) and rows to f, and frees the table. Without memory it prints a note instead. */
void vt_columns_end(vt_columns *t, FILE *f, const vt_look *look);
