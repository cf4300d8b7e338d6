/* SPDX-License-Identifier: MIT */
/* The table on the terminal. */
#include "eval/header.h"
#include "eval/report/published.h"

/* Prints the table of published beside corrected results, if the run has one. */
static void write_published_table(FILE *f, const vt_summary *s) {
    char title[200], a[40], b[40];
    vt_published_pair p;
    if (!vt_published_title(s, title, sizeof title)) return;
    fprintf(f, "\n%s\n%-8s %15s %8s %15s %8s %11s\n", title, "", "as published", "%", "corrected", "%", "difference");
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) {
        double all = p.total ? (double)p.total : 1;
        snprintf(a, sizeof a, "%lld / %lld", (long long)p.published, (long long)p.total);
        snprintf(b, sizeof b, "%lld / %lld", (long long)p.corrected, (long long)p.total);
        fprintf(f, "%-8s %15s %8.2f %15s %8.2f %+11.2f\n", p.label, a, 100 * (double)p.published / all, b,
                100 * (double)p.corrected / all, p.points);
    }
    for (int i = 0; vt_published_pair_at(s, i, &p); i++) fprintf(f, "%s%s: %s\n", i ? "" : "\n", p.label, p.why);
}

/* Prints an attack's id behind its label, or of several stages the id of each on a line. */
static void write_attack_definition(FILE *f, const vt_entry_summary *en) {
    if (en->of->n_stages == 1) {
        fprintf(f, "  %s = %s\n", en->all.label, en->of->id);
        return;
    }
    fprintf(f, "  %s:\n", en->of->name);
    for (int k = 0; k < en->of->n_stages; k++) fprintf(f, "    %s\n", en->of->stages[k].id);
}

static const vt_column columns[] = {{"", true, 0},
                                    {"right / all", false, 0},
                                    {"%", false, 0},
                                    {"95 % interval", false, 0},
                                    {"borderline", false, 1},
                                    {"gradients", false, 2},
                                    {"forwards", false, 3}};
enum { VALUES = 6, COSTS = 3 }; /* columns behind the label; the last of them, of attacks alone */

/* Adds all cells of a row but its label; costs of attacks alone, and no interval where images are still open. */
static void add_number_cells(vt_columns *t, const vt_row *r, vt_style style) {
    const int64_t costs[COSTS] = {r->borderline, r->gradients, r->forwards};
    vt_columns_styled(t, style, "%s%lld / %lld", r->open ? "at most " : "", (long long)r->count, (long long)r->total);
    vt_columns_styled(t, style, "%.2f", r->percent);
    if (r->open)
        vt_columns_cell(t, "-");
    else
        vt_columns_cell(t, "[%.2f, %.2f]", r->low, r->high);
    for (int i = 0; i < COSTS; i++)
        if (r->has_attack)
            vt_columns_cell(t, "%lld", (long long)costs[i]);
        else
            vt_columns_cell(t, "%s", "");
}

/* Adds a row. In an interrupted run, rows that were not begun have no numbers, and rows that are not done an upper
 * bound. */
static void add_row(vt_columns *t, const vt_row *r) {
    vt_style style = r->verdict ? VT_STYLE_BOLD : VT_STYLE_NONE;
    vt_columns_styled(t, style, "%s%s", r->level ? "  " : "", r->label);
    if (r->reached) add_number_cells(t, r, style);
    for (int i = 0; i < VALUES && !r->reached; i++) vt_columns_cell(t, "-");
}

/* Prints the table of all rows, in the look that s names. */
static void write_table(FILE *f, const vt_summary *s) {
    vt_columns t;
    vt_columns_begin(&t, columns, (int)(sizeof columns / sizeof *columns));
    for (int i = 0; i < s->n_rows; i++) add_row(&t, &s->rows[i]);
    vt_columns_end(&t, f, &s->look);
}

/* Writes the report that is printed when an evaluation ends. */
static void write(FILE *f, const vt_summary *s) {
    char threat[120];
    const vt_header *h = s->header;
    fprintf(f, "\n%s, %s split, images %s; %s, seed %lld%s\n", h->data.format, h->data.split, s->images,
            vt_header_threat(h, threat, sizeof threat), (long long)h->seed, h->exhaustive ? ", exhaustive" : "");
    for (size_t i = 0; vt_summary_note(s, i); i++) fprintf(f, "%s\n", vt_summary_note(s, i));
    fputc('\n', f);
    write_table(f, s);
    if (s->n_entries) fputc('\n', f);
    char text[600];
    for (int i = 0; i < s->n_entries; i++) {
        if (s->entries[i].of->scoring != VT_SCORE_EIGHT_BIT)
            write_attack_definition(f, &s->entries[i]); /* else it is the one above */
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) fprintf(f, "  NOTE: %s\n", text);
        if (s->entries[i].all.invalid)
            fprintf(f, "  WARNING: %lld points of %s left the ball: an error of the attack; counted as robust\n",
                    (long long)s->entries[i].all.invalid, s->entries[i].all.label);
    }
    for (int i = 0; i < s->n_entries; i++) {
        if (s->entries[i].all.open || !vt_entry_open_text(s, &s->entries[i], text, sizeof text)) continue;
        fprintf(f, "\n%s\n", text);
        if (s->gradient_cost > 0)
            fprintf(f, "%s cost %.0f forward-equivalents, a gradient counted as %.2f forwards\n",
                    s->entries[i].of->name, s->entries[i].cost, s->gradient_cost);
    }
    write_published_table(f, s);
    if (s->pending) fprintf(f, "\nincomplete: %lld image-stages are still to be done\n", (long long)s->pending);
}

const vt_report_def vt_report_def_term = {.name = "term", .summary = "table on the terminal", .write = write};
