/* SPDX-License-Identifier: MIT */
/* Small pictures as inline SVG, and the bars of a table: no library, no script, colours and sizes from the page's style
 * (eval/report/page.c). Nothing is told apart by colour alone. */
#ifndef VT_CORE_CHART_H
#define VT_CORE_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A cell of a table: a bar on a scale to `most`, a full part and behind it a hatched one. */
void vt_chart_bar(FILE *f, double full, double lost, double most);

/* Percent over x, a legend and a line for each series; points of a series follow one another, by x. Between two points
 * the left one's value holds: robust accuracy never rises, so it is an upper bound there. */
typedef struct vt_mark {
    const char *series;
    double x, y, low, high; /* y, low, high in percent; low > high: no interval */
} vt_mark;
void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n);

/* Two histograms on one axis; the part left of 0 is marked. */
void vt_chart_histogram(FILE *f, const char *title, const char *axis, const double *a, size_t n_a, const double *b,
                        size_t n_b);

/* About `count` round steps that cover [low, high]: 1, 2 or 5 times a power of ten. */
double vt_chart_step(double low, double high, int count);

#endif
