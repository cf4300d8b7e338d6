/* SPDX-License-Identifier: MIT */
/* table.md */
#include "base/markup.h"
#include "eval/header.h"
#include "eval/report/published.h"

/* Writes text as an item of a list. */
static void write_item(FILE *f, const char *text) { fputs("\n* ", f), vt_md(f, text); }

/* Writes the table of published beside corrected results, if the run has one. */
static void write_published_table(FILE *f, const vt_summary *s) {
    char title[200];
    vt_published_pair p;
    if (!vt_published_title(s, title, sizeof title)) return;
    fputs("\n\n", f), vt_md(f, title);
    fputs("\n\n| | as published | % | corrected | % | difference |\n|---|---:|---:|---:|---:|---:|\n", f);
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) {
        double all = p.total ? (double)p.total : 1;
        fputs("| ", f), vt_md(f, p.label);
        fprintf(f, " | %lld / %lld | %.2f | %lld / %lld | %.2f | %+.2f |\n", (long long)p.published, (long long)p.total,
                100 * (double)p.published / all, (long long)p.corrected, (long long)p.total,
                100 * (double)p.corrected / all, p.points);
    }
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) write_item(f, p.label), fputs(": ", f), vt_md(f, p.why);
}

/* Writes the report as Markdown: the table, what was evaluated, notes, attacks and remarks. A write error is left in
 * f. */
static void write(FILE *f, const vt_summary *s) {
    char threat[120], name[140];
    const vt_header *h = s->header;
    fprintf(f, "| | right / all | %% | 95 %% interval | borderline | gradients | forwards "
               "|\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        fputs(r->level ? "| &nbsp;&nbsp;" : "| ", f), vt_md(f, r->label);
        fprintf(f, " | %lld / %lld | %.2f | [%.2f, %.2f] |", (long long)r->count, (long long)r->total, r->percent,
                r->low, r->high);
        if (r->has_attack)
            fprintf(f, " %lld | %lld | %lld |\n", (long long)r->borderline, (long long)r->gradients,
                    (long long)r->forwards);
        else
            fprintf(f, " | | |\n");
    }
    char text[900];
    snprintf(text, sizeof text, "%s, seed %lld, %.40s %.40s images %s, weights %s (%.12s), data %.12s, vitrine %.40s.",
             vt_header_threat(h, threat, sizeof threat), (long long)h->seed, h->data.format, h->data.split, s->images,
             vt_header_weights(h, name, sizeof name), h->weights, h->data.sha256, h->version);
    fputc('\n', f), vt_md(f, text), fputc('\n', f);
    for (size_t i = 0; vt_summary_note(s, i); i++) write_item(f, vt_summary_note(s, i));
    for (int i = 0; i < s->n_entries; i++)
        if (s->entries[i].of->scoring != VT_SCORE_EIGHT_BIT)
            write_item(f, s->entries[i].all.label), fputs(" = ", f), vt_md_code(f, s->entries[i].of->id);
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) write_item(f, text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) write_item(f, text);
    }
    write_published_table(f, s);
    fputc('\n', f);
}

const vt_report_def vt_report_def_md = {.name = "md", .file = "table.md", .summary = "Markdown table", .write = write};
