/* SPDX-License-Identifier: MIT */
/* The terminal's form and Markdown. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/columns.h"
#include "base/markup.h"
#include "research/table/report.h"

/* buf: "40.10 to 41.20" (least to most of several seeds) and " (2 of 3 seeds)" if some are missing; else "". */
static void seeds_text(const vt_table_cell *c, char *buf, size_t size) {
    *buf = 0;
    if (c->done > 1) snprintf(buf, size, c->kind == VT_CELL_SIGMA ? "%.3f to %.3f" : "%.2f to %.2f", c->least, c->most);
    if (c->done < c->asked) snprintf(buf + strlen(buf), size - strlen(buf), " (%d of %d seeds)", c->done, c->asked);
}

/* ---- terminal ---- */

/* Adds a row of a column's table: ours, interval, seeds, published, difference. */
static void term_row(vt_columns *to, const vt_table *t, const vt_table_notes *notes, const char *row,
                     const vt_table_cell *c) {
    char ours[40], mean[32], interval[60], seeds[60], published[90] = "", marks[40], difference[32] = "", num[32];
    snprintf(ours, sizeof ours, "%s%s", vt_table_value(c, mean), c->best ? " *" : "  ");
    vt_table_interval(c, interval);
    seeds_text(c, seeds, sizeof seeds);
    if (c->published >= 0) {
        vt_table_marks(t, notes, c->published, marks, sizeof marks);
        vt_table_number(t->published->cells[c->published].value, num);
        snprintf(published, sizeof published, "%s%s%s%s", num, *marks ? " [" : "", marks, *marks ? "]" : "");
        if (c->done) snprintf(difference, sizeof difference, "%+.2f", c->difference);
    }
    vt_columns_cells(to, "  %s\t%s\t%s\t%s\t%s\t%s", row, ours, interval, seeds, published, difference);
}

/* Prints the orderings below their headings. */
static void term_orderings(FILE *f, const vt_table *t) {
    char what[600], how[300];
    for (int i = 0; i < t->n_orderings; i++) {
        if (vt_table_heading(t, i)) fprintf(f, "\n%s\n", vt_table_heading(t, i));
        vt_table_ordering_text(t, &t->orderings[i], what, sizeof what, how, sizeof how);
        fprintf(f, "  %s: %s\n", what, how);
    }
}

void vt_table_term(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char text[700];
    const vt_manifest *m = t->m;
    vt_columns columns;
    fprintf(f, "%s\n", m->title ? m->title : m->name);
    for (int d = 0; d < m->n_data; d++)
        for (int a = 0; a < m->n_attacks; a++) {
            if (!vt_table_column(t, d, a)) continue;
            fputc('\n', f);
            vt_columns_titles(&columns, "-%s, %s\tours  \t-%s\t-seeds\tpublished\tdiff", m->data[d].name,
                              m->attacks[a].name, m->attacks[a].steps ? "quartiles" : "95 % interval");
            for (int r = 0; r < m->n_rows; r++) {
                const vt_table_cell *c = vt_table_at(t, r, d, a);
                if (c->wanted) term_row(&columns, t, notes, m->rows[r].name, c);
            }
            vt_columns_end(&columns, f, VT_LOOK_PAGE);
        }
    term_orderings(f, t);
    fputc('\n', f);
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++)
        fprintf(f, "%s%s\n", strncmp(text, "Bold:", 5) ? "" : "* ", text);
    for (int k = 0; k < notes->n; k++)
        fprintf(f, "[%d] inconsistent as published: %s\n", k + 1, t->odd.items[notes->odd[k]].text);
}

/* ---- Markdown ---- */

/* Writes "63.63±0.95 (87.09)": mean, larger side of its interval, what is published. */
static void md_cell(FILE *f, const vt_table *t, const vt_table_notes *notes, const vt_table_cell *c) {
    char mean[32], marks[40];
    if (!c->wanted) {
        fputs(" |", f);
        return;
    }
    const char *bold = c->best ? "**" : "";
    fprintf(f, " %s%s%s", bold, vt_table_value(c, mean), bold);
    if (c->done && !isnan(c->low))
        fprintf(f, c->kind == VT_CELL_SIGMA ? "±%.3f" : "±%.2f", fmax(c->mean - c->low, c->high - c->mean));
    if (c->done < c->asked) fprintf(f, ", %d of %d seeds", c->done, c->asked);
    if (c->published >= 0) {
        fprintf(f, " (%.2f", t->published->cells[c->published].value);
        if (*vt_table_marks(t, notes, c->published, marks, sizeof marks)) fprintf(f, "<sup>%s</sup>", marks);
        fputc(')', f);
    }
    fputs(" |", f);
}

/* Writes data set d's table, unless it has no column. */
static void md_block(FILE *f, const vt_table *t, const vt_table_notes *notes, int d) {
    const vt_manifest *m = t->m;
    int columns = vt_table_columns(t, d);
    if (!columns) return;
    fputs("\n| ", f), vt_md(f, m->data[d].name), fputs(" |", f);
    for (int a = 0; a < m->n_attacks; a++)
        if (vt_table_column(t, d, a)) fputc(' ', f), vt_md(f, m->attacks[a].name), fputs(" |", f);
    fputs("\n|---|", f);
    while (columns--) fputs("---|", f);
    fputc('\n', f);
    for (int r = 0; r < m->n_rows; r++) {
        if (!vt_table_row(t, r, d)) continue;
        fputs("| ", f), vt_md(f, m->rows[r].name), fputs(" |", f);
        for (int a = 0; a < m->n_attacks; a++)
            if (vt_table_column(t, d, a)) md_cell(f, t, notes, vt_table_at(t, r, d, a));
        fputc('\n', f);
    }
}

/* ---- Markdown's table of orderings: a line a pair of rows, a column an attack ---- */

/* The ordering of i's rows and data under an attack; NULL: there is none in its family (primary or secondary). */
static const vt_table_ordering *pair_ordering(const vt_table *t, int i, int attack) {
    const vt_table_ordering *o = &t->orderings[i];
    for (int k = 0; k < t->n_orderings; k++) {
        const vt_table_ordering *x = &t->orderings[k];
        if (!x->primary == !o->primary && x->above == o->above && x->below == o->below && x->data == o->data &&
            x->attack == attack)
            return x;
    }
    return NULL;
}

/* Whether one of the orderings [from, to) is under that attack. */
static bool has_attack(const vt_table *t, int from, int to, int attack) {
    for (int i = from; i < to; i++)
        if (t->orderings[i].attack == attack) return true;
    return false;
}

/* Writes "+0.12 [-0.63, +0.87] undecided; -0.27 to +22.22 (+0.27 to +3.64)". */
static void md_ordering(FILE *f, const vt_table_ordering *o) {
    const vt_difference *d = &o->d;
    if (o->verdict != VT_TABLE_ABSENT && o->verdict != VT_TABLE_IDENTICAL)
        fprintf(f, " %+.2f \\[%+.2f, %+.2f\\]", d->points, d->low, d->high);
    fprintf(f, " %s", o->verdict == VT_TABLE_ABSENT ? "not there" : vt_table_verdict_name(o->verdict));
    if (isnan(o->gap)) return;
    if (o->all.n > 1)
        fprintf(f, "; %+.2f to %+.2f", o->all.least, o->all.most);
    else
        fprintf(f, "; %+.2f", o->gap);
    if (o->comparable.n) fprintf(f, " (%+.2f to %+.2f)", o->comparable.least, o->comparable.most);
}

/* Writes orderings [from, to), of one heading, as a table: a line for each pair, a column for each attack. */
static void md_orderings(FILE *f, const vt_table *t, int from, int to) {
    const vt_manifest *m = t->m;
    fputs("| points above, \\[95 % interval\\]; published |", f);
    for (int a = 0; a < m->n_attacks; a++)
        if (has_attack(t, from, to, a)) fputc(' ', f), vt_md(f, m->attacks[a].name), fputs(" |", f);
    fputs("\n|---|", f);
    for (int a = 0; a < m->n_attacks; a++)
        if (has_attack(t, from, to, a)) fputs("---|", f);
    fputc('\n', f);
    for (int i = from; i < to; i++) {
        const vt_table_ordering *o = &t->orderings[i], *x;
        int first = 0;
        while (!pair_ordering(t, i, first)) first++;
        if (pair_ordering(t, i, first) != o) continue; /* the pair's line is there */
        fputs("| ", f), vt_md(f, m->rows[o->above].name), fputs(" above ", f), vt_md(f, m->rows[o->below].name);
        if (m->n_data > 1) fputs(", ", f), vt_md(f, m->data[o->data].name);
        fputs(" |", f);
        for (int a = 0; a < m->n_attacks; a++) {
            if (!has_attack(t, from, to, a)) continue;
            if ((x = pair_ordering(t, i, a))) md_ordering(f, x);
            fputs(" |", f);
        }
        fputc('\n', f);
    }
}

void vt_table_md(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char text[700], how[400];
    fputs("# ", f), vt_md(f, t->m->title ? t->m->title : t->m->name), fputc('\n', f);
    for (int d = 0; d < t->m->n_data; d++) md_block(f, t, notes, d);
    for (int i = 0, next; i < t->n_orderings; i = next) {
        for (next = i + 1; next < t->n_orderings && !vt_table_heading(t, next);) next++;
        fprintf(f, "\n%s:\n\n", vt_table_heading(t, i));
        if (!t->orderings[i].primary) md_orderings(f, t, i, next);
        for (int k = i; k < next && t->orderings[k].primary; k++) {
            vt_table_ordering_text(t, &t->orderings[k], text, sizeof text, how, sizeof how);
            fputs("- ", f), vt_md(f, text), fputs(": ", f), vt_md(f, how), fputc('\n', f);
        }
    }
    fputc('\n', f);
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++) fputs("- ", f), vt_md(f, text), fputc('\n', f);
    fputs("- a±b (c): mean, larger side of its interval, published; after a difference the published range (of "
          "comparable size). Ends, seeds, p-values: .csv and .json.\n",
          f);
    for (int k = 0; k < notes->n; k++)
        fprintf(f, "- <sup>%d</sup> inconsistent as published: ", k + 1), vt_md(f, t->odd.items[notes->odd[k]].text),
            fputc('\n', f);
}
