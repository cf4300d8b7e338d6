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

static void write_script(FILE *f, const void *data) {
    const vt_lines *l = data;
    fprintf(f, "$lines << EOD\n");
    for (int p = 0; p < l->points; p++) {
        fprintf(f, "%d", p);
        for (int k = 0; k < l->n; k++) {
            double v = l->values[(size_t)k * (size_t)l->points + (size_t)p];
            if (isfinite(v) && (v > 0 || !l->log))
                fprintf(f, " %.9g", v);
            else
                fprintf(f, " NaN");
        }
        fprintf(f, "\n");
    }
    fprintf(f, "EOD\nset xlabel '%s'\nset ylabel '%s'\nset xrange [-0.3:%g]\nset xtics %d\n", l->x, l->y,
            l->points - 0.7, (l->points + 11) / 12);
    fprintf(f, "%sset tics nomirror\nset key outside right top noenhanced\n",
            l->log ? "set logscale y\nset format y '%.0e'\n" : "set yrange [0:*]\n");
    for (int k = 0; k < l->n; k++)
        fprintf(f, "%s$lines using 1:%d with linespoints ls %d dt %d title '%s'", k ? ", " : "plot ", k + 2, 1 + k % 8,
                1 + k / 8, l->names[k]);
    fprintf(f, "\n");
}

vt_status vt_lines_draw(const vt_lines *l, const vt_analyze *a, const char *file, vt_err *e) {
    return vt_analyze_figure(a, file, l->title, -1, write_script, l, e);
}

void vt_lines_free(vt_lines *l) {
    free(l->values);
    *l = (vt_lines){0};
}
