/* SPDX-License-Identifier: MIT */
/* One LaTeX table (booktabs) of several evaluations: a row for each run, columns for clean and every attack. */
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "eval/result_index.h"
#include "eval/report/compare.h"
#include "base/markup.h"
#include "eval/report/summary.h"

/* The attacks of all runs, each once, in the order in which they are first named: their headers, borrowed. */
typedef struct columns {
    const vt_header_attack **list;
    int n;
    bool certified; /* a run has certificates */
} columns;

/* Returns the column of an attack; -1: it has none. */
static int column_of(const columns *c, const vt_header_attack *a) {
    for (int k = 0; k < c->n; k++)
        if (vt_compare_same(c->list[k], a)) return k;
    return -1;
}

/* Collects the attacks of n runs into c->list, to be freed. VT_E_MEMORY. */
static vt_status collect_columns(columns *c, vt_ledger *const *runs, int n, vt_err *e) {
    size_t most = 1;
    for (int i = 0; i < n; i++) most += (size_t)runs[i]->header->n_attacks;
    if (!(c->list = calloc(most, sizeof *c->list))) return vt_fail(e, VT_E_MEMORY, "no memory for a table");
    for (int i = 0; i < n; i++) {
        c->certified = c->certified || runs[i]->header->certify.method;
        for (int k = 1; k <= runs[i]->header->n_attacks; k++) {
            const vt_header_attack *a = vt_header_entry(runs[i]->header, k);
            if (column_of(c, a) < 0) c->list[c->n++] = a;
        }
    }
    return VT_OK;
}

/* Writes the label of column k. Attacks of one label and other options are told apart by numbers, which comments
 * explain. */
static void name_column(char *out, size_t size, const columns *c, int k) {
    char name[56];
    int before = 0, all = 0;
    for (int i = 0; i < c->n; i++) {
        bool same = !strcmp(c->list[i]->name, c->list[k]->name) && c->list[i]->scoring == c->list[k]->scoring;
        all += same, before += same && i < k;
    }
    vt_attack_label(c->list[k], name, sizeof name);
    if (all > 1)
        snprintf(out, size, "%s (%d)", name, before + 1);
    else
        snprintf(out, size, "%s", name);
}

/* Writes the name of run i's checkpoint, with the run's folder where another run has it too. */
static void name_run(char *out, size_t size, vt_ledger *const *runs, int n, int i) {
    char name[140], other[140];
    bool twice = false;
    vt_header_weights(runs[i]->header, name, sizeof name);
    for (int k = 0; k < n; k++)
        twice = twice || (k != i && !strcmp(name, vt_header_weights(runs[k]->header, other, sizeof other)));
    snprintf(out, size, twice ? "%s (%s)" : "%s", name, runs[i]->dir);
}

/* Writes text as one TeX comment line, cut where it is too long. */
static void write_comment(FILE *f, const char *text) {
    char plain[2000];
    fprintf(f, "%% %s\n", vt_text_line(plain, sizeof plain, text));
}

/* Writes a cell: the share in percent and its 95 % interval. */
static void write_cell(FILE *f, int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    fprintf(f, " & %.2f [%.2f, %.2f]", total ? 100 * (double)count / (double)total : 0, low, high);
}

/* Writes the row of a run; "--": it did not run the column's attack. */
static void write_row(FILE *f, const columns *c, const vt_summary *s, const char *name) {
    vt_tex(f, name);
    write_cell(f, s->correct, s->total);
    if (c->certified && s->header->certify.method)
        write_cell(f, s->certify.certified, s->total);
    else if (c->certified)
        fputs(" & --", f);
    for (int k = 0; k < c->n; k++) {
        int i = 0;
        while (i < s->n_entries && !vt_compare_same(s->entries[i].of, c->list[k])) i++;
        if (i < s->n_entries)
            write_cell(f, s->entries[i].all.robust, s->total);
        else
            fputs(" & --", f);
    }
    fputs(" \\\\\n", f);
}

/* Writes the table down to its head; the caption speaks of the first run. */
static void begin_table(FILE *f, const columns *c, const vt_summary *s) {
    char threat[120], text[900];
    snprintf(text, sizeof text, ": accuracy under attack in percent, %s, %.40s %.40s images %s, seed %lld.",
             vt_header_threat(s->header, threat, sizeof threat), s->header->data.format, s->header->data.split,
             s->images, (long long)s->header->seed);
    fputs("\\begin{table}\n\\centering\n\\caption{Checkpoints compared", f);
    vt_tex(f, text);
    fputs(" In brackets: 95\\,\\% interval.}\n\\begin{tabular}{l", f);
    for (int k = -c->certified; k <= c->n; k++) fputc('r', f);
    fprintf(f, "}\n\\toprule\n & clean%s", c->certified ? " & certified" : "");
    for (int k = 0; k < c->n; k++) name_column(text, sizeof text, c, k), fputs(" & ", f), vt_tex(f, text);
    fputs(" \\\\\n\\midrule\n", f);
}

/* Writes the row of run i, before the first one the head. Fails for a run that is not finished. */
static vt_status one_run(FILE *f, const columns *c, vt_ledger *const *runs, int n, int i, vt_err *e) {
    char name[600];
    vt_summary s;
    int64_t total;
    VT_TRY(vt_result_index_finished(runs[i], &total, e));
    VT_TRY(vt_summary_make(&s, runs[i], 0, e));
    if (!i) begin_table(f, c, &s);
    name_run(name, sizeof name, runs, n, i);
    write_row(f, c, &s, name);
    vt_summary_free(&s);
    return VT_OK;
}

vt_status vt_compare_tex(FILE *f, vt_ledger *const *runs, int n, vt_err *e) {
    columns c = {0};
    char text[1500], name[100];
    for (int i = 0; i < n; i++)
        if (runs[i]->header->curve)
            return vt_fail(e, VT_E_USAGE, "%s is a curve: @tex makes a table of evaluations", runs[i]->dir);
    VT_TRY(collect_columns(&c, runs, n, e));
    write_comment(f, "\\usepackage{booktabs}");
    for (int i = 0; i < n; i++) {
        name_run(text, sizeof text, runs, n, i);
        snprintf(text + strlen(text), sizeof text - strlen(text), ": weights %.64s", runs[i]->header->weights);
        write_comment(f, text);
        if (runs[i]->header->certify.method) write_comment(f, runs[i]->header->certify.sentence);
    }
    for (int k = 0; k < c.n; k++) {
        name_column(name, sizeof name, &c, k);
        snprintf(text, sizeof text, "%s: %s", name, c.list[k]->id);
        write_comment(f, text);
    }
    vt_status s = VT_OK;
    for (int i = 0; i < n && s == VT_OK; i++) s = one_run(f, &c, runs, n, i, e);
    fputs("\\bottomrule\n\\end{tabular}\n\\end{table}\n", f);
    free(c.list);
    return s;
}
