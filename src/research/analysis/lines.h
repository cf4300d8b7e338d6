/* SPDX-License-Identifier: MIT */
/* A figure with one line for each series, over the layers. */
#pragma once

#include "research/analysis/analyze.h"

enum { VT_LINES_MOST = 40 };

typedef struct vt_lines {
    const char *title, *x, *y;
    bool log;
    int n, points;
    char names[VT_LINES_MOST][64];
    double *values; /* [n, points], NaN: a gap */
} vt_lines;

/* Allocates VT_LINES_MOST lines of `points` NaN each; log: of the y axis. Borrows title and y. VT_E_MEMORY. */
vt_status vt_lines_open(vt_lines *l, int points, const char *title, const char *y, bool log, vt_err *e);
/* The most blocks of any checkpoint: the points of a figure over layers. */
int vt_lines_deepest(const vt_analyze *a);
/* Returns a new line's values [points], named "A true" of several checkpoints, else "true"; scratch if full. */
double *vt_lines_add(vt_lines *l, const vt_analyze *a, int subject, const char *name);
/* Hands the figure to vt_analyze_figure as file.svg. */
vt_status vt_lines_draw(const vt_lines *l, const vt_analyze *a, const char *file, vt_err *e);
/* Frees the values and zeroes l; accepts a zeroed one. */
void vt_lines_free(vt_lines *l);
