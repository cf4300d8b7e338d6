/* SPDX-License-Identifier: MIT */
/* A table as text in six forms. Pure functions of its numbers: the same cells give the same bytes. */
#pragma once

#include <stdio.h>
#include "research/table/result.h"

/* Footnotes: what is inconsistent about published cells that the table shows, in the order in which they come up. */
typedef struct vt_table_notes {
    int *odd; /* [n] indices of findings; footnote k is odd[k - 1] */
    int n;
} vt_table_notes;

/* Writes OUT/NAME.suffix of each form (out NULL: none) and the terminal's (NULL: not). VT_E_IO, VT_E_MEMORY. */
vt_status vt_table_write(const vt_table *t, const char *out, FILE *terminal, vt_err *e);

/* ---- parts ---- */

/* Returns buf: the numbers of the footnotes on a published cell (an index), "1,3"; "" if none, or for published -1. */
const char *vt_table_marks(const vt_table *t, const vt_table_notes *notes, int published, char *buf, size_t size);
/* buf: sentence i of the footer: data, attacks, methods, verdicts, warnings, notes, version; false past the end. */
bool vt_table_footer(const vt_table *t, int i, char *buf, size_t size);
/* what: "SpecFormer above TransFormer, CIFAR-10, clean"; how: "held: +2.10 [+0.31, +3.87] points; ...". */
void vt_table_ordering_text(const vt_table *t, const vt_table_ordering *o, char *what, size_t n_what, char *how,
                            size_t n_how);
/* Returns buf: "46.50", or "-" for NaN. */
const char *vt_table_number(double v, char buf[32]);
/* Returns buf: a cell's mean with the digits of its kind, "-" for NaN. */
const char *vt_table_value(const vt_table_cell *c, char buf[32]);
/* Returns buf: a cell's interval, "[40.1, 52.9]"; "" if it has none. */
const char *vt_table_interval(const vt_table_cell *c, char buf[60]);
/* Heading of the orderings from i on, "Primary ...", "Secondary ..." or "Orderings ..."; NULL: as for i - 1. */
const char *vt_table_heading(const vt_table *t, int i);
/* Whether any row has a cell in that column. */
bool vt_table_column(const vt_table *t, int data, int attack);
/* How many columns have a cell on that data set. */
int vt_table_columns(const vt_table *t, int data);
/* Whether the row has a cell on that data set. */
bool vt_table_row(const vt_table *t, int row, int data);

/* Writes the terminal's form: a table for each data set and column, orderings, footer, footnotes. */
void vt_table_term(FILE *f, const vt_table *t, const vt_table_notes *notes);
/* Writes Markdown: a table for each data set, orderings, footer, footnotes. */
void vt_table_md(FILE *f, const vt_table *t, const vt_table_notes *notes);
/* Writes LaTeX (booktabs): a tabular for each data set, then orderings, footer and footnotes. */
void vt_table_tex(FILE *f, const vt_table *t, const vt_table_notes *notes);
/* Writes a whole HTML page: a table for each data set, orderings, footer, footnotes. */
void vt_table_html(FILE *f, const vt_table *t, const vt_table_notes *notes);
/* Writes CSV: a line for each cell, with a heading; empty fields for NaN. */
void vt_table_csv(FILE *f, const vt_table *t, const vt_table_notes *notes);
/* JSON of cells with their seeds, orderings, calibrations and footer; the caller owns it. NULL: no memory. */
json_t *vt_table_json(const vt_table *t, const vt_table_notes *notes);
/* Computes every value, interval, p and verdict of a table's JSON anew from its seeds' counts (--check): prints a line
 * for each that differs, and fails with VT_E_FORMAT, or one line if all agree. */
vt_status vt_table_check_json(const json_t *o, const char *path, FILE *out, vt_err *e);
/* The same of a file. */
vt_status vt_table_check(const char *path, FILE *out, vt_err *e);
