/* SPDX-License-Identifier: MIT */
#include "research/cli/plot_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "cli/plot.h"

static const char *curve_of(const vt_table *t, int row) {
    const char *name = t->m->rows[row].curve;
    return name ? name : t->m->rows[row].name;
}

static bool has_point(const vt_table *t, const vt_manifest_figure *f, int row) {
    return vt_table_at(t, row, f->data, f->x)->done && vt_table_at(t, row, f->data, f->y)->done;
}

/* Is the row the first of its curve in this panel? */
static bool is_first_of_curve(const vt_table *t, const vt_manifest_figure *f, int row) {
    if (!has_point(t, f, row)) return false;
    for (int r = 0; r < row; r++)
        if (has_point(t, f, r) && !strcmp(curve_of(t, r), curve_of(t, row))) return false;
    return true;
}

/* Numbered in the whole picture, so that a curve has one colour in all panels. */
static int style_of(const vt_table *t, const char *curve) {
    int n = 0;
    for (int r = 0; r < t->m->n_rows; r++) {
        bool first = true;
        for (int k = 0; k < r; k++) first = first && strcmp(curve_of(t, k), curve_of(t, r));
        if (!strcmp(curve_of(t, r), curve)) return n;
        n += first;
    }
    return n;
}

/* Mean and the ends of its interval over the seeds. */
static void mean_and_interval(const vt_table_cell *c, double out[3]) {
    double there[64] = {0}, p;
    int n = 0;
    for (int s = 0; s < c->seeds && n < 64; s++)
        if (!isnan(c->value[s])) there[n++] = c->value[s];
    vt_mean_interval(there, n, 0, &out[0], &out[1], &out[2], &p);
    if (n < 2) out[1] = out[2] = out[0];
}

static void data_block(FILE *f, const vt_table *t, int figure, int lead) {
    const vt_manifest_figure *g = &t->m->figures[figure];
    fprintf(f, "$f%dr%d << EOD\n", figure, lead);
    for (int r = lead; r < t->m->n_rows; r++) {
        double x[3], y[3];
        if (!has_point(t, g, r) || strcmp(curve_of(t, r), curve_of(t, lead))) continue;
        mean_and_interval(vt_table_at(t, r, g->data, g->x), x), mean_and_interval(vt_table_at(t, r, g->data, g->y), y);
        fprintf(f, "%.6f %.6f %.6f %.6f %.6f %.6f\n", x[0], y[0], x[1], x[2], y[1], y[2]);
    }
    fputs("EOD\n", f);
}

static void write_panel(FILE *f, const vt_table *t, int figure) {
    const vt_manifest_figure *g = &t->m->figures[figure];
    const char *sep = "plot ";
    for (int r = 0; r < t->m->n_rows; r++)
        if (is_first_of_curve(t, g, r)) data_block(f, t, figure, r);
    fputs("set title ", f), vt_plot_quote(f, g->name), fputs(" noenhanced\nset xlabel ", f);
    vt_plot_quote(f, t->m->attacks[g->x].name), fputs(" noenhanced\nset ylabel ", f);
    vt_plot_quote(f, t->m->attacks[g->y].name), fputs(" noenhanced\n", f);
    for (int r = 0; r < t->m->n_rows; r++) {
        int style = style_of(t, curve_of(t, r));
        int colour = 1 + (style + 2 * (style / 8)) % 8, point = 4 + (style + style / 8) % 12; /* no pair twice */
        if (!is_first_of_curve(t, g, r)) continue;
        fprintf(f,
                "%s$f%dr%d using 1:2:3:4:5:6 with xyerrorbars ls %d pt %d notitle, $f%dr%d using 1:2 with linespoints "
                "ls %d pt %d title ",
                sep, figure, r, colour, point, figure, r, colour, point);
        vt_plot_quote(f, curve_of(t, r));
        sep = ", ";
    }
    fputs(*sep == 'p' ? "plot NaN notitle\n" : "\n", f);
}

static void write_script(FILE *f, const void *data) {
    const vt_table *t = data;
    double left = 0.09, right = 0.98, gap = 0.10, width = (right - left + gap) / t->m->n_figures;
    fprintf(f,
            "set multiplot layout 1,%d title picture noenhanced margins %.2f,%.2f,0.33,0.86 spacing %.2f\nset tics "
            "nomirror\n",
            t->m->n_figures, left, right, gap);
    for (int i = 0; i < t->m->n_figures; i++) { /* the legend stands in the margin, below the axis and its name */
        fprintf(f, "set key at screen %.4f,0.20 top center vertical maxrows 6 noenhanced\n",
                left + width * i + (width - gap) / 2);
        write_panel(f, t, i);
    }
    fputs("unset multiplot\n", f);
}

vt_status vt_plot_table(const vt_table *t, const char *out_svg, vt_err *e) {
    return vt_plot_written(out_svg, t->m->title ? t->m->title : t->m->name, write_script, t, e);
}
