/* Small pictures as inline SVG, and the text around them: no library, no script, colours from the page's style (classes
 * a, b, soft, axis, num). */
#ifndef VT_EVAL_CHART_H
#define VT_EVAL_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Horizontal bars on one scale: a full part, behind it a light one. */
typedef struct vt_bar {
    char label[64], text[64]; /* on the left; at the end */
    double full, light;
    int level; /* 1: indented */
} vt_bar;
void vt_chart_bars(FILE *f, const char *title, const vt_bar *bars, size_t n);

/* Percent over x, a line for each series; points of a series follow one another, by x. */
typedef struct vt_mark {
    const char *series;
    double x, y, low, high; /* y, low, high in percent; low > high: no interval */
    bool step;              /* of a curve that is known everywhere: y holds from here to the next mark */
} vt_mark;
void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n);

/* Two histograms on one axis; the part left of 0 is marked. */
void vt_chart_histogram(FILE *f, const char *title, const char *axis, const double *a, size_t n_a, const double *b,
                        size_t n_b);

/* About `count` round steps that cover [low, high]: 1, 2 or 5 times a power of ten. */
double vt_chart_step(double low, double high, int count);

#endif
