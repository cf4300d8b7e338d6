/* table.tex (booktabs) */
#include "core/text.h"
#include "eval/markup.h"
#include "eval/summary.h"

/* A comment ends with its line, and a text has none: nothing else in it means anything. */
static void comment(FILE *f, const char *text) {
    char plain[700];
    fprintf(f, "%% %s\n", vt_text_line(plain, sizeof plain, text));
}

static void write(FILE *f, const vt_summary *s) {
    vt_row r;
    char threat[120];
    char text[600];
    snprintf(text, sizeof text, "vitrine %.40s, weights %.12s, %s", vt_header_text(s->header, "vitrine"),
             vt_header_text(s->header, "weights"), vt_header_threat(s->header, threat, sizeof threat));
    comment(f, text);
    for (size_t i = 0; vt_header_note(s->header, i); i++) comment(f, vt_header_note(s->header, i));
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) comment(f, text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) comment(f, text);
    }
    fprintf(f, "\\begin{tabular}{lrrr}\n\\toprule\n & right / all & \\%% & 95\\,\\%% interval \\\\\n\\midrule\n");
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        fputs(r.level ? "\\quad " : "", f);
        vt_tex(f, r.label);
        fprintf(f, " & %lld / %lld & %.2f & [%.2f, %.2f] \\\\\n", (long long)r.count, (long long)r.total, r.percent,
                r.low, r.high);
    }
    fprintf(f, "\\bottomrule\n\\end{tabular}\n");
}

const vt_report_def vt_report_def_tex = {.name = "tex",
                                         .file = "table.tex",
                                         .summary = "LaTeX table (booktabs)",
                                         .write = write};
