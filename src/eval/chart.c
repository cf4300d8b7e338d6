#include "eval/chart.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include "eval/markup.h"

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

static void rect(FILE *f, const char *kind, double x, double y, double w, double h) {
    if (w > 0 && h > 0)
        fprintf(f, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n", kind, x, y, w, h);
}

static void line(FILE *f, const char *kind, double x1, double y1, double x2, double y2) {
    fprintf(f, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", kind, x1, y1, x2, y2);
}

double vt_chart_step(double low, double high, int count) {
    double raw = (high - low) / count;
    if (!(raw > 0) || !isfinite(raw)) return 1;
    double power = pow(10, floor(log10(raw))), lead = raw / power;
    return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* ---- bars ---- */

enum { WIDE = 640, LABEL = 164, BAR = 24, BARS = 340 };

void vt_chart_bars(FILE *f, const char *title, const vt_bar *bars, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, bars[i].full + bars[i].light);
    double unit = most > 0 ? BARS / most : 0;
    begin(f, title, WIDE, (int)n * BAR + 6);
    for (size_t i = 0; i < n; i++) {
        double y = 3 + (double)i * BAR, full = bars[i].full * unit, light = bars[i].light * unit;
        text(f, bars[i].level ? 14 : 0, y + 16, bars[i].level ? " class=\"faint\"" : "", "%s", bars[i].label);
        rect(f, "a", LABEL, y + 4, full, BAR - 8);
        rect(f, "b light", LABEL + full, y + 4, light, BAR - 8);
        text(f, LABEL + full + light + 8, y + 16, " class=\"num\"", "%s", bars[i].text);
    }
    fputs("</svg>\n", f);
}

/* ---- axes ---- */

enum { LEFT = 52, RIGHT = 14, TOP = 12, BOTTOM = 44, HIGH = 300 };

typedef struct frame {
    double x0, x1, y1; /* ranges: x0 to x1, 0 to y1 */
} frame;

static double at_x(const frame *a, double x) { return LEFT + (x - a->x0) / (a->x1 - a->x0) * (WIDE - LEFT - RIGHT); }
static double at_y(const frame *a, double y) { return HIGH - BOTTOM - y / a->y1 * (HIGH - BOTTOM - TOP); }

enum { TICKS = 50 }; /* far more than the steps make */

static void axes(FILE *f, const frame *a, const char *axis, const char *unit) {
    double sx = vt_chart_step(a->x0, a->x1, 8), sy = vt_chart_step(0, a->y1, 5), first = ceil(a->x0 / sx - 1e-9) + 0.0;
    for (int k = 0; k <= TICKS && k * sy <= a->y1 * 1.0001; k++) {
        double y = k * sy;
        line(f, "grid", LEFT, at_y(a, y), WIDE - RIGHT, at_y(a, y));
        text(f, LEFT - 6, at_y(a, y) + 4, " class=\"num faint\" text-anchor=\"end\"", "%g%s", y, unit);
    }
    for (int k = 0; k <= TICKS && (first + k) * sx <= a->x1 * (1 + 1e-9); k++) {
        double x = (first + k) * sx;
        text(f, at_x(a, x), HIGH - BOTTOM + 17, " class=\"num faint\" text-anchor=\"middle\"", "%g", x + 0.0);
    }
    line(f, "axis", LEFT, at_y(a, 0), WIDE - RIGHT, at_y(a, 0));
    text(f, (LEFT + WIDE - RIGHT) / 2.0, HIGH - 8, " class=\"faint\" text-anchor=\"middle\"", "%s", axis);
}

/* ---- lines ---- */

static const char *const colours[] = {"a", "b", "c", "d"};

static void series(FILE *f, const frame *a, const vt_mark *m, size_t n, int which) {
    const char *kind = colours[which % 4];
    fprintf(f, "<polyline class=\"%s stroke\" points=\"", kind);
    for (size_t i = 0; i < n; i++) {
        if (i && m[i].step) fprintf(f, " %.2f,%.2f", at_x(a, m[i].x), at_y(a, m[i - 1].y));
        fprintf(f, "%s%.2f,%.2f", i ? " " : "", at_x(a, m[i].x), at_y(a, m[i].y));
    }
    fputs("\"/>\n", f);
    for (size_t i = 0; i < n; i++) {
        char kinds[24];
        snprintf(kinds, sizeof kinds, "%s whisker", kind);
        if (n <= 24 && m[i].low <= m[i].high) /* more would be a thicket */
            line(f, kinds, at_x(a, m[i].x), at_y(a, m[i].low), at_x(a, m[i].x), at_y(a, m[i].high));
        if (n <= 60)
            fprintf(f, "<circle class=\"%s\" cx=\"%.2f\" cy=\"%.2f\" r=\"3.5\"><title>%.6g: %.2f %%</title></circle>\n",
                    kind, at_x(a, m[i].x), at_y(a, m[i].y), m[i].x, m[i].y);
    }
    rect(f, kind, WIDE - RIGHT - 190, TOP + 4 + 18 * which, 11, 11);
    text(f, WIDE - RIGHT - 173, TOP + 14 + 18 * which, "", "%.26s", m[0].series);
}

void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n) {
    frame a = {0, 0, 100};
    for (size_t i = 0; i < n; i++) a.x1 = fmax(a.x1, marks[i].x);
    if (!(a.x1 > 0)) a.x1 = 1;
    begin(f, title, WIDE, HIGH);
    axes(f, &a, axis, " %");
    int which = 0;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && !strcmp(marks[j].series, marks[i].series); j++) continue;
        series(f, &a, marks + i, j - i, which++);
    }
    fputs("</svg>\n", f);
}

/* ---- histograms ---- */

enum { BINS = 40 };

/* A value of a file as one whose differences are finite. */
static double held(double x) { return fmin(fmax(x, -1e300), 1e300); }

static double fill(double bins[BINS], const frame *a, const double *v, size_t n) {
    double most = 0;
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) continue;
        int k = (int)((held(v[i]) - a->x0) / (a->x1 - a->x0) * BINS);
        bins[k < 0 ? 0 : k >= BINS ? BINS - 1 : k]++;
    }
    for (int k = 0; k < BINS; k++) most = fmax(most, bins[k]);
    return most;
}

static void columns(FILE *f, const frame *a, const double bins[BINS], const char *kind, double shift) {
    double w = (a->x1 - a->x0) / BINS;
    for (int k = 0; k < BINS; k++) {
        double x = at_x(a, a->x0 + k * w), wide = at_x(a, a->x0 + (k + 1) * w) - x;
        rect(f, kind, x + shift * wide + 0.5, at_y(a, bins[k]), wide / 2 - 0.75, at_y(a, 0) - at_y(a, bins[k]));
    }
}

void vt_chart_histogram(FILE *f, const char *title, const char *axis, const double *v, size_t n_v, const double *w,
                        size_t n_w) {
    double first[BINS], second[BINS];
    frame a = {0, 0, 1};
    for (size_t i = 0; i < n_v + n_w; i++) {
        double x = i < n_v ? v[i] : w[i - n_v];
        if (isfinite(x)) a.x0 = fmin(a.x0, held(x)), a.x1 = fmax(a.x1, held(x));
    }
    /* whole bins on either side of 0: none holds both kinds of verdict */
    double bin = (a.x1 - a.x0) > 0 ? (a.x1 - a.x0) / (BINS - 2) : 1.0 / BINS;
    a.x0 = -ceil(-a.x0 / bin) * bin, a.x1 = a.x0 + BINS * bin;
    a.y1 = fmax(1, fmax(fill(first, &a, v, n_v), fill(second, &a, w, n_w)));
    begin(f, title, WIDE, HIGH);
    if (a.x0 < 0) rect(f, "zone", LEFT, TOP, at_x(&a, 0) - LEFT, HIGH - BOTTOM - TOP);
    axes(f, &a, axis, "");
    columns(f, &a, first, "a", 0);
    columns(f, &a, second, "b", 0.5);
    line(f, "axis", at_x(&a, 0), TOP, at_x(&a, 0), HIGH - BOTTOM);
    fputs("</svg>\n", f);
}
