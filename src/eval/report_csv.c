/* table.csv */
#include "eval/markup.h"
#include "eval/summary.h"

static void write(FILE *f, const vt_summary *s) {
    vt_row r;
    int side = vt_header_side(s->header);
    fprintf(f, "row,level,count,total,percent,low95,high95,borderline,gradients,forwards,attacked_at\n");
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        vt_csv(f, r.label);
        fprintf(f, ",%d,%lld,%lld,%.4f,%.4f,%.4f,", r.level, (long long)r.count, (long long)r.total, r.percent, r.low,
                r.high);
        if (r.has_attack)
            fprintf(f, "%lld,%lld,%lld,", (long long)r.borderline, (long long)r.gradients, (long long)r.forwards);
        else
            fprintf(f, ",,,");
        fprintf(f, "%dx%d\n", side, side);
    }
}

const vt_report_def vt_report_def_csv = {.name = "csv",
                                         .file = "table.csv",
                                         .summary = "comma-separated table",
                                         .write = write};
