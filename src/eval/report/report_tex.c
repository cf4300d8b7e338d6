/* SPDX-License-Identifier: MIT */
/* table.tex (booktabs) */
#include <ctype.h>
#include "base/text.h"
#include "base/markup.h"
#include "eval/header.h"
#include "eval/report/summary.h"

/* Writes text as one TeX comment line, cut where it is too long. */
static void write_comment(FILE *f, const char *text) {
    char plain[700];
    fprintf(f, "%% %s\n", vt_text_line(plain, sizeof plain, text));
}

/* Writes text as part of a \label, such as tab:NAME-linf-8-255: letters, digits and dashes alone, which no package has
 * made active. */
static void write_label(FILE *f, const char *text) {
    for (; *text; text++) fputc(isalnum((unsigned char)*text) ? *text : '-', f);
}

/* Writes caption and \label of the table, the latter of name and threat. */
static void write_caption(FILE *f, const vt_summary *s, const char *name) {
    char threat[120], text[900];
    snprintf(text, sizeof text, "%s: accuracy under attack, %s, %.40s %.40s images %s, seed %lld.", name,
             vt_header_threat(s->header, threat, sizeof threat), s->header->data.format, s->header->data.split,
             s->images, (long long)s->header->seed);
    fputs("\\caption{", f), vt_tex(f, text), fputs("}\n\\label{tab:", f);
    write_label(f, name), fputc('-', f), write_label(f, threat), fputs("}\n", f);
}

/* Writes the table as LaTeX, notes and remarks as comments above it. A write error is left in f. */
static void write(FILE *f, const vt_summary *s) {
    char name[140], text[600];
    write_comment(f, "\\usepackage{booktabs}");
    snprintf(text, sizeof text, "vitrine %.40s, weights %s (%.64s)", s->header->version,
             vt_header_weights(s->header, name, sizeof name), s->header->weights);
    write_comment(f, text);
    for (size_t i = 0; vt_summary_note(s, i); i++) write_comment(f, vt_summary_note(s, i));
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) write_comment(f, text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) write_comment(f, text);
    }
    fputs("\\begin{table}\n\\centering\n", f);
    write_caption(f, s, name);
    fprintf(f, "\\begin{tabular}{lrrr}\n\\toprule\n & right / all & \\%% & 95\\,\\%% interval \\\\\n\\midrule\n");
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        fputs(r->level ? "\\quad " : "", f);
        vt_tex(f, r->label);
        fprintf(f, " & %lld / %lld & %.2f & [%.2f, %.2f] \\\\\n", (long long)r->count, (long long)r->total, r->percent,
                r->low, r->high);
    }
    fprintf(f, "\\bottomrule\n\\end{tabular}\n\\end{table}\n");
}

const vt_report_def vt_report_def_tex = {.name = "tex",
                                         .file = "table.tex",
                                         .summary = "LaTeX table (booktabs)",
                                         .write = write};
