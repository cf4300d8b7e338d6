/* SPDX-License-Identifier: MIT */
/* table.csv; what a row is about stands in every row, so that tables of several runs can be joined. */
#include "base/markup.h"
#include "eval/header.h"
#include "eval/report/summary.h"

/* Writes the columns that are equal in all rows: names and hashes, norm, eps, seed. */
static void run_columns(FILE *f, const vt_header *h) {
    char threat[120];
    const char *const texts[] = {h->weights_name, h->weights, h->data.sha256, h->norm_name,
                                 vt_header_is_threat(h) ? vt_header_threat(h, threat, sizeof threat) : h->eps_text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) vt_csv(f, texts[i]), fputc(',', f);
    fprintf(f, "%lld,", (long long)h->seed);
}

/* Writes table.csv: a line for each row of the table. */
static void write(FILE *f, const vt_summary *s) {
    vt_shape at = s->header->shape;
    bool searched = *s->header->search; /* in float32 no column: the table is as it was before there was a choice */
    fprintf(f,
            "row,level,count,total,percent,low95,high95,borderline,gradients,forwards,weights_name,weights,data,norm,"
            "eps,seed,attacked_at%s\n",
            searched ? ",search" : "");
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        vt_csv(f, r->label);
        fprintf(f, ",%d,%lld,%lld,%.4f,%.4f,%.4f,", r->level, (long long)r->count, (long long)r->total, r->percent,
                r->low, r->high);
        if (r->has_attack)
            fprintf(f, "%lld,%lld,%lld,", (long long)r->borderline, (long long)r->gradients, (long long)r->forwards);
        else
            fprintf(f, ",,,");
        run_columns(f, s->header);
        if (!vt_shape_side(at)) fprintf(f, "%dx", at.channels);
        fprintf(f, "%dx%d%s%s\n", at.height, at.width, searched ? "," : "", s->header->search);
    }
}

const vt_report_def vt_report_def_csv = {.name = "csv",
                                         .file = "table.csv",
                                         .summary = "comma-separated table",
                                         .write = write};
