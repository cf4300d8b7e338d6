/* SPDX-License-Identifier: MIT */
/* Pictures as SVG: charts and bars inside an HTML page, which brings colours and sizes (eval/report/page.css), and
 * figures, which are files of their own. No library, no script; the same numbers give the same bytes. Nothing differs
 * by colour alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include "base/status.h"

/* ---- inside a page ---- */

/* Writes a table cell with a bar on a scale from 0 to `most`: as long as `full`, then hatched as long as `lost`. */
void vt_chart_bar(FILE *f, double full, double lost, double most);

/* Percent over x, a legend and a line for each series; points of a series follow one another, by x. Between two points
 * the left one's value holds: robust accuracy never rises, so it is an upper bound there. */
typedef struct vt_mark {
    const char *series;
    double x, y, low, high; /* y, low, high in percent; low > high: no interval */
    double x_low, x_high;   /* of a figure, an interval of x; x_low >= x_high: none */
} vt_mark;
/* Writes a legend and a chart of marks [n], a stepped line for each series, percent from 0 to 100 over x from 0. title:
 * for screen readers; axis: the name of x. */
void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n);

/* Writes a chart of two histograms, of the finite values of a [n_a] and b [n_b], on one x axis that shows 0; the part
 * left of 0 is marked. */
void vt_chart_histogram(FILE *f, const char *title, const char *axis, const double *a, size_t n_a, const double *b,
                        size_t n_b);

/* Returns the step of an axis with about `count` ticks over [low, high]: 1, 2 or 5 times a power of ten; 1 if low >=
 * high. */
double vt_chart_step(double low, double high, int count);

/* ---- figures ---- */

/* Panels beside each other, each with series of points; below them one legend. What is set for a panel or a
 * series holds until the next one; memory that runs out is reported when the figure is written. */
typedef struct vt_figure vt_figure;

enum { VT_LOG_X = 1, VT_LOG_Y = 2, VT_TIGHT = 4 }; /* tight: linear axes need not begin at 0 */
typedef struct vt_panel {
    char title[120];
    const char *x, *y; /* names of the axes, or NULL; must last until the figure is written */
    unsigned kind;
    double y_from, y_to; /* of the y axis, if y_from < y_to; else from the data. Points outside are left out */
} vt_panel;
/* Adds a panel, a copy of *p; the series that follow are its. */
void vt_figure_panel(vt_figure *f, const vt_panel *p);

/* How a series is drawn. Its name gives it colour and marker, the same in all panels, and a row of the legend. */
enum {
    VT_LINE = 1,
    VT_DASHED = 2,   /* a line with dashes */
    VT_STEPS = 4,    /* a line on which the left point's value holds up to the next; intervals are an area */
    VT_MARKS = 8,    /* a mark for each point, or on a line for some of many */
    VT_HOLLOW = 16,  /* marks that are not filled */
    VT_UNLISTED = 32 /* not in the legend */
};
/* Begins a series of the last panel, named by a format; the points that follow are its. */
void vt_figure_series(vt_figure *f, unsigned style, const char *name, ...) __attribute__((format(printf, 3, 4)));
/* Adds a point to the last series. A line has a gap where it is not finite, or not positive on a logarithmic axis. */
void vt_figure_point(vt_figure *f, double x, double y);
/* Adds a point with intervals, x and y each as value, low, high; low >= high: none. */
void vt_figure_interval(vt_figure *f, const double x[3], const double y[3]);

typedef void vt_figure_draw(vt_figure *f, const void *data);
/* Makes *svg, to be freed, of the figure that draw(f, data) puts together; VT_E_MEMORY leaves none. */
vt_status vt_figure_text(char **svg, const char *title, vt_figure_draw *draw, const void *data, vt_err *e);
/* Writes the figure that draw(f, data) puts together as an SVG file, which appears complete or not at all. */
vt_status vt_figure_save(const char *path, const char *title, vt_figure_draw *draw, const void *data, vt_err *e);
