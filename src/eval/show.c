#include "eval/show.h"

#include "eval/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "eval/markup.h"
#include "eval/metrics.h"

static const char style[] =
    ":root{color-scheme:light dark;--paper:#fcfcfa;--card:#fff;--ink:#1d2329;--faint:#68727d;--line:#e3e5e4;"
    "--a:#2f6f9f;--b:#d0583a;--c:#5b8c3e;--d:#8a63b0;--zone:rgba(208,88,58,.08)}\n"
    "@media (prefers-color-scheme:dark){:root{--paper:#14181c;--card:#1b2026;--ink:#e4e7ea;--faint:#96a1ac;"
    "--line:#2d343c;--a:#6cb0e0;--b:#f0876a;--c:#93c572;--d:#bf9be0;--zone:rgba(240,135,106,.10)}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
    "main{max-width:1120px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;line-height:1.25;margin:2px 0 6px;"
    "font-weight:650;letter-spacing:-.01em}h2{font-size:16px;margin:0 0 10px;font-weight:650}p{margin:0 0 10px}\n"
    ".brow{font-size:12px;letter-spacing:.09em;text-transform:uppercase;color:var(--faint)}"
    ".faint{color:var(--faint);fill:var(--faint)}em{font-style:normal;color:var(--b);font-weight:600}\n"
    "section,.tile{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:16px 18px}"
    "section{margin-top:16px}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:12px;"
    "margin-top:20px}.tile b{display:block;font-size:27px;font-weight:650;line-height:1.2}\n"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:16px;margin-top:16px}"
    ".pair section{margin-top:0}@media (max-width:520px){.pair{grid-template-columns:1fr}}\n"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th{font-weight:500;color:var(--faint);"
    "font-size:13px}th,td{text-align:right;padding:5px 10px;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left}tr.sub td:first-child{padding-left:28px;color:var(--faint)}"
    "tr:last-child td{border-bottom:0}.wide{overflow-x:auto}\n"
    "svg{display:block;width:100%;height:auto;font-size:13.5px}svg text{fill:var(--ink)}svg "
    "text.faint{fill:var(--faint)}"
    ".num{font-variant-numeric:tabular-nums}.a{fill:var(--a)}.b{fill:var(--b)}.c{fill:var(--c)}.d{fill:var(--d)}"
    ".light{opacity:.28}.zone{fill:var(--zone)}.grid{stroke:var(--line);stroke-width:1}.axis{stroke:var(--faint);"
    "stroke-width:1}.stroke{fill:none;stroke-width:2.2;stroke-linejoin:round}.a.stroke,.a.whisker{stroke:var(--a)}"
    ".b.stroke,.b.whisker{stroke:var(--b)}.c.stroke,.c.whisker{stroke:var(--c)}.d.stroke,.d.whisker{stroke:var(--d)}"
    ".whisker{stroke-width:1.4;opacity:.55}.key{display:inline-block;width:11px;height:11px;margin:0 5px 0 0;"
    "vertical-align:-1px}.key.a{background:var(--a)}.key.b{background:var(--b)}.key+.key,span.key:not(:first-child){"
    "margin-left:14px}\n"
    "div.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:16px}figure{margin:0}"
    ".three{display:grid;grid-template-columns:repeat(3,1fr);gap:4px}img{width:100%;display:block;border-radius:4px;"
    "image-rendering:pixelated}figcaption{margin-top:6px;font-size:13px;line-height:1.4}\n"
    "code{font:12.5px/1.5 ui-monospace,'DejaVu Sans Mono',monospace;overflow-wrap:anywhere}dl{display:grid;"
    "grid-template-columns:max-content 1fr;gap:4px 16px;margin:0}dt{color:var(--faint)}dd{margin:0;min-width:0}\n";

/* ---- head ---- */

static void put(FILE *f, const json_t *o, const char *key) { vt_html(f, vt_header_text(o, key)); }

static long long whole(const json_t *o, const char *key) {
    return (long long)json_integer_value(json_object_get(o, key));
}

static void tile(FILE *f, const char *name, int64_t count, int64_t total) {
    double low, high;
    vt_wilson(count, total, &low, &high);
    fprintf(f,
            "<div class=\"tile\"><span class=\"faint\">%s</span><b>%.2f %%</b>%lld of %lld, <span class=\"faint\">95 "
            "%%: "
            "%.1f to %.1f</span></div>\n",
            name, total ? 100 * (double)count / (double)total : 0, (long long)count, (long long)total, low, high);
}

static void tiles(FILE *f, const vt_summary *s) {
    long long gradients = 0, forwards = 0, borderline = 0;
    for (int i = 0; i < s->n_entries; i++) {
        gradients += (long long)s->entries[i].gradients, forwards += (long long)s->entries[i].forwards;
        borderline += (long long)s->entries[i].borderline;
    }
    fputs("<div class=\"tiles\">\n", f);
    tile(f, "Right without perturbation", s->correct, s->total);
    if (!s->n_entries) { /* clean accuracy alone */
        fputs("</div>\n", f);
        return;
    }
    tile(f, "Robust against every attack", s->worst_robust, s->total);
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

static void head(FILE *f, const vt_show *s) {
    char threat[120];
    const json_t *h = s->summary->header, *m = json_object_get(h, "model"), *d = json_object_get(h, "data");
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\"/>"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
          f);
    vt_html(f, s->ledger->dir);
    fprintf(f,
            " - vitrine</title>\n<style>\n%s</style></head><body><main>\n<p class=\"brow\">vitrine · adversarial "
            "robustness</p>\n<h1>",
            style);
    vt_html(f, vt_header_threat(h, threat, sizeof threat));
    fputs(", ", f);
    put(f, d, "format");
    fputc(' ', f);
    put(f, d, "split");
    fputs(" split, images ", f);
    vt_html(f, s->summary->images);
    fputs("</h1>\n<p class=\"faint\">", f);
    put(f, m, "architecture");
    fprintf(f, ", input %d × %d, patch %lld, width %lld, depth %lld, %lld heads, %lld classes; seed %lld</p>\n",
            s->side, s->side, whole(m, "patch"), whole(m, "dim"), whole(m, "depth"), whole(m, "heads"),
            whole(m, "classes"), whole(h, "seed"));
    for (size_t i = 0; vt_header_note(h, i); i++) {
        fputs("<p class=\"faint\">", f);
        vt_html(f, vt_header_note(h, i));
        fputs("</p>\n", f);
    }
}

/* ---- table and charts ---- */

static void paragraph(FILE *f, const char *text) {
    fputs("<p>", f);
    vt_html(f, text);
    fputs("</p>\n", f);
}

static void table(FILE *f, const vt_summary *s) {
    vt_row r;
    fputs("<section><h2>Results</h2><div class=\"wide\"><table>\n<tr><th></th><th>right / all</th><th>%</th><th>95 % "
          "interval</th><th>borderline</th><th>gradients</th><th>forwards</th></tr>\n",
          f);
    for (int i = 0; vt_summary_row(s, i, &r); i++) {
        fprintf(f, "<tr%s><td>", r.level ? " class=\"sub\"" : "");
        vt_html(f, r.label);
        fprintf(f, "</td><td>%lld / %lld</td><td>%.2f</td><td>%.2f to %.2f</td>", (long long)r.count,
                (long long)r.total, r.percent, r.low, r.high);
        if (r.has_attack)
            fprintf(f, "<td>%lld</td><td>%lld</td><td>%lld</td></tr>\n", (long long)r.borderline,
                    (long long)r.gradients, (long long)r.forwards);
        else
            fputs("<td></td><td></td><td></td></tr>\n", f);
    }
    fputs("</table></div>\n", f);
    char text[600];
    for (int i = 0; i < s->n_entries; i++) { /* what samples leave open belongs beside the numbers */
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) paragraph(f, text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) paragraph(f, text);
    }
    fputs("</section>\n", f);
}

/* Survivors (full) of those that came in (light), or gradients (full) and forwards (light), a bar for each stage. */
static size_t stage_bars(vt_bar *bars, const vt_summary *s, bool cost) {
    size_t n = 0;
    for (int i = 0; i < s->n_entries; i++) {
        const vt_entry_summary *en = &s->entries[i];
        int64_t in = s->correct;
        for (int k = 0; k < en->n_stages; k++) {
            const vt_stage_summary *st = &en->stages[k];
            vt_bar *b = &bars[n++];
            *b = (vt_bar){.full = (double)(cost ? st->gradients : st->robust),
                          .light = (double)(cost ? st->forwards : in - st->robust)};
            if (en->n_stages > 1)
                snprintf(b->label, sizeof b->label, "%.14s %s%.14s", k ? "" : en->label, k ? "then " : "· ", st->name);
            else
                snprintf(b->label, sizeof b->label, "%.30s", en->label);
            b->level = k > 0;
            if (cost)
                snprintf(b->text, sizeof b->text, "%lld + %lld", (long long)st->gradients, (long long)st->forwards);
            else
                snprintf(b->text, sizeof b->text, "%lld of %lld", (long long)st->robust, (long long)in);
            in = st->robust;
        }
    }
    return n;
}

static vt_status stages(FILE *f, const vt_summary *s, vt_err *e) {
    size_t most = 1;
    for (int i = 0; i < s->n_entries; i++) most += (size_t)s->entries[i].n_stages;
    vt_bar *bars = calloc(most, sizeof *bars);
    if (!bars) return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    size_t n = stage_bars(bars, s, false);
    if (n) {
        fputs("<div class=\"pair\"><section><h2>Survivors, stage by stage</h2><p class=\"faint\"><span class=\"key "
              "a\"></span>"
              "still right <span class=\"key b light\"></span>broken by this stage</p>\n",
              f);
        vt_chart_bars(f, "survivors of each stage", bars, n);
        n = stage_bars(bars, s, true);
        fputs("</section>\n<section><h2>Cost, stage by stage</h2><p class=\"faint\"><span class=\"key "
              "a\"></span>gradients "
              "<span class=\"key b light\"></span>forwards</p>\n",
              f);
        vt_chart_bars(f, "cost of each stage", bars, n);
        fputs("</section></div>\n", f);
    }
    free(bars);
    return VT_OK;
}

static int by_image(const void *a, const void *b) {
    const vt_record *x = *(const vt_record *const *)a, *y = *(const vt_record *const *)b;
    return x->image != y->image ? (x->image < y->image ? -1 : 1) : (x->entry > y->entry) - (x->entry < y->entry);
}

/* Leads (minus the margin): clean[*n_clean] of every image, worst[*n_worst] of those that were attacked. */
static void leads(const vt_record **r, size_t n, double *clean, size_t *n_clean, double *worst, size_t *n_worst) {
    *n_clean = *n_worst = 0;
    for (size_t i = 0, j; i < n; i = j) {
        double least = INFINITY;
        for (j = i; j < n && r[j]->image == r[i]->image; j++) {
            if (!r[j]->entry)
                clean[(*n_clean)++] = -r[j]->margin;
            else if (r[j]->status != VT_RECORD_INVALID)
                least = fmin(least, -r[j]->margin);
        }
        if (isfinite(least)) worst[(*n_worst)++] = least;
    }
}

static vt_status margins(FILE *f, const vt_ledger *l, vt_err *e) {
    const vt_record **order = calloc(l->count + 1, sizeof *order);
    double *v = calloc(2 * l->count + 1, sizeof *v), *w = v + l->count;
    size_t a, b;
    if (!order || !v) {
        free(order), free(v);
        return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    }
    for (size_t i = 0; i < l->count; i++) order[i] = &l->records[i];
    qsort(order, l->count, sizeof *order, by_image);
    leads(order, l->count, v, &a, w, &b);
    fputs("<section><h2>How far the true class leads</h2><p class=\"faint\"><span class=\"key a\"></span>without "
          "perturbation <span class=\"key b\"></span>at the worst point that any attack returned</p>\n",
          f);
    vt_chart_histogram(f, "histogram of margins",
                       "logit of the true class minus the best other one (left of 0: misclassified)", v, a, w, b);
    fputs("</section>\n", f);
    free(order), free(v);
    return VT_OK;
}

/* ---- proof ---- */

static void entry(FILE *f, const char *name, const char *text) {
    fprintf(f, "<dt>%s</dt><dd><code>", name);
    vt_html(f, text);
    fputs("</code></dd>\n", f);
}

static void proof(FILE *f, const vt_show *s) {
    const json_t *h = s->summary->header;
    fputs("<section><h2>Proof</h2><p>Every broken image is stored as float32; its distance and its label were judged "
          "by "
          "separate code, in double too. <code>vitrine verify ",
          f);
    vt_html(f, s->ledger->dir);
    fputs("</code> judges all of it again.</p>\n<dl>", f);
    entry(f, "weights", vt_header_text(h, "weights"));
    entry(f, "data", vt_header_text(json_object_get(h, "data"), "sha256"));
    for (int i = 0; i < s->summary->n_entries; i++)
        for (int k = 0; k < s->summary->entries[i].n_stages; k++)
            entry(f, i || k ? "" : "attacks", s->summary->entries[i].stages[k].id);
    entry(f, "product kernels", vt_header_text(h, "blas"));
    entry(f, "vitrine", vt_header_text(h, "vitrine"));
    fputs("</dl></section>\n", f);
}

vt_status vt_show_write(FILE *f, const vt_show *s, vt_err *e) {
    head(f, s);
    if (vt_is_curve(s->summary->header)) {
        VT_TRY(vt_show_curve(f, s, e));
    } else {
        tiles(f, s->summary);
        table(f, s->summary);
        VT_TRY(stages(f, s->summary, e));
    }
    bool curve = s->n_curve > 1;
    if (curve) {
        fputs("<div class=\"pair\"><section><h2>Accuracy over eps</h2><p class=\"faint\">share of all images that stay "
              "right"
              "</p>\n",
              f);
        vt_chart_lines(f, "accuracy over eps", s->axis, s->curve, s->n_curve);
        fputs("</section>\n", f);
    } else {
        fputs("<div class=\"pair\">", f);
    }
    VT_TRY(margins(f, s->ledger, e));
    fputs("</div>\n", f);
    if (s->data && s->pictures > 0) VT_TRY(vt_show_grid(f, s, e));
    proof(f, s);
    fputs("</main></body></html>\n", f);
    return VT_OK;
}
