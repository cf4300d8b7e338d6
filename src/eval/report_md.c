/* table.md */
#include "eval/published.h"

/* As published beside corrected. */
static void published(FILE *f, const vt_summary *s) {
    char title[200];
    vt_published_pair p;
    if (!vt_published_title(s, title, sizeof title)) return;
    fprintf(f, "\n\n%s\n\n| | as published | %% | corrected | %% | difference |\n|---|---:|---:|---:|---:|---:|\n",
            title);
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) {
        double all = p.total ? (double)p.total : 1;
        fprintf(f, "| %s | %lld / %lld | %.2f | %lld / %lld | %.2f | %+.2f |\n", p.label, (long long)p.published,
                (long long)p.total, 100 * (double)p.published / all, (long long)p.corrected, (long long)p.total,
                100 * (double)p.corrected / all, p.points);
    }
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) fprintf(f, "\n* %s: %s", p.label, p.why);
}

static void write(FILE *f, const vt_summary *s) {
    vt_row r;
    char threat[120];
    const json_t *data = json_object_get(s->header, "data");
    fprintf(f, "| | right / all | %% | 95 %% interval | borderline | gradients | forwards "
               "|\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        fprintf(f, "| %s%s | %lld / %lld | %.2f | [%.2f, %.2f] |", r.level ? "&nbsp;&nbsp;" : "", r.label,
                (long long)r.count, (long long)r.total, r.percent, r.low, r.high);
        if (r.has_attack)
            fprintf(f, " %lld | %lld | %lld |\n", (long long)r.borderline, (long long)r.gradients,
                    (long long)r.forwards);
        else
            fprintf(f, " | | |\n");
    }
    fprintf(f, "\n%s, seed %lld, %s %s images %s, weights %.12s, data %.12s, vitrine %s.\n",
            vt_header_threat(s->header, threat, sizeof threat),
            (long long)json_integer_value(json_object_get(s->header, "seed")), vt_header_text(data, "format"),
            vt_header_text(data, "split"), s->images, vt_header_text(s->header, "weights"),
            vt_header_text(data, "sha256"), vt_header_text(s->header, "vitrine"));
    for (size_t i = 0; vt_header_note(s->header, i); i++) fprintf(f, "\n* %s", vt_header_note(s->header, i));
    char text[600];
    for (int i = 0; i < s->n_entries; i++)
        if (s->entries[i].scoring != VT_SCORE_EIGHT_BIT)
            fprintf(f, "\n* %s = `%s`", vt_entry_label(&s->entries[i], text, sizeof text), s->entries[i].id);
    for (int i = 0; i < s->n_entries; i++)
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) fprintf(f, "\n* %s", text);
    published(f, s);
    fputc('\n', f);
}

const vt_report_def vt_report_def_md = {.name = "md", .file = "table.md", .summary = "Markdown table", .write = write};
