/* SPDX-License-Identifier: MIT */
/* vitrine show: a page of finished runs with their broken images. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/run_args.h"
#include "cli/show_dossier.h"
#include "eval/run_folder.h"
#include "base/files.h"
#include "eval/result_index.h"
#include "eval/header.h"
#include "base/stats.h"
#include "eval/report/page.h"
#include "eval/report/curve.h"
#include "eval/report/show.h"
#include "selftest/selftest.h"

enum { RUNS = 16, POINTS = 4096 };

typedef struct job {
    vt_run_folder first;
    vt_ledger *runs[RUNS];
    vt_summary summary[RUNS];
    int n;
    vt_mark marks[POINTS];
    char series[RUNS][80];
    size_t n_marks;
    double unit; /* of the x axis: 255 for linf, whose radii are spoken of as k/255 */
} job;

/* Adds a point of accuracy (percent) and its 95 % interval if it can be drawn: a ledger may hold any eps. */
static void add_mark(job *j, const char *series, double eps, double percent, double low, double high) {
    double x = eps * j->unit;
    bool known = low >= 0 && low <= high && high <= 100;
    if (j->n_marks < POINTS && x >= 0 && isfinite(x) && percent >= 0 && percent <= 100)
        j->marks[j->n_marks++] =
            (vt_mark){.series = series, .x = x, .y = percent, .low = known ? low : 1, .high = known ? high : 0};
}

/* Adds the points of a curve's ledger to a series. */
static vt_status add_curve(job *j, const vt_ledger *l, const char *series, vt_err *e) {
    vt_curve c;
    VT_TRY(vt_curve_make(&c, l, e));
    for (size_t i = 0; i < c.n_points && c.n; i++) {
        const vt_curve_point *p = &c.points[i];
        add_mark(j, series, p->eps, 100 * (double)p->robust / (double)c.n, p->low, p->high);
    }
    vt_curve_free(&c);
    return VT_OK;
}

/* Orders marks for qsort: by series, then eps ascending, then accuracy descending. */
static int by_series(const void *a, const void *b) {
    const vt_mark *x = a, *y = b;
    if (x->series != y->series) return x->series < y->series ? -1 : 1;
    return x->x != y->x ? (x->x < y->x ? -1 : 1) : (x->y < y->y) - (x->y > y->y);
}

/* Have both runs the same images? Without memory false, with e set. */
static bool same_images(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    int32_t *x = calloc(a->count + b->count + 1, sizeof *x), *y = x + a->count;
    if (!x) {
        vt_fail(e, VT_E_MEMORY, "no memory for the images of %s", b->dir);
        return false;
    }
    size_t n = vt_result_index_images(a, x), m = vt_result_index_images(b, y);
    bool same = n == m && !memcmp(x, y, n * sizeof *x);
    free(x);
    return same;
}

/* May the runs' points be joined by a line? Only for one model (a wrap makes another of the same weights), one threat
 * and the same images: else the line would rise or fall by the images alone. A curve, which knows every eps, is a line
 * of its own. */
static bool same_line(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    static const char *const keys[] = {"weights", "model", "wrap", "data", "norm", "threat", "curve"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!vt_header_agree(a->header, b->header, keys[i])) return false;
    }
    return a == b || same_images(a, b, e);
}

/* Names the series of run i after its folder; a name that is taken gets a number. */
static void name_series(job *j, const vt_cli *c, int i) {
    const char *path = c->positional[i], *slash = strrchr(path, '/');
    const char *wrap = j->summary[i].header->wrap;
    char base[72], *name = j->series[i];
    snprintf(base, sizeof base, "%s%.40s%s%.20s", wrap ? "WRAPPED " : "", slash && slash[1] ? slash + 1 : path,
             wrap ? ", " : "", wrap ? wrap : "");
    snprintf(name, sizeof j->series[i], "%s", base);
    for (int k = 0, n = 2; k < i; k++) {
        if (strcmp(j->series[k], name)) continue;
        snprintf(name, sizeof j->series[i], "%.60s (%d)", base, n++);
        k = -1;
    }
}

/* Collects the points of the chart: a series for each checkpoint and set of images, from its runs and its curve. */
static vt_status collect_marks(job *j, const vt_cli *c, vt_err *e) {
    for (int i = 0; i < j->n; i++) {
        int same = 0;
        const vt_summary *s = &j->summary[i];
        double eps = s->header->eps, low, high;
        while (!same_line(j->runs[same], j->runs[i], e)) same++;
        if (e->code != VT_OK) return e->code;
        if (same == i) { /* the first of its line gives the name, and the accuracy at eps 0 */
            name_series(j, c, i);
            add_mark(j, j->series[i], 0, s->rows[0].percent, s->rows[0].low, s->rows[0].high);
        }
        if (s->header->curve) VT_TRY(add_curve(j, j->runs[i], j->series[same], e));
        if (!s->n_entries || !(eps > 0) || s->header->curve) continue; /* a curve's eps is the whole box */
        double percent = s->total ? 100 * (double)s->worst_robust / (double)s->total : 0;
        vt_wilson(s->worst_robust, s->total, &low, &high);
        add_mark(j, j->series[same], eps, percent, low, high);
    }
    qsort(j->marks, j->n_marks, sizeof *j->marks, by_series);
    return VT_OK;
}

/* Opens all operands and summarises them; runs of different norms are refused. */
static vt_status open_runs(job *j, const vt_cli *c, vt_err *e) {
    for (int i = 0; i < c->n_positional; i++, j->n++) {
        VT_TRY(vt_run_has_tensors(c->positional[i], e));
        VT_TRY(vt_ledger_open(&j->runs[i], c->positional[i], e));
        vt_status s = vt_summary_make(&j->summary[i], j->runs[i], 0, e);
        if (s != VT_OK) {
            vt_ledger_close(j->runs[i]);
            return s;
        }
        const char *norm = j->runs[i]->header->norm_name, *first = j->runs[0]->header->norm_name;
        if (!strcmp(norm, first)) continue;
        j->n++;
        return vt_fail(e, VT_E_USAGE, "%s is of norm %s, %s of %s: they have no common eps", c->positional[0], first,
                       c->positional[i], norm);
    }
    j->unit = strcmp(j->runs[0]->header->norm_name, "linf") ? 1 : 255;
    return VT_OK;
}

/* Writes the HTML page of the first run, with the accuracy over eps of all. */
static vt_status write_page(const vt_cli *c, job *j, vt_err *e) {
    char path[VT_PATH_MAX], name[100], verdict[VT_VERDICT_ROOM];
    const char *out = vt_cli_get(c, "out");
    long long pictures;
    VT_TRY(vt_cli_int(c, "pictures", 0, 1000, 24, &pictures, e));
    VT_TRY(open_runs(j, c, e));
    VT_TRY(collect_marks(j, c, e));
    if (pictures) VT_TRY(vt_run_folder_open(&j->first, c->positional[0], &c->given, e));
    if (out ? snprintf(path, sizeof path, "%s", out) >= (int)sizeof path
            : !vt_path(path, c->positional[0], "show.html"))
        return vt_fail(e, VT_E_USAGE, "%s: path is too long", out ? out : c->positional[0]);
    VT_TRY(vt_file_may_replace(path, VT_PAGE_START, e));
    vt_show s = {.ledger = j->runs[0],
                 .summary = &j->summary[0],
                 .data = j->first.subject.data,
                 .pictures = (int)pictures};
    s.name = name;
    VT_TRY(vt_run_model_name(c->positional[0], vt_cli_get(c, "weights"), name, e));
    VT_TRY(vt_selftest_read(c->positional[0], verdict, e));
    s.selftest = verdict;
    s.curve = j->marks, s.n_curve = j->n_marks > 2 ? j->n_marks : 0; /* two points are the tiles above */
    s.axis = j->unit > 1 ? "eps, in units of 1/255" : "eps";
    vt_file f;
    VT_TRY(vt_file_begin_path(&f, path, e));
    vt_status st = vt_show_write(f.stream, &s, e);
    if (st != VT_OK) {
        vt_file_abandon(&f);
        return st;
    }
    VT_TRY(vt_file_commit(&f, e));
    printf("%s\n", path);
    return VT_OK;
}

/* Runs vitrine show: writes the page, or the dossier, of one or several runs. */
static vt_status run(const vt_cli *c, vt_err *e) {
    if (vt_cli_has(c, "dossier")) return vt_show_dossier(c, e);
    job *j = calloc(1, sizeof *j);
    if (!j) return vt_fail(e, VT_E_MEMORY, "no memory for a page");
    vt_status s = write_page(c, j, e);
    for (int i = 0; i < j->n; i++) vt_summary_free(&j->summary[i]), vt_ledger_close(j->runs[i]);
    vt_run_folder_close(&j->first);
    free(j);
    return s;
}

static const vt_arg args[] = {
    {"out", "FILE.html", "default: show.html in RUNDIR", VT_OF_OUTPUT},
    {"pictures", "N", "broken images to show (default 24; 0: none, and then no data are needed)", VT_OF_OUTPUT},
    {"dossier", "FILE.html", "write instead what an auditor reads: each number with the command that gives it again",
     VT_OF_OUTPUT},
    VT_RUN_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_show = {
    .name = "show",
    .summary = "a run as one self-contained HTML page",
    .operands = "RUNDIR [RUN ...]",
    .min_operands = 1,
    .max_operands = RUNS,
    .args = args,
    .details =
        "Table, survivors and cost of each stage, margins, the self-test's verdict, and the broken images with "
        "their perturbation, without network or script. More RUNs (other eps, other checkpoints, curves) give "
        "the curve of accuracy over eps; all else is of the first. --dossier: classifier, threat, images, attacks, "
        "what was found and what was not tested; more RUNs are other threats, or corrupted images, of the same "
        "model.",
    .examples =
        {"vitrine eval weights/shapes10-vit --data datasets/shapes10 --images 0:20 --eps 4/255 --attack pgd --out run",
         "vitrine show run", "vitrine show run --pictures 4 --out page.html",
         "vitrine show run --dossier dossier.html"},
    .run = run,
};
