/* SPDX-License-Identifier: MIT */
/* Small texts: a preprocessing, the log of a training run that is plotted, the points of a chart. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "cli/plot_training.h"
#include "base/chart.h"
#include "data/transform.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* A text that is accepted is written as one that means the same. */
static void preprocessing(const char *text) {
    vt_transform a, b;
    char once[200], again[200];
    vt_err e = {0};
    if (vt_transform_parse(&a, text, &e) != VT_OK) return;
    vt_transform_text(&a, once, sizeof once);
    if (vt_transform_parse(&b, once, &e) != VT_OK) abort();
    vt_transform_text(&b, again, sizeof again);
    if (strcmp(once, again)) abort();
}

/* Lines "x,y" as a chart, in the range of radii and percents. */
static void chart(const char *text) {
    enum { MOST = 100 };
    vt_mark marks[MOST];
    size_t n = 0;
    char *page = NULL;
    for (const char *p = text; p && n < MOST; p = strchr(p, '\n'), p = p ? p + 1 : p) {
        vt_mark m = {.series = "s", .low = 1};
        if (sscanf(p, "%lf,%lf", &m.x, &m.y) == 2 && fabs(m.x) < 1e6 && fabs(m.y) < 1e6) marks[n++] = m;
    }
    size_t size;
    FILE *f = open_memstream(&page, &size);
    if (!f) abort();
    if (n) vt_chart_lines(f, "t", "a", marks, n);
    fclose(f);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *log_file, *figure;
    vt_err e = {0};
    if (n > 1 << 14) return 0; /* larger ones only make fuzzing slow */
    if (!log_file) log_file = scratch("log.jsonl"), figure = scratch("x.svg");
    char *text = malloc(n + 1);
    if (!text) return 0;
    memcpy(text, bytes, n);
    text[n] = 0;
    preprocessing(text);
    chart(text);
    scratch_write(log_file, bytes, n);
    if (vt_plot_training(log_file, "a run", figure, &e) != VT_OK && !e.text[0]) abort();
    free(text);
    return 0;
}
