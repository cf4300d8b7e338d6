/* SPDX-License-Identifier: MIT */
/* A curve's run in numbers, for the page of vitrine show. */
#include <math.h>
#include <string.h>
#include "eval/report/curve.h"
#include "core/markup.h"
#include "core/stats.h"
#include "eval/report/page.h"
#include "eval/report/show.h"

/* "0.0111 (2.83/255)"; "none". */
static void put_norm(FILE *f, const vt_curve *c, double d) {
    if (!isfinite(d))
        fputs("none", f);
    else if (c->norm == VT_LINF)
        fprintf(f, "%.4g (%.3g/255)", d, 255 * d);
    else
        fprintf(f, "%.4g", d);
}

static void attack_row(FILE *f, const vt_curve *c, int k) {
    const vt_curve_entry *a = &c->entries[k];
    fputs("<tr><th scope=\"row\">", f);
    vt_html(f, a->name);
    fprintf(f, "</th><td>%lld / %lld</td><td>", (long long)a->found, (long long)a->tried);
    if (isinf(a->eps)) put_norm(f, c, vt_curve_median(c, k));
    fprintf(f, "</td><td>%lld</td><td>%lld</td></tr>\n", (long long)a->gradients, (long long)a->forwards);
}

static void eps_row(FILE *f, const vt_curve *c, const char *name, double eps) {
    double low, high;
    int64_t robust = vt_curve_robust(c, eps);
    vt_wilson(robust, (int64_t)c->n, &low, &high);
    fputs("<tr><th scope=\"row\">", f);
    vt_html(f, name);
    fprintf(f, "</th><td>%lld / %zu</td><td>%.2f</td><td>%.2f to %.2f</td><td>%lld</td></tr>\n", (long long)robust,
            c->n, 100 * (double)robust / (double)c->n, low, high, (long long)vt_curve_unconfirmed(c, eps));
}

/* "<table>" down to its body; columns: their heads, to NULL. */
static void begin_table(FILE *f, const char *title, const char *caption, const char *const *columns) {
    fprintf(f, "<section><h2>%s</h2>\n<table><caption>%s</caption>\n<thead><tr>", title, caption);
    for (; *columns; columns++) fprintf(f, "<th scope=\"col\">%s</th>", *columns);
    fputs("</tr></thead>\n<tbody>\n", f);
}

static void write_radius_table(FILE *f, const vt_curve *c) {
    static const char *const columns[] = {"eps", "right / all", "%", "95 % interval", "by minimum norm alone", NULL};
    begin_table(f, "Results", "Images that stay right at the confirmed eps", columns);
    if (c->n) eps_row(f, c, "0", 0);
    for (int k = 0; k < c->n_entries; k++) /* ascending; several attacks may share an eps */
        if (c->n && isfinite(c->entries[k].eps) && (k == 0 || c->entries[k - 1].eps != c->entries[k].eps))
            eps_row(f, c, c->entries[k].eps_text, c->entries[k].eps);
    fputs("</tbody></table></section>\n", f);
}

static void write_attack_table(FILE *f, const vt_curve *c) {
    static const char *const columns[] = {"attack", "broken / tried", "median norm", "gradients", "forwards", NULL};
    char text[300];
    begin_table(f, "Attacks", "Images that each attack was given and broke", columns);
    for (int k = 0; k < c->n_entries; k++) attack_row(f, c, k);
    fputs("</tbody></table>\n", f);
    for (int k = 0; k < c->n_entries; k++) {
        const vt_curve_entry *a = &c->entries[k];
        for (int i = 0; vt_remark(a->name, a->vanished, a->not_finite, i, text, sizeof text); i++)
            vt_page_paragraph(f, "", text);
    }
    fputs("</section>\n", f);
}

vt_status vt_show_curve(FILE *f, const vt_show *s, vt_err *e) {
    vt_curve c;
    VT_TRY(vt_curve_make(&c, s->ledger, e));
    write_radius_table(f, &c);
    write_attack_table(f, &c);
    vt_curve_free(&c);
    return VT_OK;
}
