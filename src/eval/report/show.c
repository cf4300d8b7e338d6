/* SPDX-License-Identifier: MIT */
#include "eval/report/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/markup.h"
#include "base/stats.h"
#include "eval/header.h"
#include "eval/report/curve.h"
#include "eval/report/queries.h"
#include "eval/report/page.h"
#include "eval/result_index.h"
#include "data/dataset.h"
#include "data/image.h"

/* ---- head ---- */

/* Writes a tile "name: percent, count of total, 95 % interval". */
static void write_accuracy_tile(FILE *f, const char *name, int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">%s</span><b>%.2f %%</b>%lld of %lld, <span class=\"faint\">95 "
            "%%: %.1f to %.1f</span></div>\n",
            name, total ? 100 * (double)count / (double)total : 0, (long long)count, (long long)total, low, high);
}

/* Writes the tiles of an evaluation: clean and robust accuracy, broken images, cost. */
static void write_summary_tiles(FILE *f, const vt_summary *s) {
    long long gradients = 0, forwards = 0, borderline = 0;
    for (int i = 0; i < s->n_entries; i++) {
        gradients += (long long)s->entries[i].all.gradients, forwards += (long long)s->entries[i].all.forwards;
        borderline += (long long)s->entries[i].all.borderline;
    }
    fputs("<div class=\"tiles\">\n", f);
    write_accuracy_tile(f, "Right without perturbation", s->correct, s->total);
    if (s->header->certify.method) write_accuracy_tile(f, "Certified", s->certify.certified, s->total);
    if (!s->n_entries) { /* clean accuracy alone */
        fputs("</div>\n", f);
        return;
    }
    write_accuracy_tile(f, "Robust against every attack", s->worst_robust, s->total);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">Broken</span><b>%lld</b><span class=\"faint\">images, each "
            "judged again in double; %lld borderline verdicts</span></div>\n"
            "<div class=\"tile\"><span class=\"faint\">Spent</span><b>%lld</b><span class=\"faint\">gradients, and "
            "%lld forwards</span></div>\n</div>\n",
            (long long)(s->correct - s->worst_robust), borderline, gradients, forwards);
}

/* Writes the model's name, or its architecture and shape if it has none. */
static void model_name(FILE *f, const vt_show *s) {
    const vt_header *h = s->summary->header;
    bool named = s->name && *s->name;
    vt_html_parts(f, h->wrap ? "WRAPPED " : "", named ? s->name : h->model.architecture, NULL);
    if (!named) fprintf(f, ", width %d, depth %d", h->model.dim, h->model.depth);
    if (h->wrap) vt_html_parts(f, ", ", h->wrap, NULL);
}

/* Writes the page down to its first section: title, threat, data, model, notes, verdict of the self-test. */
static void write_page_head(FILE *f, const vt_show *s) {
    char threat[120];
    const vt_header *h = s->summary->header;
    vt_page_begin(f, s->name && *s->name ? s->name : s->ledger->dir);
    vt_page_main(f);
    fputs("<h1>", f);
    model_name(f, s);
    vt_html_parts(f, "</h1>\n<p class=\"threat\">", vt_header_threat(h, threat, sizeof threat), ", ", h->data.format,
                  " ", h->data.split, " split, images ", s->summary->images, "</p>\n<p class=\"faint\">",
                  h->oracle ? "a model in another process" : h->model.architecture, ", input ", NULL);
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

/* Writes what must be said beside the numbers: remarks, and what samples leave open. */
static void write_remarks(FILE *f, const vt_summary *s) {
    char text[600];
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) vt_page_paragraph(f, "", text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) vt_page_paragraph(f, "", text);
    }
}

/* Opens a table row with its label; last: it is the verdict. */
static void row_head(FILE *f, const vt_row *r, bool last) {
    const char *kind = r->level ? " class=\"sub\"" : last ? " class=\"last\"" : "";
    fprintf(f, "<tr%s>", kind);
    vt_html_parts(f, "<th scope=\"row\">", r->label, "</th>", NULL);
}

/* Writes a section's title and its table down to the body; id: an attribute or ""; columns: heads, ends at NULL; bar:
 * one more column, without a head. */
static void begin_table(FILE *f, const char *title, const char *id, const char *caption, const char *const *columns,
                        bool bar) {
    fprintf(f, "<section><h2>%s</h2>\n<table%s><caption>%s</caption>\n<thead><tr>", title, id, caption);
    for (; *columns; columns++) fprintf(f, "<th scope=\"col\">%s</th>", *columns);
    fprintf(f, "%s</tr></thead>\n<tbody>\n", bar ? "<td class=\"bar\"></td>" : "");
}

/* Writes the section "Results": each row's accuracy with interval and bar. */
static void write_results_table(FILE *f, const vt_summary *s) {
    static const char *const columns[] = {"attack", "right / all", "%", "95 % interval", NULL};
    int64_t left = s->correct; /* of the images that came into this row */
    begin_table(f, "Results", " id=\"results\"",
                "<span><i class=\"key full\"></i>still right</span><span><i class=\"key lost\"></i>broken here</span>",
                columns, true);
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        row_head(f, r, r > s->rows && !r->has_attack && r->verdict);
        fprintf(f, "<td>%lld / %lld</td><td>%.2f</td><td>%.2f to %.2f</td>", (long long)r->count, (long long)r->total,
                r->percent, r->low, r->high);
        if (!r->level) left = s->correct;
        vt_chart_bar(f, (double)r->count, r->proof ? 0 : (double)(left - r->count), (double)r->total);
        if (r->level) left = r->count;
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table>\n", f);
    write_remarks(f, s);
    fputs("</section>\n", f);
}

/* Writes the section "Cost": gradients, forwards and borderline verdicts of each attack; nothing without attacks. */
static void write_cost_table(FILE *f, const vt_summary *s) {
    static const char *const columns[] = {"attack", "gradients", "forwards", "borderline", NULL};
    double most = 0;
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++)
        if (r->has_attack) most = fmax(most, (double)r->gradients + (double)r->forwards);
    if (!s->n_entries) return;
    begin_table(f, "Cost", " id=\"cost\"",
                "<span><i class=\"key full\"></i>gradients</span><span><i class=\"key "
                "lost\"></i>forwards</span><span>borderline: verdicts within float noise</span>",
                columns, true);
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++) {
        if (!r->has_attack) continue;
        row_head(f, r, false);
        fprintf(f, "<td>%lld</td><td>%lld</td><td>%lld</td>", (long long)r->gradients, (long long)r->forwards,
                (long long)r->borderline);
        vt_chart_bar(f, (double)r->gradients, (double)r->forwards, most);
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></section>\n", f);
}

/* ---- of a curve's run, in place of the tiles and the tables of one eps ---- */

/* Writes a norm as "0.0111 (2.83/255)" (linf), "0.0111", or "none" if it is infinite. */
static void put_norm(FILE *f, const vt_curve *c, double d) {
    if (!isfinite(d))
        fputs("none", f);
    else if (c->norm == VT_LINF)
        fprintf(f, "%.4g (%.3g/255)", d, 255 * d);
    else
        fprintf(f, "%.4g", d);
}

/* Writes the row of entry k: images broken of those tried, median norm, cost. */
static void attack_row(FILE *f, const vt_curve *c, int k) {
    const vt_curve_entry *a = &c->entries[k];
    vt_html_parts(f, "<tr><th scope=\"row\">", a->name, "</th>", NULL);
    fprintf(f, "<td>%lld / %lld</td><td>", (long long)a->found, (long long)a->tried);
    if (isinf(a->eps)) put_norm(f, c, vt_curve_median(c, k));
    fprintf(f, "</td><td>%lld</td><td>%lld</td></tr>\n", (long long)a->gradients, (long long)a->forwards);
}

/* Writes the row of one eps of a curve. */
static void eps_row(FILE *f, const vt_curve *c, const char *name, double eps) {
    double low, high;
    int64_t robust = vt_curve_robust(c, eps);
    vt_wilson(robust, (int64_t)c->n, &low, &high);
    vt_html_parts(f, "<tr><th scope=\"row\">", name, "</th>", NULL);
    fprintf(f, "<td>%lld / %zu</td><td>%.2f</td><td>%.2f to %.2f</td><td>%lld</td></tr>\n", (long long)robust, c->n,
            100 * (double)robust / (double)c->n, low, high, (long long)vt_curve_unconfirmed(c, eps));
}

/* Writes the section of a curve's confirmed eps. */
static void write_radius_table(FILE *f, const vt_curve *c) {
    static const char *const columns[] = {"eps", "right / all", "%", "95 % interval", "by minimum norm alone", NULL};
    begin_table(f, "Results", "", "Images that stay right at the confirmed eps", columns, false);
    if (c->n) eps_row(f, c, "0", 0);
    for (int k = 0; k < c->n_entries; k++) /* ascending; several attacks may share an eps */
        if (c->n && isfinite(c->entries[k].eps) && (k == 0 || c->entries[k - 1].eps != c->entries[k].eps))
            eps_row(f, c, c->entries[k].eps_text, c->entries[k].eps);
    fputs("</tbody></table></section>\n", f);
}

/* Writes the section of a curve's attacks. */
static void write_attack_table(FILE *f, const vt_curve *c) {
    static const char *const columns[] = {"attack", "broken / tried", "median norm", "gradients", "forwards", NULL};
    char text[300];
    begin_table(f, "Attacks", "", "Images that each attack was given and broke", columns, false);
    for (int k = 0; k < c->n_entries; k++) attack_row(f, c, k);
    fputs("</tbody></table>\n", f);
    for (int k = 0; k < c->n_entries; k++) {
        const vt_curve_entry *a = &c->entries[k];
        for (int i = 0; vt_remark(a->name, a->vanished, a->not_finite, i, text, sizeof text); i++)
            vt_page_paragraph(f, "", text);
    }
    fputs("</section>\n", f);
}

/* Writes both sections of a curve's run. */
static vt_status write_curve_tables(FILE *f, const vt_show *s, vt_err *e) {
    vt_curve c;
    VT_TRY(vt_curve_make(&c, s->ledger, e));
    write_radius_table(f, &c);
    write_attack_table(f, &c);
    vt_curve_free(&c);
    return VT_OK;
}

/* ---- margins ---- */

/* Writes the histogram of leads (minus the margin) of every image, and at the worst point of the attacked ones. */
static vt_status write_margin_histogram(FILE *f, const vt_ledger *l, vt_err *e) {
    int32_t *images = calloc(l->count + 1, sizeof *images);
    double *clean = calloc(2 * l->count + 1, sizeof *clean), *worst = clean + l->count;
    vt_status s = images && clean ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for a page");
    size_t n = s == VT_OK ? vt_result_index_images(l, images) : 0, n_clean = 0;
    for (size_t i = 0; i < n; i++) worst[i] = INFINITY; /* not drawn */
    for (size_t i = 0; s == VT_OK && i < l->count; i++) {
        const vt_record *r = &l->records[i];
        double *at = &worst[vt_image_place(images, n, r->image)];
        if (r->entry == VT_ENTRY_CLEAN)
            clean[n_clean++] = -r->margin;
        else if (r->status != VT_RECORD_INVALID)
            *at = fmin(*at, -r->margin);
    }
    if (s == VT_OK) {
        fputs("<section><h2>How far the true class leads</h2>\n<p class=\"faint\">Images by the logit of the true "
              "class minus the best other one. Left of 0: misclassified.</p>\n<p class=\"legend\"><span><i class=\"key "
              "full\"></i>without perturbation</span><span><i class=\"key lost\"></i>at the worst point of all "
              "attacks</span></p>\n",
              f);
        vt_chart_histogram(f, "histogram of leads", "lead of the true class, in logits", clean, n_clean, worst, n);
        fputs("</section>\n", f);
    }
    free(images), free(clean);
    return s;
}

/* ---- pictures ---- */

/* Buffers of one figure. */
typedef struct canvas {
    float *clean, *adv;
    vt_image im;
    vt_shape shape;
    size_t pixels; /* values of one image */
} canvas;

/* Writes x [pixels] as an embedded picture; with a gain its difference from the clean image times that, around grey. */
static vt_status put_png(FILE *f, canvas *c, const char *alt, const float *x, double gain, vt_err *e) {
    for (size_t i = 0; i < c->pixels; i++) {
        double v = gain > 0 ? 0.5 + gain * ((double)x[i] - (double)c->clean[i]) : (double)x[i];
        c->im.rgb[i] = (uint8_t)lrint(fmin(fmax(v, 0), 1) * 255);
    }
    vt_picture_spread(&c->im, c->shape);
    fprintf(f, "<img alt=\"%s\" src=\"", alt);
    VT_TRY(vt_page_picture(f, &c->im, e));
    fputs("\"/>", f);
    return VT_OK;
}

/* Returns the factor by which differences are drawn: the run's eps fills the range of grey levels; in norms without a
 * bound a pixel, and on curves, the largest difference does. */
static double gain_of(const canvas *c, const vt_header *h) {
    double most = 0;
    for (size_t i = 0; i < c->pixels; i++) most = fmax(most, fabs((double)c->adv[i] - (double)c->clean[i]));
    if (!strcmp(h->norm_name, "linf") && !h->curve && h->eps >= most) most = h->eps;
    return most > 0 ? 0.5 / most : 1;
}

/* Writes the pictures of a broken image (clean, adversarial, difference) with classes and leads. */
static vt_status write_figure(FILE *f, const vt_show *s, canvas *c, const vt_record *clean, const vt_record *adv,
                              vt_err *e) {
    vt_image im;
    int label;
    char right[48], wrong[48];
    const vt_header_attack *attack = vt_header_entry(s->summary->header, adv->entry);
    VT_TRY(vt_dataset_read_as(s->data, adv->image, c->shape, &im, &label, e));
    for (size_t i = 0; i < c->pixels; i++) c->clean[i] = vt_image_at(&im, i);
    vt_image_free(&im);
    VT_TRY(vt_ledger_read_adv(s->ledger, adv, c->adv, e));
    double gain = gain_of(c, s->summary->header);
    vt_dataset_class_name(s->data, clean->pred, right, sizeof right);
    vt_dataset_class_name(s->data, adv->pred, wrong, sizeof wrong);
    fputs("<figure><div class=\"three\">", f);
    VT_TRY(put_png(f, c, "clean", c->clean, 0, e));
    VT_TRY(put_png(f, c, "adversarial", c->adv, 0, e));
    VT_TRY(put_png(f, c, "difference", c->adv, gain, e));
    fprintf(f, "</div><figcaption><b>%d</b>", adv->image);
    vt_html_parts(f, " ", right, " <span class=\"faint\">→</span> <em>", wrong, "</em><br/><span class=\"faint\">",
                  NULL);
    fprintf(f, "lead %.2f → %.2f, difference × %.3g", -clean->margin, -adv->margin, gain);
    char by[56];
    vt_html_parts(f, ", ", vt_attack_label(attack, by, sizeof by), "</span></figcaption></figure>\n", NULL);
    return VT_OK;
}

/* Orders records for qsort: by image, then the largest margin first. */
static int by_image(const void *a, const void *b) {
    const vt_record *x = *(const vt_record *const *)a, *y = *(const vt_record *const *)b;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->margin < y->margin) - (x->margin > y->margin); /* the strongest first */
}

/* Writes the strongest stored point of each broken image into broken, by image. Returns how many. */
static size_t choose_broken_records(const vt_ledger *l, const vt_record **broken) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry && l->records[i].adv >= 0 && vt_record_fails(l, &l->records[i]))
            broken[n++] = &l->records[i];
    qsort(broken, n, sizeof *broken, by_image);
    for (size_t i = 0; i < n; i++)
        if (!kept || broken[kept - 1]->image != broken[i]->image) broken[kept++] = broken[i];
    return kept;
}

/* Returns an image's clean line, or NULL. */
static const vt_record *clean_line(const vt_ledger *l, int32_t image) {
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry == VT_ENTRY_CLEAN && l->records[i].image == image) return &l->records[i];
    return NULL;
}

/* Writes the section of broken images, up to s->pictures of them, evenly chosen. */
static vt_status write_picture_grid(FILE *f, const vt_show *s, vt_err *e) {
    const vt_ledger *l = s->ledger;
    canvas c = {.shape = l->header->shape, .pixels = l->pixels};
    if (!vt_picture_is(c.shape)) {
        fprintf(f, "<p class=\"faint\">Images of %d channels are not drawn: a picture has 3, or 1 in grey.</p>\n",
                c.shape.channels);
        return VT_OK;
    }
    VT_TRY(vt_picture_open(&c.im, c.shape, "the page", e));
    const vt_record **broken = calloc(l->count + 1, sizeof *broken);
    c.clean = calloc(c.pixels, sizeof(float)), c.adv = calloc(c.pixels, sizeof(float));
    vt_status st = broken && c.clean && c.adv ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for pictures");
    size_t n = st == VT_OK ? choose_broken_records(l, broken) : 0, most = (size_t)s->pictures;
    if (n)
        fputs("<section><h2>Broken images</h2>\n<p class=\"faint\">Without perturbation, with it, and the difference "
              "around grey. The lead is the logit of the true class over the best other one: below 0 the image is "
              "misclassified.</p>\n<div class=\"pictures\">\n",
              f);
    for (size_t i = 0; i < n && i < most && st == VT_OK; i++) {
        const vt_record *r = broken[n > most ? i * n / most : i], *clean = clean_line(l, r->image);
        if (clean) st = write_figure(f, s, &c, clean, r, e);
    }
    if (n)
        fprintf(f, "</div>\n%s</section>\n",
                n > most ? "<p class=\"faint\">An even selection; see " VT_OPTION "pictures.</p>\n" : "");
    vt_image_free(&c.im);
    free(c.clean), free(c.adv), free(broken);
    return st;
}

/* ---- proof ---- */

/* Writes a name and its value in a list of definitions. */
static void write_definition_entry(FILE *f, const char *name, const char *text) {
    vt_html_parts(f, "<dt>", name, "</dt><dd><code>", text, "</code></dd>\n", NULL);
}

/* Writes the section "Proof": hashes, attacks, kernels, version. */
static void write_proof_section(FILE *f, const vt_show *s) {
    const vt_header *h = s->summary->header;
    vt_html_parts(f,
                  "<section><h2>Proof</h2><p>Every broken image is stored as float32; its distance and its label were "
                  "judged by separate code, in double too. <code>vitrine verify ",
                  s->ledger->dir, "</code> judges all of it again.</p>\n<dl>", NULL);
    write_definition_entry(f, "weights", h->weights);
    write_definition_entry(f, "data", h->data.sha256);
    for (int i = 0; i < s->summary->n_entries; i++)
        for (int k = 0; k < s->summary->entries[i].of->n_stages; k++)
            write_definition_entry(f, i || k ? "" : "attacks", s->summary->entries[i].of->stages[k].id);
    write_definition_entry(f, "product kernels", h->kernels);
    write_definition_entry(f, "vitrine", h->version);
    fputs("</dl></section>\n", f);
}

/* Writes the section with the chart of accuracy over eps. */
static void over_eps(FILE *f, const vt_show *s) {
    fputs("<section><h2>Accuracy over eps</h2>\n<p class=\"faint\">Share of all images that stay right, and its 95 % "
          "interval.</p>\n",
          f);
    vt_chart_lines(f, "accuracy over eps", s->axis, s->curve, s->n_curve);
    fputs("</section>\n", f);
}

/* Writes the section with the success of black-box attacks over queries, if the run has any. */
static vt_status write_queries(FILE *f, const vt_ledger *l, vt_err *e) {
    enum { MOST = 256 };
    vt_queries *q;
    int n;
    vt_mark *marks = calloc(MOST, sizeof *marks);
    vt_status s = vt_queries_make(&q, &n, l, e);
    if (s == VT_OK && !marks) s = vt_fail(e, VT_E_MEMORY, "no memory for a chart");
    size_t count = s == VT_OK ? vt_queries_marks(marks, MOST, q, n) : 0;
    if (count) {
        fputs("<section><h2>Success over queries</h2>\n<p class=\"faint\">Share of the images that were right and fell "
              "within so many queries of a black-box attack.</p>\n",
              f);
        vt_chart_lines(f, "success over queries", "queries", marks, count);
        fputs("</section>\n", f);
    }
    vt_queries_free(q, n);
    free(marks);
    return s;
}

vt_status vt_show_write(FILE *f, const vt_show *s, vt_err *e) {
    bool curve = s->summary->header->curve;
    write_page_head(f, s);
    if (curve) VT_TRY(write_curve_tables(f, s, e));
    if (!curve) write_summary_tiles(f, s->summary), write_results_table(f, s->summary);
    fputs("<div class=\"pair\">", f);
    bool two = s->n_curve > 1; /* pictures side by side; else the costs are beside the one */
    if (two) over_eps(f, s);
    VT_TRY(write_margin_histogram(f, s->ledger, e));
    if (!curve && !two) write_cost_table(f, s->summary);
    fputs("</div>\n", f);
    VT_TRY(write_queries(f, s->ledger, e));
    if (s->data && s->pictures > 0) VT_TRY(write_picture_grid(f, s, e));
    if (!curve && two) write_cost_table(f, s->summary);
    write_proof_section(f, s);
    vt_page_end(f);
    return VT_OK;
}
