/* SPDX-License-Identifier: MIT */
#include "research/cli/plot_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/chart.h"

/* The curve that a row belongs to: its `curve`, or its own name. */
static const char *curve_name(const vt_table *t, int row) {
    const char *name = t->m->rows[row].curve;
    return name ? name : t->m->rows[row].name;
}

/* Whether no earlier row has the same curve. */
static bool is_first_of_curve(const vt_table *t, int row) {
    for (int r = 0; r < row; r++)
        if (!strcmp(curve_name(t, r), curve_name(t, row))) return false;
    return true;
}

/* out: mean over the cell's seeds, and the ends of its 95 % interval; all equal for fewer than two seeds. */
static void mean_and_interval(const vt_table_cell *c, double out[3]) {
    double there[64] = {0}, p;
    int n = 0;
    for (int s = 0; s < c->seeds && n < 64; s++)
        if (!isnan(c->value[s])) there[n++] = c->value[s];
    vt_mean_interval(there, n, 0, &out[0], &out[1], &out[2], &p);
    if (n < 2) out[1] = out[2] = out[0];
}

/* One panel: a series for each curve, a point with intervals for each row whose two cells are done. */
static void draw_panel(vt_figure *f, const vt_table *t, const vt_manifest_figure *g) {
    const vt_manifest *m = t->m;
    vt_panel panel = {.x = m->attacks[g->x].name, .y = m->attacks[g->y].name, .kind = VT_TIGHT};
    snprintf(panel.title, sizeof panel.title, "%s", g->name);
    vt_figure_panel(f, &panel);
    for (int lead = 0; lead < m->n_rows; lead++) {
        if (!is_first_of_curve(t, lead)) continue;
        vt_figure_series(f, VT_LINE | VT_MARKS, "%s", curve_name(t, lead));
        for (int r = lead; r < m->n_rows; r++) {
            const vt_table_cell *at_x = vt_table_at(t, r, g->data, g->x), *at_y = vt_table_at(t, r, g->data, g->y);
            double x[3], y[3];
            if (!at_x->done || !at_y->done || strcmp(curve_name(t, r), curve_name(t, lead))) continue;
            mean_and_interval(at_x, x), mean_and_interval(at_y, y);
            vt_figure_interval(f, x, y);
        }
    }
}

/* Figure callback: a panel for each figure of the manifest. */
static void draw_all(vt_figure *f, const void *data) {
    const vt_table *t = data;
    for (int i = 0; i < t->m->n_figures; i++) draw_panel(f, t, &t->m->figures[i]);
}

vt_status vt_plot_table(const vt_table *t, const char *out_svg, vt_err *e) {
    return vt_figure_save(out_svg, t->m->title ? t->m->title : t->m->name, draw_all, t, e);
}
