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

/* Up to VT_LINES_MOST lines of NaN; vt_lines_free. */
vt_status vt_lines_open(vt_lines *l, int points, const char *title, const char *y, bool log, vt_err *e);
/* A new line's values [points]; scratch that is drawn nowhere when there are too many. name: "A true". */
double *vt_lines_add(vt_lines *l, const vt_analyze *a, int subject, const char *name);
vt_status vt_lines_draw(const vt_lines *l, const vt_analyze *a, const char *file, vt_err *e);
void vt_lines_free(vt_lines *l);
