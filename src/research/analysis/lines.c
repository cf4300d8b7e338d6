/* SPDX-License-Identifier: MIT */
#include "research/analysis/lines.h"

#include <math.h>
#include <stdlib.h>

vt_status vt_lines_open(vt_lines *l, int points, const char *title, const char *y, bool log, vt_err *e) {
    *l = (vt_lines){.title = title, .x = "layer", .y = y, .log = log, .points = points};
    size_t n = (size_t)(VT_LINES_MOST + 1) * (size_t)points;
    l->values = calloc(n, sizeof *l->values);
    if (!l->values) return vt_fail(e, VT_E_MEMORY, "no memory for a figure of %d points", points);
    for (size_t i = 0; i < n; i++) l->values[i] = NAN;
    return VT_OK;
}

int vt_lines_deepest(const vt_analyze *a) {
    int most = 1;
    for (int i = 0; i < a->n; i++)
        if (vt_model_blocks(a->subjects[i].model) > most) most = vt_model_blocks(a->subjects[i].model);
    return most;
}

double *vt_lines_add(vt_lines *l, const vt_analyze *a, int subject, const char *name) {
    double *row = l->values + (size_t)l->n * (size_t)l->points;
    if (l->n == VT_LINES_MOST) return row;
    if (a->n > 1)
        snprintf(l->names[l->n], sizeof l->names[0], "%c %s", 'A' + subject, name);
    else
        snprintf(l->names[l->n], sizeof l->names[0], "%s", name);
    l->n++;
    return row;
}

/* Figure callback: one panel, a series for each line over 0, 1, ..., points - 1. */
static void draw_lines(vt_figure *f, const void *data) {
    const vt_lines *l = data;
    vt_figure_panel(f, &(vt_panel){.x = l->x, .y = l->y, .kind = l->log ? VT_LOG_Y : 0});
    for (int k = 0; k < l->n; k++) {
        vt_figure_series(f, VT_LINE | VT_MARKS, "%s", l->names[k]);
        for (int p = 0; p < l->points; p++) vt_figure_point(f, p, l->values[(size_t)k * (size_t)l->points + (size_t)p]);
    }
}

vt_status vt_lines_draw(const vt_lines *l, const vt_analyze *a, const char *file, vt_err *e) {
    return vt_analyze_figure(a, file, l->title, -1, draw_lines, l, e);
}

void vt_lines_free(vt_lines *l) {
    free(l->values);
    *l = (vt_lines){0};
}
