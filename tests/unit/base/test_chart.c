/* SPDX-License-Identifier: MIT */
/* Figures: every point is drawn where its values say, names are text, and the document is well-formed. */
#include "scratch.h"
#include "t.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include "base/chart.h"
#include "base/files.h"

/* A single panel's plot, in units of the picture. */
enum { LEFT = 76, TOP = 66, WIDE = 808, HIGH = 384 };

static double share(double v, double from, double to, bool logarithmic) {
    return logarithmic ? log(v / from) / log(to / from) : (v - from) / (to - from);
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++) n++;
    return n;
}

/* "M884.00 66.00": a point's place, from its values and the ends of the axes. */
typedef struct axes {
    double x0, x1, y0, y1;
    bool logarithmic;
} axes;
static const char *place(const char *letter, const axes *a, double x, double y) {
    static char out[8][40];
    static int next;
    char *p = out[next++ % 8];
    snprintf(p, sizeof *out, "%s%.2f %.2f", letter, LEFT + WIDE * share(x, a->x0, a->x1, a->logarithmic),
             TOP + HIGH - HIGH * share(y, a->y0, a->y1, a->logarithmic));
    return p;
}

static void holds(const char *text, const char *word, int times) {
    if (count(text, word) != times) fail_msg("'%s' is not %d times in: %s", word, times, text);
}

/* Elements close as they open, attributes are quoted, no text has a bare special character. */
static void well_formed(const char *text) {
    char open[20][20];
    int depth = 0;
    for (const char *p = text; *p;) {
        if (*p != '<') {
            assert_true((unsigned char)*p >= 32 || *p == '\n');
            assert_true(*p != '>' && (*p != '&' || strcspn(p, ";") < 7));
            p++;
            continue;
        }
        bool closing = p[1] == '/';
        size_t n = strcspn(p += 1 + closing, " />");
        assert_true(n > 0 && n < sizeof *open && depth < 20);
        if (closing) {
            assert_true(depth > 0 && strlen(open[depth - 1]) == n && !memcmp(open[--depth], p, n));
            p += n;
        } else {
            memcpy(open[depth], p, n), open[depth++][n] = 0;
            for (p += n; *p == ' ';) {
                p += 1 + strcspn(p + 1, "=") + 1;
                assert_int_equal(*p, '"');
                size_t value = strcspn(p + 1, "\"<");
                assert_int_equal(p[1 + value], '"');
                p += value + 2;
            }
            if (*p == '/') depth--, p++;
        }
        assert_int_equal(*p++, '>');
    }
    assert_int_equal(depth, 0);
    holds(text, "nan", 0), holds(text, "inf", 0);
}

static char *drawn(vt_figure_draw *draw, const void *data) {
    vt_err e = {0};
    char *svg;
    if (vt_figure_text(&svg, "<a> & \"b\"\n", draw, data, &e) != VT_OK) fail_msg("%s", e.text);
    well_formed(svg);
    holds(svg, "<title>&lt;a&gt; &amp; &quot;b&quot;?</title>", 1);
    return svg;
}

static void draw_line(vt_figure *f, const void *data) {
    vt_figure_panel(f, data);
    vt_figure_series(f, VT_LINE | VT_MARKS, "it's <%d>", 7);
    vt_figure_point(f, 2, 10), vt_figure_point(f, 5, NAN), vt_figure_point(f, 7, 40), vt_figure_point(f, 20, 90);
}

static void test_linear(void **state) {
    (void)state;
    const vt_panel panel = {"p & q", .x = "across", .y = "up", .y_to = 100}, whole = {.x = NULL},
                   tight = {.kind = VT_TIGHT};
    const axes a = {0, 20.8, 0, 100, false}; /* 4 % more than the largest x */
    char *svg = drawn(draw_line, &panel);
    char line[200];
    snprintf(line, sizeof line, "\"%s%s%s\"", place("M", &a, 2, 10), place("M", &a, 7, 40), place("L", &a, 20, 90));
    holds(svg, line, 1);
    holds(svg, "<title>7: 40</title>", 1), holds(svg, place("M", &a, 7, 40), 2);
    holds(svg, ">it&#39;s &lt;7&gt;</text>", 1);
    holds(svg, ">p &amp; q</text>", 1), holds(svg, ">across</text>", 1), holds(svg, "rotate(-90)\">up</text>", 1);
    for (int v = 0; v <= 100; v += 20) { /* the ticks of y, each beside its line */
        char tick[100];
        snprintf(tick, sizeof tick, "y=\"%.1f\" class=\"num faint\" text-anchor=\"end\">%d</text>",
                 TOP + HIGH - HIGH * v / 100.0 + 4.5, v);
        holds(svg, tick, 1);
    }
    free(svg);
    svg = drawn(draw_line, &whole); /* both axes from 0 */
    holds(svg, place("L", &(axes){0, 20.8, 0, 93.6, false}, 20, 90), 1);
    free(svg);
    svg = drawn(draw_line, &tight);
    holds(svg, place("L", &(axes){2 - 0.72, 20.72, 10 - 3.2, 93.2, false}, 20, 90), 1);
    free(svg);
}

static void draw_powers(vt_figure *f, const void *data) {
    vt_figure_panel(f, data);
    vt_figure_series(f, VT_MARKS, "powers");
    for (int k = -3; k < 5; k++) vt_figure_point(f, pow(10, k), pow(10, k));
    vt_figure_point(f, 0, 1), vt_figure_point(f, 1, -1), vt_figure_point(f, INFINITY, 1), vt_figure_point(f, 1, NAN);
}

static void test_logarithmic(void **state) {
    (void)state;
    const vt_panel all = {.kind = VT_LOG_X | VT_LOG_Y}, part = {.kind = VT_LOG_X | VT_LOG_Y, .y_from = 0.01, .y_to = 2};
    char *svg = drawn(draw_powers, &all);
    for (int k = -3; k < 5; k++)
        holds(svg, place("M", &(axes){0.001 / 1.25, 12500, 0.001 / 1.25, 12500, true}, pow(10, k), pow(10, k)), 1);
    holds(svg, " mark\"", 8 + 1); /* and the legend's */
    holds(svg, ">0.01</text>", 2), holds(svg, ">10000</text>", 2);
    free(svg);
    svg = drawn(draw_powers, &part); /* what lies outside is left out */
    holds(svg, " mark\"", 3 + 1);
    holds(svg, ">0.02</text>", 1), holds(svg, ">0.5</text>", 1), holds(svg, ">2</text>", 1);
    free(svg);
}

static void draw_steps(vt_figure *f, const void *data) {
    (void)data;
    vt_figure_panel(f, &(vt_panel){.y_to = 100});
    vt_figure_series(f, VT_STEPS, "steps");
    for (int k = 0; k < 3; k++)
        vt_figure_interval(f, (double[]){k, k, k}, (double[]){80 - 20 * k, 70 - 20 * k, 90 - 20 * k});
    vt_figure_series(f, VT_MARKS, "bars");
    vt_figure_interval(f, (double[]){1, 0.5, 2}, (double[]){50, 30, 130});
}

static void test_intervals(void **state) {
    (void)state;
    char *svg = drawn(draw_steps, NULL), text[200];
    const double x[] = {LEFT, LEFT + WIDE / 2.08, LEFT + WIDE * 2 / 2.08}; /* 0 to 2 and 4 % more */
    const double y = TOP + HIGH, unit = HIGH / 100.0;
    snprintf(text, sizeof text, "d=\"M%.2f %.2fH%.2fV%.2fH%.2fV%.2f\"", x[0], y - 80 * unit, x[1], y - 60 * unit, x[2],
             y - 40 * unit);
    holds(svg, text, 1);
    snprintf(text, sizeof text, "M%.2f %.2fH%.2fV%.2fH%.2fz", x[0], y - 90 * unit, x[1], y - 70 * unit, x[0]);
    holds(svg, text, 1);
    snprintf(text, sizeof text, "class=\"b bar\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"", (x[0] + x[1]) / 2,
             y - 50 * unit, x[2], y - 50 * unit);
    holds(svg, text, 1);
    snprintf(text, sizeof text, "class=\"b bar\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%d.00\"", x[1], y - 30 * unit,
             x[1], TOP); /* no higher than the panel */
    holds(svg, text, 1);
    free(svg);
}

static void draw_panels(vt_figure *f, const void *data) {
    const int *panels = data;
    for (int p = 0; p < *panels; p++) {
        vt_figure_panel(f, &(vt_panel){.x = "x"});
        for (int k = 0; k < 33; k++) {
            vt_figure_series(f, p ? VT_DASHED | VT_MARKS | VT_HOLLOW : VT_LINE | VT_MARKS, "series %d", k);
            if (k != 5 || p) vt_figure_point(f, 1, k);
        }
        vt_figure_series(f, VT_MARKS | VT_UNLISTED, "hidden");
        vt_figure_point(f, 1, 1);
    }
    vt_figure_series(f, VT_MARKS, "empty");
}

/* A name has one look in all panels and one row of the legend, the first that has points. */
static void test_looks(void **state) {
    (void)state;
    static const double wide[] = {900, 450, 300, 450, 300};
    for (int n = 1; n <= 5; n++) {
        char *svg = drawn(draw_panels, &n), text[100];
        holds(svg, ">series 0</text>", 1), holds(svg, ">series 5</text>", n > 1), holds(svg, ">series 32</text>", 1);
        holds(svg, ">hidden</text>", 0), holds(svg, ">empty</text>", 0), holds(svg, ">x</text>", n);
        holds(svg, "<path class=\"a mark\"", 5 + 5); /* and in the legend */
        holds(svg, "<path class=\"a open\"", 5 * (n - 1));
        holds(svg, "stroke-dasharray=\"6 4\"", 33 * (n - 1) + (n > 1));
        for (int p = 0, columns = (int)(900 / wide[n - 1]); p < n; p++) { /* each in its place */
            snprintf(text, sizeof text, "<line class=\"axis\" x1=\"%.2f\" y1=\"%.2f\"", 76 + p % columns * wide[n - 1],
                     66 + p / columns * (columns == 2 ? 400.0 : 340.0));
            holds(svg, text, 1);
        }
        free(svg);
    }
}

static void draw_many(vt_figure *f, const void *data) {
    const unsigned *style = data;
    vt_figure_panel(f, &(vt_panel){.x = "x"});
    vt_figure_series(f, *style, "many");
    for (int i = 0; i < 1000; i++) vt_figure_point(f, i, 1e297 * i);
}

static void test_many(void **state) {
    (void)state;
    const unsigned line = VT_LINE | VT_MARKS, cloud = VT_MARKS;
    char *svg = drawn(draw_many, &line);
    holds(svg, " mark\"", 20 + 1);
    free(svg);
    svg = drawn(draw_many, &cloud);
    holds(svg, " mark\"", 1000 + 1);
    free(svg);
}

static void draw_nothing(vt_figure *f, const void *data) { (void)f, (void)data; }
static void draw_axes_alone(vt_figure *f, const void *data) { vt_figure_panel(f, data); }

static void test_empty(void **state) {
    (void)state;
    free(drawn(draw_nothing, NULL));
    for (unsigned kind = 0; kind < 8; kind++) {
        const vt_panel panel = {.kind = kind};
        free(drawn(draw_axes_alone, &panel));
    }
}

static void test_saved(void **state) {
    (void)state;
    vt_err e = {0};
    const vt_panel panel = {.x = "x"};
    char *svg = drawn(draw_line, &panel), *text;
    size_t n;
    for (int k = 0; k < 2; k++) {
        assert_int_equal(vt_figure_save(at("a.svg"), "<a> & \"b\"\n", draw_line, &panel, &e), VT_OK);
        assert_int_equal(vt_file_read(at("a.svg"), VT_FILE_ANY, &text, &n, &e), VT_OK);
        assert_true(n == strlen(svg) && !memcmp(text, svg, n));
        free(text);
    }
    free(svg);
    t_says(vt_figure_save(at("no/a.svg"), "t", draw_line, &panel, &e), VT_E_IO, &e, "no/a.svg", "No such file");
    t_says(vt_figure_save("", "t", draw_line, &panel, &e), VT_E_IO, &e, "''", "empty");
}

static void test_step(void **state) {
    (void)state;
    static const double cases[][2] = {{8, 1}, {10, 2}, {17, 5}, {80, 10}, {0.03, 0.005}, {1e6, 200000}};
    for (size_t i = 0; i < T_COUNT(cases); i++)
        t_le(fabs(vt_chart_step(0, cases[i][0], 8) - cases[i][1]), 1e-12 * cases[i][1], "step of %g", cases[i][0]);
    assert_true(vt_chart_step(0, 0, 8) == 1 && vt_chart_step(0, INFINITY, 8) == 1 && vt_chart_step(0, NAN, 8) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear), cmocka_unit_test(test_logarithmic), cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_looks),  cmocka_unit_test(test_many),        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_saved),  cmocka_unit_test(test_step),
    };
    return cmocka_run_group_tests_name("chart", tests, make_tmp, remove_tmp);
}
