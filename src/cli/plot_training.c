/* SPDX-License-Identifier: MIT */
/* The figure of a training run, from its log. */
#include <stdlib.h>
#include <string.h>
#include "cli/plot.h"
#include "core/files.h"
#include "core/json.h"
#include "core/mem.h"

/* What is drawn: y of the lines that have both keys, against x, in a panel. */
static const struct {
    const char *x, *y, *title;
    bool right, accuracy; /* on the axis to the right; a share, in the panel below */
    const char *style;
} curves[] = {
    {"epoch_end", "loss", "loss, mean of the epoch", false, false, "linespoints ls 1"},
    {"epoch", "lr", "learning rate", true, false, "lines ls 8"},
    {"epoch_end", "clean_train", "clean, train", false, true, "linespoints ls 6 dt 2"},
    {"epoch_end", "clean_probe", "clean, probe", false, true, "linespoints ls 1"},
    {"epoch_end", "robust_train", "robust, train", false, true, "linespoints ls 5 dt 2"},
    {"epoch_end", "robust_probe", "robust, probe", false, true, "linespoints ls 2"},
};
enum { CURVES = sizeof curves / sizeof *curves };

typedef struct point {
    double x, y;
} point;

typedef struct training_log {
    point *points[CURVES]; /* [lines] each */
    size_t count[CURVES];
    double last; /* epoch */
} training_log;

static void add_points(training_log *l, const json_t *line) {
    for (int c = 0; c < CURVES; c++) {
        const json_t *x = json_object_get(line, curves[c].x), *y = json_object_get(line, curves[c].y);
        if (!json_is_number(x) || !json_is_number(y)) continue;
        point p = {json_number_value(x), json_number_value(y) * (curves[c].accuracy ? 100 : 1)};
        l->points[c][l->count[c]++] = p;
        if (p.x > l->last) l->last = p.x;
    }
}

static vt_status parse(training_log *l, const char *text, size_t n, const char *path, vt_err *e) {
    size_t number = 1;
    for (const char *p = text, *end = text + n, *next; p < end; p = next, number++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        next = newline ? newline + 1 : end;
        json_error_t why;
        json_t *line = vt_json(p, (size_t)((newline ? newline : end) - p), &why);
        bool object = json_is_object(line);
        if (object) add_points(l, line);
        json_decref(line);
        if (!object && newline)
            return vt_fail(e, line ? VT_E_FORMAT : vt_json_why(&why), "%s: line %zu is not a JSON object%s%s", path,
                           number, line ? "" : ": ", line ? "" : why.text);
    }
    return VT_OK;
}

static vt_status read_log(training_log *l, const char *path, vt_err *e) {
    char *text;
    size_t n, lines = 1, bytes;
    VT_TRY(vt_file_read(path, VT_FILE_ANY, &text, &n, e));
    for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
    bool room = vt_mul(lines, sizeof(point), &bytes);
    for (int c = 0; c < CURVES; c++) room = room && (l->points[c] = malloc(bytes));
    vt_status s = room ? parse(l, text, n, path, e) : vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    free(text);
    return s;
}

/* A year of steps is drawn with two thousand points; first and last are among them. */
enum { MOST_POINTS = 2000 };

static void write_data(FILE *f, const training_log *l) {
    for (int c = 0; c < CURVES; c++) {
        size_t n = l->count[c], step = (n + MOST_POINTS - 1) / MOST_POINTS;
        if (n == 0) continue;
        fprintf(f, "$curve%d << EOD\n", c);
        for (size_t i = 0; i < n; i++)
            if (i % step == 0 || i == n - 1) fprintf(f, "%.9g %.9g\n", l->points[c][i].x, l->points[c][i].y);
        fprintf(f, "EOD\n");
    }
}

static void write_panel(FILE *f, const training_log *l, bool accuracy) {
    const char *between = "plot ";
    for (int c = 0; c < CURVES; c++) {
        if (curves[c].accuracy != accuracy || !l->count[c]) continue;
        fprintf(f, "%s$curve%d using 1:2 axes x1y%d with %s title '%s'", between, c, 1 + curves[c].right,
                curves[c].style, curves[c].title);
        between = ", ";
    }
    if (*between == 'p') fprintf(f, "set multiplot next"); /* an empty panel */
    fputc('\n', f);
}

static void write_script(FILE *f, const void *data) {
    const training_log *l = data;
    write_data(f, l);
    fprintf(f,
            "set multiplot layout 2,1 title picture noenhanced\nunset title\n"
            "set xrange [0:%.9g]\n"
            "set lmargin 10\nset rmargin 12\nset tmargin 3\nset bmargin 2.5\n"
            "set key above maxrows 1 samplen 2.5 width -2\n"
            "set tics nomirror\n"
            "set ylabel 'loss'\n",
            l->last > 0 ? l->last : 1);
    if (l->count[1]) fprintf(f, "set y2label 'learning rate'\nset y2tics\nset y2range [0:*]\nset format y2 '%%g'\n");
    write_panel(f, l, false);
    fprintf(f, "unset y2tics\nunset y2label\nset tics nomirror\nset ylabel 'accuracy'\nset format y '%%g %%%%'\n"
               "set yrange [0:100]\nset xlabel 'epoch'\nset bmargin 3.5\n");
    write_panel(f, l, true);
    fprintf(f, "unset multiplot\n");
}

static vt_status plot_log(const training_log *l, const char *log_jsonl, const char *title, const char *out_svg,
                          vt_err *e) {
    size_t points = 0;
    for (int c = 0; c < CURVES; c++) points += l->count[c];
    if (!points) return vt_fail(e, VT_E_FORMAT, "%s: holds nothing that could be plotted", log_jsonl);
    return vt_plot_written(out_svg, title, write_script, l, e);
}

vt_status vt_plot_training(const char *log_jsonl, const char *title, const char *out_svg, vt_err *e) {
    training_log l = {0};
    VT_TRY(vt_plot_check(e));
    vt_status s = read_log(&l, log_jsonl, e);
    if (s == VT_OK) s = plot_log(&l, log_jsonl, title, out_svg, e);
    for (int c = 0; c < CURVES; c++) free(l.points[c]);
    return s;
}
