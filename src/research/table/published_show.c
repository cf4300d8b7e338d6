/* SPDX-License-Identifier: MIT */
/* Published numbers as text, with the footnotes that they need. */
#include <stdlib.h>
#include <string.h>
#include "research/table/consistency.h"

static const char *const block_keys[] = {"table", "training", "backbone", NULL};
static const char *const column_keys[] = {"dataset", "attack", "metric", NULL};
static const char *const not_row[] = {"table", "training", "backbone", "dataset", "attack", "metric", NULL};

typedef struct view {
    const vt_published *p;
    const vt_oddities *f;
    int *block, *column, *row; /* group of each cell */
    int blocks, columns, rows;
    int *first; /* [columns] the block's first cell of each, -1: none */
} view;

/* out: the cell's key values that are neither in the block's nor in the columns' headings. */
static void row_label(const view *v, int i, char *out, size_t size) {
    size_t used = 0;
    *out = 0;
    for (int k = 0; k < v->p->n_keys; k++) {
        const char *value = v->p->cells[i].at[k];
        if (!vt_published_listed(not_row, v->p->keys[k]) && *value && used + 1 < size)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", value);
    }
}

/* out: a cell with the numbers of its findings, "47.07 [1,3]". */
static void cell_text(const view *v, int i, char *out, size_t size) {
    const struct vt_published_cell *c = &v->p->cells[i]; /* percentages as papers print them, 50.00 */
    size_t used = (size_t)(v->p->unit == VT_PERCENT ? snprintf(out, size, "%.2f", c->value)
                                                    : snprintf(out, size, "%s", c->shown));
    bool any = false;
    for (int k = 0; k < v->f->n && used + 8 < size; k++) {
        if (!vt_oddity_has(&v->f->items[k], i)) continue;
        used += (size_t)snprintf(out + used, size - used, "%s%d", any ? "," : " [", k + 1);
        any = true;
    }
    if (any) snprintf(out + used, size - used, "]");
}

/* A cell of a block and row, in a column or (-1) in any; -1: none. */
static int find_cell(const view *v, int block, int row, int column) {
    for (int i = 0; i < v->p->n; i++)
        if (v->block[i] == block && v->row[i] == row && (column < 0 || v->column[i] == column)) return i;
    return -1;
}

enum { ROW_WIDTH = 30, WIDTH = 15, COLUMNS = 3 };

/* Prints the columns' values of a key, left out if no column has one. */
static void print_heading_line(FILE *out, const view *v, const int *columns, int n, const char *key) {
    bool any = false;
    for (int k = 0; k < n; k++) any = any || *vt_published_at(v->p, v->first[columns[k]], key);
    if (!any) return;
    fprintf(out, "%-*s", ROW_WIDTH, "");
    for (int k = 0; k < n; k++) fprintf(out, " %*.*s", WIDTH, WIDTH, vt_published_at(v->p, v->first[columns[k]], key));
    fputc('\n', out);
}

/* Prints n columns of block b with their headings, a line for each row that has cells. */
static void print_columns(FILE *out, const view *v, int b, const int *columns, int n) {
    char text[80];
    for (int k = 0; column_keys[k]; k++) print_heading_line(out, v, columns, n, column_keys[k]);
    for (int r = 0; r < v->rows; r++) {
        int any = find_cell(v, b, r, -1);
        if (any < 0) continue;
        row_label(v, any, text, sizeof text);
        fprintf(out, "%-*s", ROW_WIDTH, text);
        for (int k = 0; k < n; k++) {
            int i = find_cell(v, b, r, columns[k]);
            *text = 0;
            if (i >= 0) cell_text(v, i, text, sizeof text);
            fprintf(out, " %*s", WIDTH, text);
        }
        fputc('\n', out);
    }
}

/* Prints block b, COLUMNS at a time below each other; columns of one data set are adjacent. Sets v->first; columns
 * [v->columns]: scratch. */
static void print_block(FILE *out, const view *v, int b, int *columns) {
    char where[160];
    int n = 0, i = 0;
    for (int c = 0; c < v->columns; c++) v->first[c] = -1;
    for (int k = v->p->n; k-- > 0;)
        if (v->block[k] == b) v->first[v->column[k]] = k;
    while (v->block[i] != b) i++;
    fprintf(out, "%s\n", vt_published_place(v->p, i, block_keys, where, sizeof where));
    for (int c = 0; c < v->columns; c++) { /* columns of one data set stand together */
        int here = v->first[c], at = n;
        if (here < 0) continue;
        for (int k = 0; k < n; k++)
            if (!strcmp(vt_published_at(v->p, v->first[columns[k]], "dataset"), vt_published_at(v->p, here, "dataset")))
                at = k + 1;
        memmove(columns + at + 1, columns + at, (size_t)(n++ - at) * sizeof *columns);
        columns[at] = c;
    }
    for (int k = 0; k < n; k += COLUMNS) print_columns(out, v, b, columns + k, n - k < COLUMNS ? n - k : COLUMNS);
    fputc('\n', out);
}

/* Whether a finding names a cell of the table, or no cell at all, or all tables are shown. */
static bool is_shown(const vt_published *p, const vt_oddity *f, const char *table) {
    if (!table || !f->n) return true;
    for (int i = 0; i < f->n; i++)
        if (!strcmp(vt_published_at(p, f->cells[i], "table"), table)) return true;
    return false;
}

/* Groups the cells into blocks, columns and rows; VT_E_MEMORY. */
static vt_status open_view(view *v, vt_err *e) {
    v->block = vt_published_group(v->p, block_keys, false, &v->blocks);
    v->column = vt_published_group(v->p, column_keys, false, &v->columns);
    v->row = vt_published_group(v->p, not_row, true, &v->rows);
    v->first = calloc((size_t)v->columns + 1, sizeof *v->first);
    if (v->block && v->column && v->row && v->first) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to show it", v->p->path);
}

vt_status vt_published_show(FILE *out, const vt_published *p, const vt_oddities *f, const char *table, vt_err *e) {
    view v = {.p = p, .f = f};
    vt_status s = open_view(&v, e);
    int *columns = calloc((size_t)v.columns + 1, sizeof *columns), any = 0;
    if (s == VT_OK && !columns) s = vt_fail(e, VT_E_MEMORY, "%s: no memory to show it", p->path);
    for (int b = 0; s == VT_OK && b < v.blocks; b++) {
        int i = 0;
        while (v.block[i] != b) i++;
        if (table && strcmp(vt_published_at(p, i, "table"), table)) continue;
        print_block(out, &v, b, columns), any++;
    }
    for (int k = 0; s == VT_OK && any && k < f->n; k++)
        if (is_shown(p, &f->items[k], table))
            fprintf(out, "[%d] %s%s\n", k + 1, f->items[k].note ? "" : "inconsistent as published: ", f->items[k].text);
    free(v.block), free(v.column), free(v.row), free(v.first), free(columns);
    if (s == VT_OK && !any) s = vt_fail(e, VT_E_USAGE, "%s: has no table '%.40s'", p->path, table);
    return s;
}
