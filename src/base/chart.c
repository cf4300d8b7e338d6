/* SPDX-License-Identifier: MIT */
#include "base/chart.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/markup.h"
#include "base/mem.h"
#include "base/text.h"

/* Writes the start of an SVG image. */
static void begin_svg(FILE *f, const char *title, int width, int height) {
    fprintf(f, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><title>", width, height);
    vt_html(f, title), fputs("</title>\n", f);
}

/* Writes a <text> element at x, y, its content escaped; attributes: markup that begins with a space, or "". */
__attribute__((format(printf, 5, 6))) static void text(FILE *f, double x, double y, const char *attributes,
                                                       const char *format, ...) {
    char buf[400];
    va_list ap;
    va_start(ap, format);
    vsnprintf(buf, sizeof buf, format, ap);
    va_end(ap);
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    vt_html(f, buf), fputs("</text>\n", f);
}

/* Draws a rectangle of CSS class `kind` from its upper left corner x, y; nothing if it is empty. */
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

typedef struct frame {
    double left, top, width, height; /* of the plot in the picture */
    double x0, x1, y0, y1;           /* what it shows */
    bool log_x, log_y, whole_x;      /* whole: ticks at whole numbers alone */
    const char *unit;                /* after numbers of the y axis */
} frame;

enum { WIDE = 400, HIGH = 250, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 46 }; /* of a chart in a page */
static const frame in_page = {LEFT, TOP, WIDE - LEFT - RIGHT, HIGH - BOTTOM - TOP, 0, 1, 0, 1, .unit = ""};

/* Returns where v lies between from (0) and to (1). */
static double share_of(double v, double from, double to, bool logarithmic) {
    return logarithmic ? (log10(v) - log10(from)) / (log10(to) - log10(from)) : (v - from) / (to - from);
}
/* Returns where x of the data lies in the picture: linear or logarithmic, as a's axis is. Not clipped to the plot. */
static double at_x(const frame *a, double x) { return a->left + share_of(x, a->x0, a->x1, a->log_x) * a->width; }
/* Returns where y of the data lies in the picture, downwards from its top: linear, or logarithmic if a->log_y. */
static double at_y(const frame *a, double y) {
    return a->top + a->height - share_of(y, a->y0, a->y1, a->log_y) * a->height;
}

enum { TICKS = 50 }; /* far more than the steps make */

/* Writes powers of ten in [from, to], about `count`, below 2.5 decades 2 and 5 times them too; returns how many. */
static int find_log_ticks(double out[TICKS], double from, double to, int count) {
    static const double leads[] = {1, 2, 5};
    int n = 0;
    double first = floor(log10(from)), last = log10(to), by = fmax(vt_chart_step(first, last, count), 1);
    for (double d = first; d <= last; d += by)
        for (int k = 0; k < (last - log10(from) < 2.5 ? 3 : 1); k++) {
            double v = leads[k] * pow(10, d);
            if (v >= from && v <= to && n < TICKS) out[n++] = v;
        }
    return n;
}

/* Writes the ticks of an axis, about `count`; returns how many. whole: at whole numbers only. */
static int find_ticks(double out[TICKS], double from, double to, bool logarithmic, bool whole, int count) {
    if (logarithmic && to / from >= 10) return find_log_ticks(out, from, to, count);
    double step = vt_chart_step(from, to, count);
    if (whole && step < 1) step = 1;
    double first = ceil(from / step - 1e-9) + 0.0;
    int n = 0;
    for (; n < TICKS && (first + n) * step <= to + 1e-6 * (to - from); n++) out[n] = (first + n) * step + 0.0;
    return n;
}

/* Draws lines at the ticks of y, ticks and names of both axes, and the x axis; y_name NULL: none. */
static void draw_axes(FILE *f, const frame *a, const char *x_name, const char *y_name) {
    double right = a->left + a->width, low = a->top + a->height, ticks[TICKS];
    int n = find_ticks(ticks, a->y0, a->y1, a->log_y, false, 5);
    for (int k = 0; k < n; k++) {
        double y = at_y(a, ticks[k]);
        draw_line(f, "grid", a->left, y, right, y);
        text(f, a->left - 6, y + 4.5, " class=\"num faint\" text-anchor=\"end\"", "%g%s", ticks[k], a->unit);
    }
    n = find_ticks(ticks, a->x0, a->x1, a->log_x, a->whole_x, 6);
    for (int k = 0; k < n; k++)
        text(f, at_x(a, ticks[k]), low + 17, " class=\"num faint\" text-anchor=\"middle\"", "%g", ticks[k]);
    draw_line(f, "axis", a->left, low, right, low);
    text(f, (a->left + right) / 2, low + 39, " class=\"faint\" text-anchor=\"middle\"", "%s", x_name);
    if (!y_name) return;
    char turned[120];
    snprintf(turned, sizeof turned,
             " class=\"faint\" text-anchor=\"middle\" transform=\"translate(%.1f %.1f)rotate(-90)\"", a->left - 62,
             a->top + a->height / 2);
    text(f, 0, 0, turned, "%s", y_name);
}

/* ---- series ---- */

/* A series: its colour, dashes and marker. */
typedef struct look {
    const char *colour, *dashes, *marker; /* marker: a path around 0, 0 */
} look;

/* Returns the look of series number `which`. With four colours 16 looks differ, with eight 32, in print too. */
static look look_of(int which, int colours) {
    static const char *const colour[] = {"a", "b", "c", "d", "e", "f", "g", "h"},
                             *const dashes[] = {"none", "7 4", "2 3", "9 3 2 3"},
                             *const markers[] = {"m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
                                                 "m-3.4 -3.4h6.8v6.8h-6.8z", "m0 -4.4l4.4 7.6h-8.8z",
                                                 "m0 -4.8l4.8 4.8l-4.8 4.8l-4.8 -4.8z"};
    return (look){colour[which % colours], dashes[which % 4], markers[(which + which / colours) % 4]};
}

/* Returns whether a point lies within the axes. */
static bool is_shown(const frame *a, const vt_mark *m) {
    return m->x >= a->x0 && m->x <= a->x1 && m->y >= a->y0 && m->y <= a->y1;
}

/* Draws the intervals of all points as one area; from a point to the next, the interval of the left one holds. */
static void draw_interval_band(FILE *f, const frame *a, const vt_mark *m, size_t n, const look *l) {
    fprintf(f, "<path class=\"%s band\" d=\"", l->colour);
    for (size_t i = 0; i + 1 < n; i++)
        if (m[i].low <= m[i].high && is_shown(a, &m[i]) && is_shown(a, &m[i + 1]))
            fprintf(f, "M%.2f %.2fH%.2fV%.2fH%.2fz", at_x(a, m[i].x), at_y(a, m[i].high), at_x(a, m[i + 1].x),
                    at_y(a, m[i].low), at_x(a, m[i].x));
    fputs("\"/>\n", f);
}

/* Draws a point's intervals as lines, cut to the axes. */
static void draw_error_bars(FILE *f, const frame *a, const vt_mark *m, const look *l) {
    char bar[16];
    double x = at_x(a, m->x), y = at_y(a, m->y);
    snprintf(bar, sizeof bar, "%s bar", l->colour);
    if (m->x_low < m->x_high) draw_line(f, bar, at_x(a, fmax(m->x_low, a->x0)), y, at_x(a, m->x_high), y);
    if (m->low < m->high) draw_line(f, bar, x, at_y(a, fmax(m->low, a->y0)), x, at_y(a, fmin(m->high, a->y1)));
}

/* Draws a series' line, straight or in steps (VT_STEPS), with gaps at points outside the axes. */
static void draw_path(FILE *f, const frame *a, const vt_mark *m, size_t n, unsigned style, const look *l) {
    bool down = false;
    fprintf(f, "<path class=\"%s line\" stroke-dasharray=\"%s\" d=\"", l->colour, l->dashes);
    for (size_t i = 0; i < n; i++) {
        bool shown = is_shown(a, &m[i]);
        if (shown)
            fprintf(f,
                    !down              ? "M%.2f %.2f"
                    : style & VT_STEPS ? "H%.2fV%.2f"
                                       : "L%.2f %.2f",
                    at_x(a, m[i].x), at_y(a, m[i].y));
        down = shown;
    }
    fputs("\"/>\n", f);
}

/* Draws a point's marker with a tooltip of its numbers. */
static void draw_mark(FILE *f, const frame *a, const vt_mark *m, unsigned style, const look *l) {
    fprintf(f, "<path class=\"%s %s\" d=\"M%.2f %.2f%s\"><title>", l->colour, style & VT_HOLLOW ? "open" : "mark",
            at_x(a, m->x), at_y(a, m->y), l->marker);
    fprintf(f, *a->unit ? "%.6g: %.2f%s" : "%.6g: %.6g%s", m->x, m->y, a->unit);
    if (style & VT_STEPS && m->low <= m->high) fprintf(f, ", 95 %%: %.2f to %.2f", m->low, m->high);
    fputs("</title></path>\n", f);
}

enum { LINE = VT_LINE | VT_DASHED | VT_STEPS, CROWD = 60 }; /* marks on a line: more would be a thicket */

/* Draws a series. one_in: on a crowded line only every one_in-th mark is drawn; 0: none. */
static void draw_series(FILE *f, const frame *a, const vt_mark *m, size_t n, unsigned style, const look *l,
                        size_t one_in) {
    if (style & VT_STEPS) draw_interval_band(f, a, m, n, l);
    if (style & LINE) draw_path(f, a, m, n, style, l);
    if (!(style & LINE) || n <= CROWD) one_in = 1;
    for (size_t i = 0; i < n; i++) {
        if (!is_shown(a, &m[i])) continue;
        if (!(style & VT_STEPS)) draw_error_bars(f, a, &m[i], l);
        if (style & VT_MARKS && one_in && i % one_in == 0) draw_mark(f, a, &m[i], style, l);
    }
}

/* Draws a series' line and mark as the legend shows them, from x, y on. */
static void draw_sample(FILE *f, double x, double y, unsigned style, const look *l) {
    if (style & LINE)
        fprintf(f, "<path class=\"%s line\" stroke-dasharray=\"%s\" d=\"M%g %gH%g\"/>", l->colour, l->dashes, x, y,
                x + 38);
    if (style & VT_MARKS)
        fprintf(f, "<path class=\"%s %s\" d=\"M%g %g%s\"/>", l->colour, style & VT_HOLLOW ? "open" : "mark", x + 19, y,
                l->marker);
}

/* ---- lines in a page ---- */

/* Returns the index after the last mark of the series that begins at i. */
static size_t end_of(const vt_mark *marks, size_t n, size_t i) {
    size_t j = i + 1;
    while (j < n && !strcmp(marks[j].series, marks[i].series)) j++;
    return j;
}

void vt_chart_lines(FILE *f, const char *title, const char *axis, const vt_mark *marks, size_t n) {
    const unsigned style = VT_STEPS | VT_MARKS;
    frame a = in_page;
    int which = 0;
    a.x1 = 0, a.y1 = 100, a.unit = " %";
    fputs("<p class=\"legend\">", f);
    for (size_t i = 0; i < n; i = end_of(marks, n, i)) {
        const look l = look_of(which++, 4);
        fputs("<span><svg viewBox=\"0 0 40 12\" aria-hidden=\"true\">", f);
        draw_sample(f, 1, 6, style, &l);
        fputs("</svg>", f);
        vt_html(f, marks[i].series);
        fputs("</span>\n", f);
    }
    fputs("</p>\n", f);
    for (size_t i = 0; i < n; i++) a.x1 = fmax(a.x1, marks[i].x);
    if (!(a.x1 > 0)) a.x1 = 1;
    begin_svg(f, title, WIDE, HIGH);
    draw_axes(f, &a, axis, NULL);
    which = 0;
    for (size_t i = 0, j; i < n; i = j) {
        const look l = look_of(which++, 4);
        j = end_of(marks, n, i);
        draw_series(f, &a, marks + i, j - i, style, &l, 0);
    }
    fputs("</svg>\n", f);
}

/* ---- histograms ---- */

enum { BINS = 40 };

/* Returns x within +-1e300, so that differences of two values are finite. */
static double clamp_magnitude(double x) { return fmin(fmax(x, -1e300), 1e300); }

/* Sets bins to the counts of the finite values v [n], those outside a's x axis in the end bins; returns the largest. */
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

/* Draws a histogram's columns, each half a bin wide and moved right by `shift` bins. */
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
    frame a = in_page;
    for (size_t i = 0; i < n_v + n_w; i++) {
        double x = i < n_v ? v[i] : w[i - n_v];
        if (isfinite(x)) a.x0 = fmin(a.x0, clamp_magnitude(x)), a.x1 = fmax(a.x1, clamp_magnitude(x));
    }
    /* whole bins on either side of 0: none holds both kinds of verdict */
    double bin = (a.x1 - a.x0) > 0 ? (a.x1 - a.x0) / (BINS - 2) : 1.0 / BINS;
    a.x0 = -ceil(-a.x0 / bin) * bin, a.x1 = a.x0 + BINS * bin;
    a.y1 = fmax(1, fmax(fill_bins(first, &a, v, n_v), fill_bins(second, &a, w, n_w)));
    begin_svg(f, title, WIDE, HIGH);
    fputs("<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\"><path class=\"b "
          "hatch\" "
          "d=\"M-1 1l2 -2M0 4l4 -4M3 5l2 -2\"/></pattern></defs>\n",
          f);
    if (a.x0 < 0) draw_rect(f, "zone", LEFT, TOP, at_x(&a, 0) - LEFT, HIGH - BOTTOM - TOP);
    draw_axes(f, &a, axis, NULL);
    draw_columns(f, &a, first, "a column", 0);
    draw_columns(f, &a, second, "b hatched", 0.5);
    draw_line(f, "axis", at_x(&a, 0), TOP, at_x(&a, 0), HIGH - BOTTOM);
    fputs("</svg>\n", f);
}

/* ---- figures ---- */

typedef struct series {
    char name[160];
    unsigned style;
    int look;
    size_t panel, first, n;
} series;

struct vt_figure {
    const char *title;
    vt_panel *panels;
    series *series;
    vt_mark *points;
    size_t n_panels, n_series, n_points;
    int n_looks;
    bool short_of; /* there was no memory for all of it */
};

/* Makes room for one more item (vt_grow); false, and f->short_of set: no memory for it or for something before it. */
static bool has_room(vt_figure *f, void *list, size_t n, size_t item) {
    f->short_of = f->short_of || !vt_grow(list, n, item);
    return !f->short_of;
}

void vt_figure_panel(vt_figure *f, const vt_panel *p) {
    if (has_room(f, &f->panels, f->n_panels, sizeof *f->panels)) f->panels[f->n_panels++] = *p;
}

void vt_figure_series(vt_figure *f, unsigned style, const char *name, ...) {
    if (!has_room(f, &f->series, f->n_series, sizeof *f->series)) return;
    series *s = &f->series[f->n_series], *twin = f->series;
    *s = (series){.style = style, .panel = f->n_panels - 1, .first = f->n_points};
    va_list ap;
    va_start(ap, name);
    vsnprintf(s->name, sizeof s->name, name, ap);
    va_end(ap);
    while (twin < s && strcmp(twin->name, s->name)) twin++;
    s->look = twin < s ? twin->look : f->n_looks++;
    f->n_series++;
}

static void add_point(vt_figure *f, const vt_mark *m) {
    if (!has_room(f, &f->points, f->n_points, sizeof *f->points)) return;
    f->points[f->n_points++] = *m;
    f->series[f->n_series - 1].n++;
}

void vt_figure_point(vt_figure *f, double x, double y) { add_point(f, &(vt_mark){.x = x, .y = y, .low = 1}); }

void vt_figure_interval(vt_figure *f, const double x[3], const double y[3]) {
    add_point(f, &(vt_mark){.x = x[0], .y = y[0], .low = y[1], .high = y[2], .x_low = x[1], .x_high = x[2]});
}

/* Sets the ends of an axis to the values seen with a little room; a linear one begins at 0 or below unless tight. */
static void set_range(double *from, double *to, const double seen[2], bool logarithmic, bool tight) {
    double low = seen[0], high = seen[1];
    if (!(low <= high)) low = logarithmic, high = 1;
    if (logarithmic) {
        *from = low / 1.25, *to = high * 1.25;
        return;
    }
    if (!tight) low = fmin(low, 0);
    double room = high > low ? 0.04 * (high - low) : 1;
    *from = tight || low < 0 ? low - room : 0, *to = high + room;
}

/* Widens the range of values seen to v; on a logarithmic axis v <= 0 changes nothing. */
static void stretch_to(double seen[2], double v, bool logarithmic) {
    if (logarithmic && !(v > 0)) return;
    seen[0] = fmin(seen[0], clamp_magnitude(v)), seen[1] = fmax(seen[1], clamp_magnitude(v));
}

/* Returns the frame of panel `which` in the box of wide x high at left, top; axes: of its points, or y_from to y_to. */
static frame frame_of(const vt_figure *f, size_t which, double left, double top, double wide, double high) {
    const vt_panel *p = &f->panels[which];
    frame a = {left + 76, top + 26, wide - 92, high - 76, .whole_x = true, .unit = ""};
    a.log_x = p->kind & VT_LOG_X, a.log_y = p->kind & VT_LOG_Y;
    double across[2] = {INFINITY, -INFINITY}, up[2] = {INFINITY, -INFINITY};
    for (const series *s = f->series; s < f->series + f->n_series; s++)
        for (const vt_mark *m = f->points + s->first; s->panel == which && m < f->points + s->first + s->n; m++) {
            if (!isfinite(m->x) || !isfinite(m->y)) continue;
            stretch_to(across, m->x, a.log_x), stretch_to(up, m->y, a.log_y);
            if (m->x_low < m->x_high) stretch_to(across, m->x_low, a.log_x), stretch_to(across, m->x_high, a.log_x);
            if (m->low < m->high) stretch_to(up, m->low, a.log_y), stretch_to(up, m->high, a.log_y);
            a.whole_x = a.whole_x && m->x == rint(m->x);
        }
    set_range(&a.x0, &a.x1, across, a.log_x, p->kind & VT_TIGHT);
    set_range(&a.y0, &a.y1, up, a.log_y, p->kind & VT_TIGHT);
    if (p->y_from < p->y_to) a.y0 = p->y_from, a.y1 = p->y_to;
    return a;
}

/* Returns the look of a series in a figure, where the style alone decides on dashes. */
static look figure_look(const series *s) {
    look l = look_of(s->look, 8);
    l.dashes = s->style & VT_DASHED ? "6 4" : "none"; /* lines differ in their markers */
    return l;
}

/* Draws panel `which` of the figure into frame a: title, axes and all its series. */
static void draw_panel(FILE *to, const vt_figure *f, size_t which, const frame *a) {
    const vt_panel *p = &f->panels[which];
    text(to, a->left + a->width / 2, a->top - 10, " text-anchor=\"middle\"", "%s", p->title);
    draw_axes(to, a, p->x ? p->x : "", p->y);
    draw_line(to, "axis", a->left, a->top, a->left, a->top + a->height);
    for (const series *s = f->series; s < f->series + f->n_series; s++) {
        const look l = figure_look(s);
        if (s->panel == which) draw_series(to, a, f->points + s->first, s->n, s->style, &l, s->n / 20);
    }
}

enum { FIGURE_WIDE = 900, HEAD = 40, ROW = 20 };

/* Returns whether the legend lists s: it lists the first series of each name that has points. */
static bool is_listed(const vt_figure *f, const series *s) {
    const series *first = f->series;
    while (first < s && (first->look != s->look || !first->n)) first++;
    return first == s && s->n && !(s->style & VT_UNLISTED);
}

/* Draws the legend from y on, in columns as wide as the longest name; returns its height. to NULL: draws nothing. */
static double draw_legend(FILE *to, const vt_figure *f, double y) {
    size_t longest = 0;
    int n = 0;
    for (const series *s = f->series; s < f->series + f->n_series; s++)
        if (is_listed(f, s)) longest = strlen(s->name) > longest ? strlen(s->name) : longest;
    double wide = 64 + 7.2 * (double)longest;
    int columns = (int)fmax(1, floor((FIGURE_WIDE - 24) / wide));
    for (const series *s = f->series; s < f->series + f->n_series; s++) {
        if (!is_listed(f, s)) continue;
        double x = 24 + n % columns * wide, at = y + n / columns * ROW;
        const look l = figure_look(s);
        if (to) draw_sample(to, x, at, s->style, &l), text(to, x + 46, at + 4.5, "", "%s", s->name);
        n++;
    }
    return (n + columns - 1) / columns * ROW;
}

/* Writes the whole SVG document of a vt_figure: title, panels, legend. */
static void write_figure(FILE *to, const void *figure) {
    static const char style[] =
        "<style>text{font:13px Helvetica,Arial,sans-serif;fill:#1d2329;stroke:none}text.faint{fill:#5c6670}"
        ".a{fill:#0072b2;stroke:#0072b2}.b{fill:#d55e00;stroke:#d55e00}.c{fill:#009e73;stroke:#009e73}"
        ".d{fill:#cc79a7;stroke:#cc79a7}.e{fill:#e69f00;stroke:#e69f00}.f{fill:#56b4e9;stroke:#56b4e9}"
        ".g{fill:#000;stroke:#000}.h{fill:#999;stroke:#999}.grid{stroke:#e1e3e2}.axis{stroke:#5c6670}"
        ".band{stroke:none;opacity:.15}.line{fill:none;stroke-width:2}.mark{stroke:#fff;stroke-width:.5}"
        ".open{fill:#fff;stroke-width:1.4}.bar{stroke-width:1.2}</style>\n";
    const vt_figure *f = figure;
    static const double heights[] = {0, 460, 400, 340}; /* of a panel, one to three in a row */
    size_t n = f->n_panels, columns = n < 2 ? 1 : n == 2 || n == 4 ? 2 : 3, rows = (n + columns - 1) / columns;
    double wide = (double)FIGURE_WIDE / (double)columns, high = heights[columns];
    double legend = HEAD + (double)rows * high + 16, all = legend + draw_legend(NULL, f, 0);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
            "role=\"img\"><title>",
            FIGURE_WIDE, all, FIGURE_WIDE, all);
    vt_html(to, f->title);
    fprintf(to, "</title>\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", style);
    char size[80]; /* a long title's letters are small */
    snprintf(size, sizeof size, " text-anchor=\"middle\" style=\"font-size:%.1fpx;font-weight:bold\"",
             fmin(16, fmax(9, 1600 / (1.0 + (double)strlen(f->title)))));
    text(to, FIGURE_WIDE / 2.0, 26, size, "%s", f->title);
    for (size_t k = 0; k < n; k++) {
        const frame a = frame_of(f, k, (double)(k % columns) * wide, HEAD + (double)(k / columns) * high, wide, high);
        draw_panel(to, f, k, &a);
    }
    draw_legend(to, f, legend);
    fputs("</svg>\n", to);
}

vt_status vt_figure_text(char **svg, const char *title, vt_figure_draw *draw, const void *data, vt_err *e) {
    vt_figure f = {.title = title};
    draw(&f, data);
    vt_status s = f.short_of ? vt_fail(e, VT_E_MEMORY, "no memory for the figure '%s'", title)
                             : vt_text_of(svg, write_figure, &f, title, e);
    free(f.panels), free(f.series), free(f.points);
    return s;
}

vt_status vt_figure_save(const char *path, const char *title, vt_figure_draw *draw, const void *data, vt_err *e) {
    char *svg;
    VT_TRY(vt_file_may_replace(path, "<svg", e));
    VT_TRY(vt_figure_text(&svg, title, draw, data, e));
    vt_status s = vt_file_replace(path, &(vt_span){svg, strlen(svg)}, 1, e);
    free(svg);
    return s;
}
