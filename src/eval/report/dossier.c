/* SPDX-License-Identifier: MIT */
#include "eval/report/dossier.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "attacks/attack.h"
#include "base/files.h"
#include "base/markup.h"
#include "base/stats.h"
#include "eval/header.h"
#include "eval/report/checksums.h"
#include "eval/report/page.h"
#include "eval/report/queries.h"

/* ---- pieces of the page ---- */

/* Begins a section, which vt_dossier's tests find by its id. */
static void begin_section(FILE *f, const char *id, const char *title) {
    fprintf(f, "<section id=\"%s\"><h2>%s</h2>\n", id, title);
}

/* Writes a command to be copied. */
static void put_command(FILE *f, const char *command) {
    vt_html_parts(f, "<p><code class=\"command\">", command, "</code></p>\n", NULL);
}

/* Ends a section with the commands, up to VT_AGAIN_COUNT, that give its numbers again. */
static void end_section(FILE *f, const vt_dossier *d, ...) {
    va_list ap;
    bool any = false;
    va_start(ap, d);
    for (int k = va_arg(ap, int); k != VT_AGAIN_COUNT; k = va_arg(ap, int)) {
        if (!*d->again[k]) continue;
        if (!any) fputs("<p class=\"faint\">These numbers again:</p>\n", f);
        put_command(f, d->again[k]);
        any = true;
    }
    va_end(ap);
    if (!any)
        fprintf(f, "<p class=\"faint\">No command gives this again%s.</p>\n",
                *d->again[VT_AGAIN_RUN] ? "" : ": run.json names none");
    fputs("</section>\n", f);
}

/* Writes a name and its value in a list of definitions. */
__attribute__((format(printf, 3, 4))) static void define(FILE *f, const char *name, const char *format, ...) {
    char text[2000];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (*text) vt_html_parts(f, "<dt>", name, "</dt><dd>", text, "</dd>\n", NULL);
}

static const char *const share_heads[] = {"images", "right / all", "%", "95 % interval (Wilson)", NULL};
static const char *const attack_heads[] = {"attack",     "uses",      "tried",    "broke",
                                           "borderline", "gradients", "forwards", NULL};
static const char *const query_heads[] = {"attack", "tried", "broke", "half of them within", "all within", NULL};
static const char *const other_heads[] = {"run", "under", "right / all", "%", "95 % interval (Wilson)", NULL};

/* Opens a table; heads ends at NULL, and has the label's first. */
static void begin_table(FILE *f, const char *caption, const char *const *heads) {
    fprintf(f, "<table class=\"rows\"><caption>%s</caption>\n<thead><tr>", caption);
    for (; *heads; heads++) fprintf(f, "<th scope=\"col\">%s</th>", *heads);
    fputs("</tr></thead>\n<tbody>\n", f);
}

/* Writes a row: its label and cells, which tabs separate in the text. sub: it is a part of the row above. */
__attribute__((format(printf, 5, 6))) static void put_row(FILE *f, const char *const *heads, bool sub,
                                                          const char *label, const char *format, ...) {
    char text[600];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fprintf(f, "<tr%s>", sub ? " class=\"sub\"" : "");
    vt_html_parts(f, "<th scope=\"row\">", label, "</th>", NULL);
    for (char *cell = text, *end; cell && *heads++; cell = end) {
        if ((end = strchr(cell, '\t'))) *end++ = 0;
        vt_html_parts(f, "<td data-of=\"", *heads, "\">", cell, "</td>", NULL);
    }
    fputs("</tr>\n", f);
}

/* Writes a row of images: their count, share of all and its 95 % interval. bound: "", or "at most " or "at least " of a
 * count that attacks may still change, which has no interval. before: a cell before these, which ends in a tab, or "".
 */
static void put_share(FILE *f, const char *const *heads, const char *what, const char *before, int64_t count,
                      int64_t total, const char *bound) {
    char interval[40] = "-";
    double low, high;
    vt_wilson(count, total, &low, &high);
    if (!*bound) snprintf(interval, sizeof interval, "%.2f to %.2f", low, high);
    put_row(f, heads, false, what, "%s%s%lld / %lld\t%.2f\t%s", before, bound, (long long)count, (long long)total,
            total ? 100 * (double)count / (double)total : 0, interval);
}

/* ---- sections ---- */

/* Is an entry of the ball not done with every image? */
static bool is_open(const vt_summary *s) {
    bool open = s->missing > 0;
    for (int k = 0; k < s->n_entries; k++)
        open = open || (s->entries[k].of->scoring == VT_SCORE_BALL && s->entries[k].all.open);
    return open;
}

/* Writes the rows of images: right, broken, certified. */
static void put_image_rows(FILE *f, const vt_summary *s) {
    const char *most = is_open(s) ? "at most " : "", *least = is_open(s) ? "at least " : "";
    const struct {
        const char *what;
        bool shown;
        int64_t count;
        const char *bound;
    } rows[] = {
        {"right without perturbation", true, s->correct, ""},
        {"right under every attack of this run", s->n_entries > 0, s->worst_robust, most},
        {"broken, or without finite logits under attack", s->n_entries > 0, s->correct - s->worst_robust, least},
        {"right under every attack, as 8-bit pictures", s->worst_eight_bit >= 0, s->worst_eight_bit, most},
        {"certified", s->header->certify.method != NULL, s->certify.certified, s->certify.pending ? "at least " : ""},
        {"undecided: neither certified nor broken", s->header->certify.method != NULL, s->certify.undecided, most},
        {"without finite logits", s->not_finite > 0, s->not_finite, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].shown) put_share(f, share_heads, rows[i].what, "", rows[i].count, s->total, rows[i].bound);
}

/* Writes the section "Result": robust accuracy under each entry with its interval, and notes. */
static void write_result(FILE *f, const vt_dossier *d) {
    const vt_summary *s = d->summary;
    char text[600];
    begin_section(f, "result", "Result");
    begin_table(f, "Every image counted as broken was judged again, in double, by code that attacks do not share",
                share_heads);
    put_image_rows(f, s);
    fputs("</tbody></table>\n", f);
    if (!d->finished) vt_page_paragraph(f, "", "This run is not finished; verify judges finished runs.");
    for (size_t i = 0; vt_summary_note(s, i); i++) vt_page_paragraph(f, "", vt_summary_note(s, i));
    for (int i = 0; i < s->n_entries; i++) {
        for (int k = 0; vt_entry_remark(&s->entries[i], k, text, sizeof text); k++) vt_page_paragraph(f, "", text);
        if (vt_entry_open_text(s, &s->entries[i], text, sizeof text)) vt_page_paragraph(f, "", text);
    }
    end_section(f, d, VT_AGAIN_RUN, VT_AGAIN_SAME, VT_AGAIN_VERIFY, VT_AGAIN_COUNT);
}

/* Writes the names of the model's settings that the file does not say and that were assumed. */
static void define_assumed(FILE *f, const vt_header *h) {
    char names[500] = "";
    const char *key;
    json_t *value;
    if (!h->sources) return;
    json_object_foreach((json_t *)(uintptr_t)h->sources, key, value) {
        if (!json_is_true(json_object_get(value, "assumed"))) continue;
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", key);
    }
    define(f, "assumed, not in the file", "%s", *names ? names : "nothing");
}

/* Writes the section "Classifier": file, hash, architecture, normalisation, wrap. */
static void write_model(FILE *f, const vt_dossier *d) {
    const vt_header *h = d->summary->header;
    const double *mean = h->model.mean, *std = h->model.std;
    begin_section(f, "model", "Classifier");
    fputs("<dl>\n", f);
    define(f, "file", "%s", h->oracle ? h->oracle : d->weights ? d->weights : h->weights_name);
    define(f, "SHA-256", "%s", h->weights);
    define(f, "architecture", "%s%s", h->oracle ? "a model in another process, " : "", h->model.architecture);
    if (h->model.depth)
        define(f, "shape", "patch %d, width %d, depth %d, %d heads, attention %s", h->model.patch, h->model.dim,
               h->model.depth, h->model.heads, h->model.attention);
    define(f, "forms", "%s", h->model.forms ? h->model.forms : "");
    define(f, "input", "%d x %d x %d, %d classes", h->shape.channels, h->shape.height, h->shape.width,
           h->model.classes);
    define(f, "pixels", "%s", h->model.input ? h->model.input : "");
    if (!h->oracle)
        define(f, "mean, std", "%.9g, %.9g, %.9g; %.9g, %.9g, %.9g", mean[0], mean[1], mean[2], std[0], std[1], std[2]);
    define_assumed(f, h);
    define(f, "wrap", "%s", h->wrap ? h->wrap : "none");
    fputs("</dl>\n", f);
    end_section(f, d, VT_AGAIN_MODEL, VT_AGAIN_HEADER, VT_AGAIN_COUNT);
}

/* Writes the section "Threat": what an attacker may change, wants and knows. */
static void write_threat(FILE *f, const vt_dossier *d) {
    const vt_header *h = d->summary->header;
    const char *seen[8] = {0};
    char threat[120], knows[300] = "";
    int n = 0;
    for (int i = 0; i < h->n_attacks; i++)
        for (int k = 0; k < h->attacks[i].n_stages; k++) {
            const char *what = vt_dossier_knowledge(h->attacks[i].stages[k].name);
            int at = 0;
            while (at < n && strcmp(seen[at], what)) at++;
            if (at < n || n == 8) continue;
            snprintf(knows + strlen(knows), sizeof knows - strlen(knows), "%s%s", n ? "; " : "", what);
            seen[n++] = what;
        }
    begin_section(f, "threat", "Threat");
    fputs("<dl>\n", f);
    define(f, "allowed", "%s", h->n_attacks ? vt_header_threat(h, threat, sizeof threat) : "nothing: clean images");
    define(f, "goal", "%s", h->targets ? "one given class for each image" : "any class but the label");
    if (h->targets) define(f, "classes", "by %s", h->targets);
    define(f, "adversary uses", "%s", n ? knows : "nothing: no attack was run");
    if (*h->surrogate.name) define(f, "gradients of", "%s (SHA-256 %s)", h->surrogate.name, h->surrogate.sha256);
    define(f, "judged by", "%s",
           h->random ? "votes of a model that draws at random" : "the class in float32, again in double");
    fputs("</dl>\n", f);
    end_section(f, d, VT_AGAIN_HEADER, VT_AGAIN_COUNT);
}

/* Writes the section "Images": data set, hash, which images and how they were read. */
static void write_images(FILE *f, const vt_dossier *d) {
    const vt_summary *s = d->summary;
    const vt_header *h = s->header;
    begin_section(f, "images", "Images");
    fputs("<dl>\n", f);
    define(f, "data", "%s, %s split, %s", h->data.format, h->data.split, d->data);
    define(f, "SHA-256", "%s", h->data.sha256);
    define(f, "evaluated", "%lld of %llu", (long long)s->total, (unsigned long long)h->data.count);
    define(f, "chosen by", "%s", d->images ? d->images : "no choice: all");
    define(f, "indices", "%s", s->images);
    define(f, "seed", "%llu", (unsigned long long)h->seed);
    define(f, "preprocessing", "%s", h->data.preprocess && *h->data.preprocess ? h->data.preprocess : "none");
    if (h->data.severity) define(f, "corruption", "%s, severity %d", h->data.corruption, h->data.severity);
    fputs("</dl>\n", f);
    end_section(f, d, VT_AGAIN_HEADER, VT_AGAIN_VERIFY, VT_AGAIN_COUNT);
}

/* Writes the row of an entry or one of its stages. */
static void put_attack(FILE *f, const vt_counts *c, const char *knows, bool stage) {
    put_row(f, attack_heads, stage, c->label, "%s\t%lld\t%lld\t%lld\t%lld\t%lld", knows, (long long)c->tried,
            (long long)c->broken, (long long)c->borderline, (long long)c->gradients, (long long)c->forwards);
}

/* Writes the settings of an entry, where they are from, and how far its points lie. */
static void define_attack(FILE *f, const vt_summary *s, const vt_entry_summary *en) {
    const double median = en->median[s->header->norm];
    for (int k = 0; k < en->of->n_stages && en->of->scoring != VT_SCORE_EIGHT_BIT; k++) {
        const vt_attack_def *a = vt_attack_find(en->of->stages[k].name);
        define(f, k ? "" : en->all.label, "%s%s%s", en->of->stages[k].id, a ? "; " : "", a ? a->reference : "");
    }
    if (isfinite(median) && !vt_header_is_threat(s->header))
        define(f, "median norm", "%.6g, of the points of %s", median, en->all.label);
}

/* Writes the section "Attacks": images tried and broken and queries, by attack and stage. */
static void write_attacks(FILE *f, const vt_dossier *d) {
    const vt_summary *s = d->summary;
    begin_section(f, "attacks", "Attacks");
    if (!s->n_entries) vt_page_paragraph(f, "", "No attack was run.");
    if (s->n_entries)
        begin_table(f, "Images that each attack was given and broke, and what it asked of the model", attack_heads);
    for (int i = 0; i < s->n_entries; i++) {
        const vt_entry_summary *en = &s->entries[i];
        const bool one = en->of->n_stages == 1;
        vt_counts all = en->all;
        if (en->of->n_stages) all.tried = en->stages[0].tried; /* not the sum over stages */
        put_attack(f, &all, one ? vt_dossier_knowledge(en->of->stages[0].name) : "", false);
        for (int k = 0; k < en->of->n_stages && !one; k++)
            put_attack(f, &en->stages[k], vt_dossier_knowledge(en->of->stages[k].name), true);
    }
    if (s->n_entries) fputs("</tbody></table>\n<dl>\n", f);
    for (int i = 0; i < s->n_entries; i++) define_attack(f, s, &s->entries[i]);
    if (s->n_entries) fputs("</dl>\n", f);
    end_section(f, d, VT_AGAIN_RUN, VT_AGAIN_SAME, VT_AGAIN_COUNT);
}

/* Writes the section on black-box attacks: queries that half, and all, of what they broke took. */
static vt_status write_queries(FILE *f, const vt_dossier *d, vt_err *e) {
    enum { MOST = 256 };
    vt_queries *q;
    int n;
    vt_mark *marks = calloc(MOST, sizeof *marks);
    vt_status s = vt_queries_make(&q, &n, d->ledger, e);
    if (s == VT_OK && !marks) s = vt_fail(e, VT_E_MEMORY, "no memory for a chart");
    if (s == VT_OK) {
        begin_section(f, "queries", "Success over queries");
        if (n) begin_table(f, "Queries of black-box attacks until an image fell", query_heads);
        for (int k = 0; k < n; k++) {
            const int64_t broken = q[k].broken;
            put_row(f, query_heads, false, q[k].label, "%lld\t%lld\t%lld\t%lld", (long long)q[k].tried,
                    (long long)broken, broken ? (long long)q[k].at[(broken - 1) / 2] : 0,
                    broken ? (long long)q[k].at[broken - 1] : 0);
        }
        fputs(n ? "</tbody></table>\n" : "<p>Not tested: no entry of this run is black-box.</p>\n", f);
        size_t count = vt_queries_marks(marks, MOST, q, n);
        if (count) vt_chart_lines(f, "success over queries", "queries", marks, count);
        if (n)
            end_section(f, d, VT_AGAIN_QUERIES, VT_AGAIN_COUNT);
        else
            fputs("</section>\n", f);
    }
    vt_queries_free(q, n);
    free(marks);
    return s;
}

/* Writes the section "Self-test of the gradients": the verdict, or that there is none. */
static void write_selftest(FILE *f, const vt_dossier *d) {
    begin_section(f, "selftest", "Self-test of the gradients");
    vt_page_paragraph(f, "", *d->verdict ? d->verdict : "not tested");
    if (*d->verdict)
        end_section(f, d, VT_AGAIN_RUN, VT_AGAIN_SELFTEST, VT_AGAIN_COUNT);
    else
        end_section(f, d, VT_AGAIN_SELFTEST, VT_AGAIN_COUNT);
}

/* Writes the section on the run's files: whether they are as their hashes say, and what verify would judge. */
static vt_status write_files(FILE *f, const vt_dossier *d, vt_err *e) {
    static const char *const names[] = {"ledger.jsonl", "adv.bin", "results.json", "selftest.json"};
    vt_findings found = {0};
    char path[VT_PATH_MAX], hex[65];
    if (d->finished) VT_TRY(vt_checksums_check(d->ledger, &found, e));
    begin_section(f, "files", "Files");
    vt_page_paragraph(f, "",
                      !d->finished ? "SHA256SUMS is written when a run is finished."
                      : found.n    ? "Files are NOT as they were:"
                                   : "Every file is as SHA256SUMS says, and every table as the ledger gives it, "
                                     "checked when this page was written.");
    for (size_t i = 0; i < found.n && i < VT_FINDINGS_KEPT && found.text[i]; i++)
        vt_page_paragraph(f, "", found.text[i]);
    vt_findings_free(&found);
    fputs("<dl>\n", f);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!vt_path(path, d->ledger->dir, names[i]) || access(path, F_OK)) continue;
        VT_TRY(vt_sha_file(path, hex, e));
        define(f, names[i], "%s", hex);
    }
    fputs("</dl>\n", f);
    vt_page_paragraph(f, "",
                      "vitrine verify judges every clean prediction, stored point and certificate again; what "
                      "it found is on its output, not in a file.");
    end_section(f, d, VT_AGAIN_FILES, VT_AGAIN_VERIFY, VT_AGAIN_COUNT);
    return VT_OK;
}

/* Writes the rows of a folder of runs on corrupted images: means over its corruptions and severities. */
static void put_sweep(FILE *f, const vt_dossier_other *o) {
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(o->sweep, "rows"), i, row) {
        const char *label = json_string_value(json_object_get(row, "row"));
        put_row(f, other_heads, false, o->name, "corrupted: %s\tmean of %zu corruptions, %zu severities\t%.2f\t",
                label ? label : "", json_object_size(json_object_get(row, "corruptions")),
                json_array_size(json_object_get(o->sweep, "severities")),
                json_number_value(json_object_get(row, "mean")));
    }
}

/* Writes the rows of a run beside the page's own: clean images, and every attack together. */
static void put_other(FILE *f, const vt_dossier_other *o) {
    const vt_summary *s = &o->summary;
    const vt_header *h = s->header;
    char threat[120], corrupted[100] = "", under[240];
    if (h->data.severity)
        snprintf(corrupted, sizeof corrupted, "%.60s, severity %d, ", h->data.corruption, h->data.severity);
    for (int k = 0; k < (s->n_entries ? 2 : 1); k++) {
        snprintf(under, sizeof under, "%s%s\t", corrupted, k ? vt_header_threat(h, threat, sizeof threat) : "clean");
        put_share(f, other_heads, o->name, under, k ? s->worst_robust : s->correct, s->total,
                  k && is_open(s) ? "at most " : "");
    }
}

/* Writes the section on the other runs that were named: other threats, corrupted images. */
static void write_others(FILE *f, const vt_dossier *d) {
    begin_section(f, "others", "Other threats and corrupted images");
    if (!d->n_others) {
        fputs("<p>Not tested: no other run was named beside this one.</p>\n</section>\n", f);
        return;
    }
    begin_table(f, "Other runs of the same model", other_heads);
    for (int i = 0; i < d->n_others; i++)
        if (d->other[i].sweep)
            put_sweep(f, &d->other[i]);
        else
            put_other(f, &d->other[i]);
    fputs("</tbody></table>\n<p class=\"faint\">These numbers again:</p>\n", f);
    for (int i = 0; i < d->n_others; i++)
        if (*d->other[i].again) put_command(f, d->other[i].again);
    fputs("</section>\n", f);
}

/* Returns a text of run.json, or "". */
static const char *run_text(const vt_dossier *d, const char *key) {
    const char *text = json_string_value(json_object_get(d->run, key));
    return text ? text : "";
}

/* Writes the section "Versions": program, compiler, kernels, processor. */
static void write_versions(FILE *f, const vt_dossier *d) {
    const vt_header *h = d->summary->header;
    begin_section(f, "versions", "Versions");
    fputs("<dl>\n", f);
    define(f, "vitrine", "%s", h->version);
    define(f, "built by", "%s", h->compiler);
    define(f, "product kernels", "%s", h->kernels);
    define(f, "BLAS", "%s", run_text(d, "blas"));
    define(f, "processor", "%s", run_text(d, "cpu"));
    define(f, "finished", "%s", run_text(d, "finished"));
    define(f, "searched in", "%s", *h->search ? h->search : "float32");
    fputs("</dl>\n", f);
    vt_page_paragraph(f, "faint", "The same build and kernels give the same bytes; others may differ in last bits.");
    end_section(f, d, VT_AGAIN_HEADER, VT_AGAIN_COUNT);
}

vt_status vt_dossier_write(FILE *f, const vt_dossier *d, vt_err *e) {
    const vt_header *h = d->summary->header;
    char threat[120];
    const char *name = *d->name ? d->name : h->model.architecture;
    vt_page_begin(f, name);
    vt_page_blocks(f, "rows", 520);
    fputs("dl,table{margin-bottom:10px}", f);
    vt_page_main(f);
    vt_html_parts(f, "<h1>", h->wrap ? "WRAPPED " : "", "", name, "</h1>\n<p class=\"threat\">",
                  h->n_attacks ? vt_header_threat(h, threat, sizeof threat) : "clean images", ", ", h->data.format, " ",
                  h->data.split, " split, images ", d->summary->images, "</p>\n", NULL);
    vt_page_paragraph(f, "faint",
                      "One evaluation, for an auditor: what was evaluated, what was found, what was not tested. The "
                      "commands below each section give its numbers again; they run in a shell as they stand.");
    write_result(f, d);
    write_model(f, d);
    write_threat(f, d);
    write_images(f, d);
    write_attacks(f, d);
    VT_TRY(write_queries(f, d, e));
    write_selftest(f, d);
    VT_TRY(write_files(f, d, e));
    write_others(f, d);
    begin_section(f, "untested", "What was not tested");
    fputs("<ul>\n", f);
    vt_dossier_untested(f, d);
    fputs("</ul>\n", f);
    end_section(f, d, VT_AGAIN_PAGE, VT_AGAIN_COUNT);
    write_versions(f, d);
    vt_page_end(f);
    return VT_OK;
}
