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

/* Every form that is a file as OUT/NAME.suffix, and the terminal's to `terminal` (NULL: not). out NULL: no files. */
vt_status vt_table_write(const vt_table *t, const char *out, FILE *terminal, vt_err *e);

/* ---- parts ---- */

/* "1,3": the footnotes of a published cell; "" if none. */
const char *vt_table_marks(const vt_table *t, const vt_table_notes *notes, int published, char *buf, size_t size);
/* Sentence i of the footer; false past the end. */
bool vt_table_footer(const vt_table *t, int i, char *buf, size_t size);
/* "SpecFormer above TransFormer, CIFAR-10, clean" and "held: +2.10 [+0.31, +3.87] points; ...". */
void vt_table_ordering_text(const vt_table *t, const vt_table_ordering *o, char *what, size_t n_what, char *how,
                            size_t n_how);
/* "46.50", "-" for NAN */
const char *vt_table_number(double v, char buf[32]);
/* A cell's mean with the digits of its kind, and "[40.1, 52.9]"; "" without an interval. */
const char *vt_table_value(const vt_table_cell *c, char buf[32]);
const char *vt_table_interval(const vt_table_cell *c, char buf[60]);
/* "primary, ..." and "secondary, ...": what stands above the orderings from i on; NULL: they go on as before. */
const char *vt_table_heading(const vt_table *t, int i);
/* Does any row have a cell there? */
bool vt_table_column(const vt_table *t, int data, int attack);

void vt_table_term(FILE *f, const vt_table *t, const vt_table_notes *notes);
void vt_table_md(FILE *f, const vt_table *t, const vt_table_notes *notes);
void vt_table_tex(FILE *f, const vt_table *t, const vt_table_notes *notes);
void vt_table_html(FILE *f, const vt_table *t, const vt_table_notes *notes);
void vt_table_csv(FILE *f, const vt_table *t, const vt_table_notes *notes);
json_t *vt_table_json(const vt_table *t, const vt_table_notes *notes); /* NULL: no memory */
/* Computes every value, interval and p of a table's JSON anew from the counts of its seeds (--check): a line to out for
 * each that differs, and then VT_E_FORMAT, or one line that all agree. */
vt_status vt_table_check(const char *path, FILE *out, vt_err *e);
