/* SPDX-License-Identifier: MIT */
#include "core/chart.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "core/markup.h"

static void begin(FILE *f, const char *title, int width, int height) {
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>", width, height);
    vt_html(f, title);
    fputs("</title>\n", f);
}

__attribute__((format(printf, 5, 6))) static void text(FILE *f, double x, double y, const char *attributes,
                                                       const char *format, ...) {
    char buf[200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(buf, sizeof buf, format, ap);
    va_end(ap);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    vt_html(f, buf);
    fputs("</text>\n", f);
}

static void draw_rect(FILE *f, const char *kind, double x, double y, double w, double h) {
    if (w > 0 && h > 0)
        fprintf(f, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", kind, x, y, w, h);
}

static void draw_line(FILE *f, const char *kind, double x1, double y1, double x2, double y2) {
    fprintf(f, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", kind, x1, y1, x2, y2);
}

double vt_chart_step(double low, double high, int count) {
    double raw = (high - low) / count;
    if (!(raw > 0) || !isfinite(raw)) return 1;
    double power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* ---- bars ---- */

void vt_chart_bar(FILE *f, double full, double lost, double most) {
    double unit = most > 0 ? 100 / most : 0;
    fputs("<td class=\"bar\"><div>", f);
    if (full * unit > 0) fprintf(f, "<i class=\"full\" style=\"width:%.2f%%\"></i>", full * unit);
    if (lost * unit > 0) fprintf(f, "<i class=\"lost\" style=\"width:%.2f%%\"></i>", lost * unit);
    fputs("</div></td>", f);
}

/* ---- axes ---- */

enum { WIDE = 400, HIGH = 250, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 46 };

typedef struct frame {
    double x0, x1, y1; /* ranges: x0 to x1, 0 to y1 */
} frame;

static double at_x(const frame *a, double x) { return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDE - LEFT - RIGHT); }
static double at_y(const frame *a, double y) { return HIGH - BOTTOM - y / a->y1 * (HIGH - BOTTOM - TOP); }

enum { TICKS = 50 }; /* far more than the steps make */

static void draw_axes(FILE *f, const frame *a, const char *axis, const char *unit) {
    double sx = vt_chart_step(a->x0, a->x1, 6), sy = vt_chart_step(0, a->y1, 5), first = ceil(a->x0 / sx - 1e-9) + 0.0;
    for (int k = 0; k <= TICKS && k * sy <= a->y1 * 1.0001; k++) {
        double y = k * sy;
        draw_line(f, "grid", LEFT, at_y(a, y), WIDE - RIGHT, at_y(a, y));
        text(f, LEFT - 6, at_y(a, y) + 4.5, " class=\"num faint\" text-anchor=\"end\"", "%g%s", y, unit);
    }
    for (int k = 0; k <= TICKS && (first + k) * sx <= a->x1 * (1 + 1e-9); k++) {
        double x = (first + k) * sx;
        text(f, at_x(a, x), HIGH - BOTTOM + 17, " class=\"num faint\" text-anchor=\"middle\"", "%g", x + 0.0);
    }
    draw_line(f, "axis", LEFT, at_y(a, 0), WIDE - RIGHT, at_y(a, 0));
    text(f, (LEFT + WIDE - RIGHT) / 2.0, HIGH - 7, " class=\"faint\" text-anchor=\"middle\"", "%s", axis);
}

/* ---- lines ---- */

/* A series: its colour, dashes and marker. Sixteen differ from each other, in print too. */
typedef struct look {
    const char *colour, *dashes, *marker; /* marker: a path around 0, 0 */
} look;

static look look_of(int which) {
    static const char *const colours[] = {"a", "b", "c", "d"}, *const dashes[] = {"none", "7 4", "2 3", "9 3 2 3"},
                             *const markers[] = {"m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
                                                 "m-3.4 -3.4h6.8v6.8h-6.8z", "m0 -4.4l4.4 7.6h-8.8z",
                                                 "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z"};
    return (look){colours[which % 4], dashes[which % 4], markers[(which + which / 4) % 4]};
}

/* What is known of the share between a point and the next, as a step; intervals of all points as one area. */
static void draw_interval_band(FILE *f, const frame *a, const vt_mark *m, size_t n, const look *l) {
    fprintf(f, "<path class=\"%s band\" d=\"", l->colour);
    for (size_t i = 0; i + 1 < n; i++)
        if (m[i].low <= m[i].high)
            fprintf(f, "M%.2f %.2fH%.2fV%.2fH%.2fz", at_x(a, m[i].x), at_y(a, m[i].high), at_x(a, m[i + 1].x),
                    at_y(a, m[i].low), at_x(a, m[i].x));
    fputs("\"/>\n", f);
}

static void draw_step_line(FILE *f, const frame *a, const vt_mark *m, size_t n, const look *l) {
    fprintf(f, "<path class=\"%s line\" stroke-dasharray=\"%s\" d=\"M%.2f %.2f", l->colour, l->dashes, at_x(a, m[0].x),
            at_y(a, m[0].y));
    for (size_t i = 1; i < n; i++) fprintf(f, "H%.2fV%.2f", at_x(a, m[i].x), at_y(a, m[i].y));
    fputs("\"/>\n", f);
}

static void draw_series(FILE *f, const frame *a, const vt_mark *m, size_t n, int which) {
    const look l = look_of(which);
    draw_interval_band(f, a, m, n, &l);
    draw_step_line(f, a, m, n, &l);
    for (size_t i = 0; i < n && n <= 60; i++) { /* more would be a thicket */
        fprintf(f, "<path class=\"%s mark\" d=\"M%.2f %.2f%s\"><title>%.6g: %.2f %%", l.colour, at_x(a, m[i].x),
                at_y(a, m[i].y), l.marker, m[i].x, m[i].y);
        if (m[i].low <= m[i].high) fprintf(f, ", 95 %%: %.2f to %.2f", m[i].low, m[i].high);
        fputs("</title></path>\n", f);
    }
}

static size_t end_of(const vt_mark *marks, size_t n, size_t i) {
    size_t j = i + 1;
    while (j < n && !strcmp(marks[j].series, marks[i].series)) j++;
    return j;
}

static void draw_legend(FILE *f, const vt_mark *marks, size_t n) {
    int which = 0;
    fputs("<p class=\"legend\">", f);
    for (size_t i = 0; i < n; i = end_of(marks, n, i)) {
        const look l = look_of(which++);
        fprintf(f,
                "<span><svg viewBox=\"0 0 40 12\" aria-hidden=\"true\"><path class=\"%s line\" stroke-dasharray=\"%s\" "
                "d=\"M1 6H39\"/><path class=\"%s mark\" d=\"M20 6%s\"/></svg>",
                l.colour, l.dashes, l.colour, l.marker);
        vt_html(f, marks[i].series);
        fputs("</span>\n", f);
    }
    fputs("</p>\n", f);
}

void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n) {
    frame a = {0, 0, 100};
    for (size_t i = 0; i < n; i++) a.x1 = fmax(a.x1, marks[i].x);
    if (!(a.x1 > 0)) a.x1 = 1;
    draw_legend(f, marks, n);
    begin(f, title, WIDE, HIGH);
    draw_axes(f, &a, axis, " %");
    int which = 0;
    for (size_t i = 0, j; i < n; i = j) j = end_of(marks, n, i), draw_series(f, &a, marks + i, j - i, which++);
    fputs("</svg>\n", f);
}

/* ---- histograms ---- */

enum { BINS = 40 };

/* A value of a file as one whose differences are finite. */
static double clamp_magnitude(double x) { return fmin(fmax(x, -1e300), 1e300); }

static double fill_bins(double bins[BINS], const frame *a, const double *v, size_t n) {
    double most = 0;
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) continue;
        int k = (int)((clamp_magnitude(v[i]) - a->x0) / (a->x1 - a->x0) * BINS);
        bins[k < 0 ? 0 : k >= BINS ? BINS - 1 : k]++;
    }
    for (int k = 0; k < BINS; k++) most = fmax(most, bins[k]);
    return most;
}

static void draw_columns(FILE *f, const frame *a, const double bins[BINS], const char *kind, double shift) {
    double w = (a->x1 - a->x0) / BINS;
    for (int k = 0; k < BINS; k++) {
        double x = at_x(a, a->x0 + k * w), wide = at_x(a, a->x0 + (k + 1) * w) - x;
        draw_rect(f, kind, x + shift * wide + 0.5, at_y(a, bins[k]), wide / 2 - 0.75, at_y(a, 0) - at_y(a, bins[k]));
    }
}

void vt_chart_histogram(FILE *f, const char *title, const char *axis, const double *v, size_t n_v, const double *w,
                        size_t n_w) {
    double first[BINS], second[BINS];
    frame a = {0, 0, 1};
    for (size_t i = 0; i < n_v + n_w; i++) {
        double x = i < n_v ? v[i] : w[i - n_v];
        if (isfinite(x)) a.x0 = fmin(a.x0, clamp_magnitude(x)), a.x1 = fmax(a.x1, clamp_magnitude(x));
    }
    /* whole bins on either side of 0: none holds both kinds of verdict */
    double bin = (a.x1 - a.x0) > 0 ? (a.x1 - a.x0) / (BINS - 2) : 1.0 / BINS;
    a.x0 = -ceil(-a.x0 / bin) * bin, a.x1 = a.x0 + BINS * bin;
    a.y1 = fmax(1, fmax(fill_bins(first, &a, v, n_v), fill_bins(second, &a, w, n_w)));
    begin(f, title, WIDE, HIGH);
    fputs("<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><path class=\"b "
          "hatch\" "
          "d=\"M-1 1l2 -2M0 4l4 -4M3 5l2 -2\"/></pattern></defs>\n",
          f);
    if (a.x0 < 0) draw_rect(f, "zone", LEFT, TOP, at_x(&a, 0) - LEFT, HIGH - BOTTOM - TOP);
    draw_axes(f, &a, axis, "");
    draw_columns(f, &a, first, "a column", 0);
    draw_columns(f, &a, second, "b hatched", 0.5);
    draw_line(f, "axis", at_x(&a, 0), TOP, at_x(&a, 0), HIGH - BOTTOM);
    fputs("</svg>\n", f);
}
