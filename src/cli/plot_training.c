/* SPDX-License-Identifier: MIT */
#include "cli/plot_training.h"

#include <stdlib.h>
#include <string.h>
#include "base/chart.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mem.h"

enum { LOSS, ACCURACY, RATE, PANELS };
static const vt_panel panels[PANELS] = {{"loss, mean of the epoch", .x = "epoch"},
                                        {"accuracy (%)", .x = "epoch", .y_to = 100},
                                        {"learning rate", .x = "epoch"}};

/* What is drawn: y of the lines that have both keys, against x, in a panel. Accuracies are shares. */
static const struct {
    const char *x, *y, *title;
    int panel;
    unsigned style;
} curves[] = {
    {"epoch_end", "loss", "loss", LOSS, VT_LINE | VT_MARKS},
    {"epoch_end", "clean_train", "clean, train", ACCURACY, VT_DASHED | VT_MARKS},
    {"epoch_end", "clean_probe", "clean, probe", ACCURACY, VT_LINE | VT_MARKS},
    {"epoch_end", "robust_train", "robust, train", ACCURACY, VT_DASHED | VT_MARKS},
    {"epoch_end", "robust_probe", "robust, probe", ACCURACY, VT_LINE | VT_MARKS},
    {"epoch", "lr", "learning rate", RATE, VT_LINE},
};
enum { CURVES = sizeof curves / sizeof *curves };

typedef struct point {
    double x, y;
} point;

typedef struct training_log {
    point *points[CURVES]; /* [lines] each */
    size_t count[CURVES];
} training_log;

/* Adds a log line's values to the curves that have both keys. */
static void add_points(training_log *l, const json_t *line) {
    for (int c = 0; c < CURVES; c++) {
        const json_t *x = json_object_get(line, curves[c].x), *y = json_object_get(line, curves[c].y);
        if (!json_is_number(x) || !json_is_number(y)) continue;
        point p = {json_number_value(x), json_number_value(y) * (curves[c].panel == ACCURACY ? 100 : 1)};
        l->points[c][l->count[c]++] = p;
    }
}

/* Reads a log of n bytes, one JSON object a line; a last line without newline may be cut. */
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

/* Reads the file and allocates room for a point a line in each curve. */
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

/* Draws loss, accuracies and learning rate in a panel each. */
static void draw_log(vt_figure *f, const void *data) {
    const training_log *l = data;
    for (int p = 0; p < PANELS; p++) {
        bool begun = false;
        for (int c = 0; c < CURVES; c++) {
            size_t n = l->count[c], step = (n + MOST_POINTS - 1) / MOST_POINTS;
            if (curves[c].panel != p || !n) continue;
            if (!begun) vt_figure_panel(f, &panels[p]);
            begun = true;
            vt_figure_series(f, curves[c].style, "%s", curves[c].title);
            for (size_t i = 0; i < n; i++)
                if (i % step == 0 || i == n - 1) vt_figure_point(f, l->points[c][i].x, l->points[c][i].y);
        }
    }
}

/* Writes the figure; VT_E_FORMAT: the log holds nothing to plot. */
static vt_status plot_log(const training_log *l, const char *log_jsonl, const char *title, const char *out_svg,
                          vt_err *e) {
    size_t points = 0;
    for (int c = 0; c < CURVES; c++) points += l->count[c];
    if (!points) return vt_fail(e, VT_E_FORMAT, "%s: holds nothing that could be plotted", log_jsonl);
    return vt_figure_save(out_svg, title, draw_log, l, e);
}

vt_status vt_plot_training(const char *log_jsonl, const char *title, const char *out_svg, vt_err *e) {
    training_log l = {0};
    vt_status s = read_log(&l, log_jsonl, e);
    if (s == VT_OK) s = plot_log(&l, log_jsonl, title, out_svg, e);
    for (int c = 0; c < CURVES; c++) free(l.points[c]);
    return s;
}
