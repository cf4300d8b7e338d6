/* SPDX-License-Identifier: MIT */
/* LaTeX (booktabs) and HTML. */
#include <math.h>
#include <string.h>
#include "base/markup.h"
#include "eval/report/page.h"
#include "research/table/report.h"

/* ---- LaTeX ---- */

/* Writes a cell's three columns: ours with its interval, published with footnotes, difference. */
static void tex_cell(FILE *f, const vt_table *t, const vt_table_notes *notes, const vt_table_cell *c) {
    char mean[32], marks[40], interval[60];
    fputs(" & ", f);
    if (c->wanted) {
        fprintf(f, c->best ? "\\textbf{%s}" : "%s", isnan(c->mean) ? "--" : vt_table_value(c, mean));
        if (*vt_table_interval(c, interval)) fprintf(f, " {\\scriptsize%s}", interval);
        if (c->done > 1)
            fprintf(f, c->kind == VT_CELL_SIGMA ? " {\\scriptsize\\{%.3f--%.3f\\}}" : " {\\scriptsize\\{%.1f--%.1f\\}}",
                    c->least, c->most);
    }
    fputs(" & ", f);
    if (c->wanted && c->published >= 0) {
        fprintf(f, "%.2f", t->published->cells[c->published].value);
        if (*vt_table_marks(t, notes, c->published, marks, sizeof marks)) fprintf(f, "\\textsuperscript{%s}", marks);
    }
    fputs(" & ", f);
    if (c->done && c->published >= 0) fprintf(f, "$%+.2f$", c->difference);
}

/* Writes data set d's tabular, unless it has no column. */
static void tex_block(FILE *f, const vt_table *t, const vt_table_notes *notes, int d) {
    const vt_manifest *m = t->m;
    int columns = vt_table_columns(t, d);
    if (!columns) return;
    fputs("\\begin{tabular}{l", f);
    for (int k = 0; k < columns; k++) fputs(" rrr", f);
    fputs("}\n\\toprule\n", f), vt_tex(f, m->data[d].name);
    for (int a = 0; a < m->n_attacks; a++)
        if (vt_table_column(t, d, a)) fputs(" & \\multicolumn{3}{c}{", f), vt_tex(f, m->attacks[a].name), fputc('}', f);
    fputs(" \\\\\n", f);
    for (int k = 0; k < columns; k++) fputs(" & ours & published & diff.", f);
    fputs(" \\\\\n\\midrule\n", f);
    for (int r = 0; r < m->n_rows; r++) {
        if (!vt_table_row(t, r, d)) continue;
        vt_tex(f, m->rows[r].name);
        for (int a = 0; a < m->n_attacks; a++)
            if (vt_table_column(t, d, a)) tex_cell(f, t, notes, vt_table_at(t, r, d, a));
        fputs(" \\\\\n", f);
    }
    fputs("\\bottomrule\n\\end{tabular}\n\n", f);
}

void vt_table_tex(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char text[700], how[400];
    fputs("% needs \\usepackage{booktabs}\n% ", f), vt_tex(f, t->m->title ? t->m->title : t->m->name), fputc('\n', f);
    for (int d = 0; d < t->m->n_data; d++) tex_block(f, t, notes, d);
    fputs("{\\footnotesize\n", f);
    for (int i = 0; i < t->n_orderings; i++) {
        if (vt_table_heading(t, i)) vt_tex(f, vt_table_heading(t, i)), fputs(".\\par\n", f);
        vt_table_ordering_text(t, &t->orderings[i], text, sizeof text, how, sizeof how);
        vt_tex(f, text), fputs(": ", f), vt_tex(f, how), fputs(".\\par\n", f);
    }
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++) vt_tex(f, text), fputs("\\par\n", f);
    for (int k = 0; k < notes->n; k++)
        fprintf(f, "\\textsuperscript{%d} inconsistent as published: ", k + 1),
            vt_tex(f, t->odd.items[notes->odd[k]].text), fputs(".\\par\n", f);
    fputs("}\n", f);
}

/* ---- HTML ---- */

enum { FIRST = 150, COLUMN = 130 }; /* pixels that a row's name and a column want */

/* Writes the page's head, with a width for each data set's table. */
static void html_begin(FILE *f, const vt_table *t, const char *title) {
    char name[24];
    vt_page_begin(f, title);
    for (int d = 0; d < t->m->n_data; d++) {
        snprintf(name, sizeof name, "data%d", d);
        vt_page_blocks(f, name, FIRST + COLUMN * vt_table_columns(t, d));
    }
    vt_page_main(f);
}

/* Writes a cell: ours; its interval and seeds; the published number and the difference. */
static void html_cell(FILE *f, const vt_table *t, const vt_table_notes *notes, int attack, const vt_table_cell *c) {
    char mean[32], marks[40], interval[60];
    fputs("<td data-of=\"", f), vt_html(f, t->m->attacks[attack].name), fputs("\">", f);
    if (c->wanted) {
        fprintf(f, c->best ? "<b>%s</b>" : "%s", vt_table_value(c, mean));
        if (*vt_table_interval(c, interval)) fprintf(f, " <small>%s</small>", interval);
        if (c->done > 1)
            fprintf(f, c->kind == VT_CELL_SIGMA ? " <small>{%.3f to %.3f}</small>" : " <small>{%.2f to %.2f}</small>",
                    c->least, c->most);
    }
    if (c->wanted && c->published >= 0) {
        fprintf(f, "<br/><small>published %.2f", t->published->cells[c->published].value);
        if (*vt_table_marks(t, notes, c->published, marks, sizeof marks)) fprintf(f, "<sup>%s</sup>", marks);
        if (c->done) fprintf(f, ", %+.2f", c->difference);
        fputs("</small>", f);
    }
    fputs("</td>", f);
}

/* Writes data set d's column headings. */
static void html_head(FILE *f, const vt_table *t, int d) {
    fputs("<thead><tr><td></td>", f);
    for (int a = 0; a < t->m->n_attacks; a++)
        if (vt_table_column(t, d, a))
            fputs("<th scope=\"col\">", f), vt_html(f, t->m->attacks[a].name), fputs("</th>", f);
    fputs("</tr></thead>\n<tbody>\n", f);
}

/* Writes data set d's section, unless it has no column. */
static void html_block(FILE *f, const vt_table *t, const vt_table_notes *notes, int d) {
    const vt_manifest *m = t->m;
    if (!vt_table_columns(t, d)) return;
    fputs("<section><h2>", f), vt_html(f, m->data[d].name);
    fprintf(f,
            "</h2>\n<table class=\"data%d\"><caption>ours [interval] {least to most of the seeds}; published, and ours "
            "minus that; bold: best of its group by a paired test</caption>\n",
            d);
    html_head(f, t, d);
    for (int r = 0; r < m->n_rows; r++) {
        if (!vt_table_row(t, r, d)) continue;
        fputs("<tr><th scope=\"row\">", f), vt_html(f, m->rows[r].name), fputs("</th>", f);
        for (int a = 0; a < m->n_attacks; a++)
            if (vt_table_column(t, d, a)) html_cell(f, t, notes, a, vt_table_at(t, r, d, a));
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></section>\n", f);
}

/* Writes the section of orderings, a list for each heading; nothing if there are none. */
static void html_orderings(FILE *f, const vt_table *t) {
    char text[700], how[400];
    if (!t->n_orderings) return;
    fputs("<section><h2>Orderings</h2>\n", f);
    for (int i = 0; i < t->n_orderings; i++) {
        if (vt_table_heading(t, i))
            fputs(i ? "</ul>\n<p>" : "<p>", f), vt_html(f, vt_table_heading(t, i)), fputs("</p>\n<ul>\n", f);
        vt_table_ordering_text(t, &t->orderings[i], text, sizeof text, how, sizeof how);
        fputs("<li>", f), vt_html(f, text), fputs(": ", f), vt_html(f, how), fputs("</li>\n", f);
    }
    fputs("</ul></section>\n", f);
}

void vt_table_html(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char text[700];
    const char *title = t->m->title ? t->m->title : t->m->name;
    html_begin(f, t, title);
    fputs("<h1>", f), vt_html(f, title), fputs("</h1>\n", f);
    for (int d = 0; d < t->m->n_data; d++) html_block(f, t, notes, d);
    html_orderings(f, t);
    fputs("<section><h2>Notes</h2>\n", f);
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++) vt_page_paragraph(f, "", text);
    for (int k = 0; k < notes->n; k++)
        fprintf(f, "<p><sup>%d</sup> inconsistent as published: ", k + 1), vt_html(f, t->odd.items[notes->odd[k]].text),
            fputs("</p>\n", f);
    fputs("</section>\n", f);
    vt_page_end(f);
}
