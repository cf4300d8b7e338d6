/* SPDX-License-Identifier: MIT */
#include "eval/report/show.h"

#include "eval/header.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/markup.h"
#include "core/stats.h"
#include "eval/report/page.h"

/* ---- head ---- */

static void write_accuracy_tile(FILE *f, const char *name, int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">%s</span><b>%.2f %%</b>%lld of %lld, <span class=\"faint\">95 "
            "%%: "
            "%.1f to %.1f</span></div>\n",
            name, total ? 100 * (double)count / (double)total : 0, (long long)count, (long long)total, low, high);
}

static void write_summary_tiles(FILE *f, const vt_summary *s) {
    long long gradients = 0, forwards = 0, borderline = 0;
    for (int i = 0; i < s->n_entries; i++) {
        gradients += (long long)s->entries[i].gradients, forwards += (long long)s->entries[i].forwards;
        borderline += (long long)s->entries[i].borderline;
    }
    fputs("<div class=\"tiles\">\n", f);
    write_accuracy_tile(f, "Right without perturbation", s->correct, s->total);
    if (!s->n_entries) { /* clean accuracy alone */
        fputs("</div>\n", f);
        return;
    }
    write_accuracy_tile(f, "Robust against every attack", s->worst_robust, s->total);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">Broken</span><b>%lld</b><span class=\"faint\">images, each "
            "judged "
            "again in double; %lld borderline verdicts</span></div>\n",
            (long long)(s->correct - s->worst_robust), borderline);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">Spent</span><b>%lld</b><span class=\"faint\">gradients, and "
            "%lld "
            "forwards</span></div>\n</div>\n",
            gradients, forwards);
}

/* The model as its owner calls it; without a name by its shape. */
static void model_name(FILE *f, const vt_show *s) {
    const vt_header *h = s->summary->header;
    bool named = s->name && *s->name;
    if (h->wrap) fputs("WRAPPED ", f);
    vt_html(f, named ? s->name : h->model.architecture);
    if (!named) fprintf(f, ", width %d, depth %d", h->model.dim, h->model.depth);
    if (!h->wrap) return;
    fputs(", ", f);
    vt_html(f, h->wrap);
}

static void write_page_head(FILE *f, const vt_show *s) {
    char threat[120];
    const vt_header *h = s->summary->header;
    vt_page_begin(f, s->name && *s->name ? s->name : s->ledger->dir);
    vt_page_main(f);
    fputs("<h1>", f);
    model_name(f, s);
    fputs("</h1>\n<p class=\"threat\">", f);
    vt_html(f, vt_header_threat(h, threat, sizeof threat));
    fputs(", ", f);
    vt_html(f, h->data.format);
    fputc(' ', f);
    vt_html(f, h->data.split);
    fputs(" split, images ", f);
    vt_html(f, s->summary->images);
    fputs("</p>\n<p class=\"faint\">", f);
    vt_html(f, h->oracle ? "a model in another process" : h->model.architecture);
    fputs(", input ", f);
    if (!vt_shape_side(h->shape)) fprintf(f, "%d × ", h->shape.channels);
    fprintf(f, "%d × %d", h->shape.height, h->shape.width);
    if (!h->oracle)
        fprintf(f, ", patch %d, width %d, depth %d, %d heads", h->model.patch, h->model.dim, h->model.depth,
                h->model.heads);
    fprintf(f, ", %d classes; seed %lld</p>\n", h->model.classes, (long long)h->seed);
    for (size_t i = 0; vt_summary_note(s->summary, i); i++)
        vt_page_paragraph(f, "faint", vt_summary_note(s->summary, i));
    if (s->selftest && *s->selftest) vt_page_paragraph(f, "selftest", s->selftest);
}

/* ---- tables ---- */

/* What samples leave open belongs beside the numbers. */
static void write_remarks(FILE *f, const vt_summary *s) {
    char text[600];
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) vt_page_paragraph(f, "", text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) vt_page_paragraph(f, "", text);
    }
}

/* "<tr><th>label</th>"; the row behind all entries is the verdict. */
static void row_head(FILE *f, const vt_row *r, bool last) {
    fprintf(f, "<tr%s><th scope=\"row\">", r->level ? " class=\"sub\"" : last ? " class=\"last\"" : "");
    vt_html(f, r->label);
    fputs("</th>", f);
}

static void write_results_table(FILE *f, const vt_summary *s) {
    vt_row r;
    int64_t left = s->correct; /* of the images that came into this row */
    fputs("<section><h2>Results</h2>\n<table id=\"results\"><caption><span><i class=\"key "
          "full\"></i>still right</span><span><i class=\"key lost\"></i>broken here</span></caption>\n<thead><tr><th "
          "scope=\"col\">attack</th><th scope=\"col\">right / "
          "all</th><th scope=\"col\">%</th><th scope=\"col\">95 % interval</th><td "
          "class=\"bar\"></td></tr></thead>\n<tbody>\n",
          f);
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        row_head(f, &r, i && !r.has_attack);
        fprintf(f, "<td>%lld / %lld</td><td>%.2f</td><td>%.2f to %.2f</td>", (long long)r.count, (long long)r.total,
                r.percent, r.low, r.high);
        if (!r.level) left = s->correct;
        vt_chart_bar(f, (double)r.count, (double)(left - r.count), (double)r.total);
        if (r.level) left = r.count;
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table>\n", f);
    write_remarks(f, s);
    fputs("</section>\n", f);
}

static void cost(FILE *f, const vt_summary *s) {
    vt_row r;
    double most = 0;
    for (int i = 0; vt_summary_row(s, i, &r); i++)
        if (r.has_attack) most = fmax(most, (double)r.gradients + (double)r.forwards);
    if (!s->n_entries) return;
    fputs("<section><h2>Cost</h2>\n<table id=\"cost\"><caption><span><i class=\"key "
          "full\"></i>gradients</span><span><i class=\"key lost\"></i>forwards</span><span>borderline: verdicts within "
          "float noise</span></caption>\n<thead><tr><th "
          "scope=\"col\">attack</th><th scope=\"col\">gradients</th><th scope=\"col\">forwards</th><th "
          "scope=\"col\">borderline</th><td class=\"bar\"></td></tr></thead>\n<tbody>\n",
          f);
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        if (!r.has_attack) continue;
        row_head(f, &r, false);
        fprintf(f, "<td>%lld</td><td>%lld</td><td>%lld</td>", (long long)r.gradients, (long long)r.forwards,
                (long long)r.borderline);
        vt_chart_bar(f, (double)r.gradients, (double)r.forwards, most);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></section>\n", f);
}

/* ---- margins ---- */

static int by_image(const void *a, const void *b) {
    const vt_record *x = *(const vt_record *const *)a, *y = *(const vt_record *const *)b;
    return x->image != y->image ? (x->image < y->image ? -1 : 1) : (x->entry > y->entry) - (x->entry < y->entry);
}

/* Leads (minus the margin): clean[*n_clean] of every image, worst[*n_worst] of those that were attacked. */
static void collect_leads(const vt_record **r, size_t n, double *clean, size_t *n_clean, double *worst,
                          size_t *n_worst) {
    *n_clean = *n_worst = 0;
    for (size_t i = 0, j; i < n; i = j) {
        double least = INFINITY;
        for (j = i; j < n && r[j]->image == r[i]->image; j++) {
            if (r[j]->entry == VT_ENTRY_CLEAN)
                clean[(*n_clean)++] = -r[j]->margin;
            else if (r[j]->status != VT_RECORD_INVALID)
                least = fmin(least, -r[j]->margin);
        }
        if (isfinite(least)) worst[(*n_worst)++] = least;
    }
}

static vt_status write_margin_histogram(FILE *f, const vt_ledger *l, vt_err *e) {
    const vt_record **order = calloc(l->count + 1, sizeof *order);
    double *v = calloc(2 * l->count + 1, sizeof *v), *w = v + l->count;
    size_t a, b;
    if (!order || !v) {
        free(order), free(v);
        return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    }
    for (size_t i = 0; i < l->count; i++) order[i] = &l->records[i];
    qsort(order, l->count, sizeof *order, by_image);
    collect_leads(order, l->count, v, &a, w, &b);
    fputs("<section><h2>How far the true class leads</h2>\n<p class=\"faint\">Images by the logit of the true class "
          "minus the best other one. Left of 0: misclassified.</p>\n<p class=\"legend\"><span><i class=\"key "
          "full\"></i>without perturbation</span><span><i class=\"key lost\"></i>at the worst point of all "
          "attacks</span></p>\n",
          f);
    vt_chart_histogram(f, "histogram of leads", "lead of the true class, in logits", v, a, w, b);
    fputs("</section>\n", f);
    free(order), free(v);
    return VT_OK;
}

/* ---- proof ---- */

static void write_definition_entry(FILE *f, const char *name, const char *text) {
    fprintf(f, "<dt>%s</dt><dd><code>", name);
    vt_html(f, text);
    fputs("</code></dd>\n", f);
}

static void write_proof_section(FILE *f, const vt_show *s) {
    const vt_header *h = s->summary->header;
    fputs("<section><h2>Proof</h2><p>Every broken image is stored as float32; its distance and its label were judged "
          "by "
          "separate code, in double too. <code>vitrine verify ",
          f);
    vt_html(f, s->ledger->dir);
    fputs("</code> judges all of it again.</p>\n<dl>", f);
    write_definition_entry(f, "weights", h->weights);
    write_definition_entry(f, "data", h->data.sha256);
    for (int i = 0; i < s->summary->n_entries; i++)
        for (int k = 0; k < s->summary->entries[i].n_stages; k++)
            write_definition_entry(f, i || k ? "" : "attacks", s->summary->entries[i].stages[k].id);
    write_definition_entry(f, "product kernels", h->kernels);
    write_definition_entry(f, "vitrine", h->version);
    fputs("</dl></section>\n", f);
}

static void over_eps(FILE *f, const vt_show *s) {
    fputs("<section><h2>Accuracy over eps</h2>\n<p class=\"faint\">Share of all images that stay right, and its 95 % "
          "interval.</p>\n",
          f);
    vt_chart_lines(f, "accuracy over eps", s->axis, s->curve, s->n_curve);
    fputs("</section>\n", f);
}

vt_status vt_show_write(FILE *f, const vt_show *s, vt_err *e) {
    bool curve = s->summary->header->curve;
    write_page_head(f, s);
    if (curve) VT_TRY(vt_show_curve(f, s, e));
    if (!curve) write_summary_tiles(f, s->summary), write_results_table(f, s->summary);
    fputs("<div class=\"pair\">", f);
    bool two = s->n_curve > 1; /* pictures side by side; else the costs are beside the one */
    if (two) over_eps(f, s);
    VT_TRY(write_margin_histogram(f, s->ledger, e));
    if (!curve && !two) cost(f, s->summary);
    fputs("</div>\n", f);
    if (s->data && s->pictures > 0) VT_TRY(vt_show_grid(f, s, e));
    if (!curve && two) cost(f, s->summary);
    write_proof_section(f, s);
    vt_page_end(f);
    return VT_OK;
}
