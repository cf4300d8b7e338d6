/* SPDX-License-Identifier: MIT */
#include "cli/eval_corruptions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"
#include "core/json.h"
#include "core/opt.h"
#include "core/markup.h"
#include "eval/report/summary.h"
#include "io/folders.h"

enum { MOST_NAMES = 256 };

/* The fifteen that CIFAR-10-C's mean is over; the other four were meant for choosing a method (Hendrycks and Dietterich
 * 2019, section 4). */
static const char *const benchmark[] =
    {"gaussian_noise",    "shot_noise", "impulse_noise",   "defocus_blur", "glass_blur", "motion_blur",
     "zoom_blur",         "snow",       "frost",           "fog",          "brightness", "contrast",
     "elastic_transform", "pixelate",   "jpeg_compression"};
enum { BENCHMARK = sizeof benchmark / sizeof *benchmark };

/* Right images of one evaluation in one row of its table. */
typedef struct cell {
    int64_t count, total;
    double percent;
} cell;

typedef struct sweep {
    const char *names[MOST_NAMES];
    int n, from, to;    /* corruptions; severities */
    vt_folders known;   /* that the data have */
    char (*labels)[56]; /* of the rows: clean, every attack, worst case */
    int rows;
    cell *cells; /* [n][to - from + 1][rows] */
    const char *out;
} sweep;

bool vt_eval_many_corruptions(const vt_cli *c) {
    const char *name = vt_cli_get(c, "corruption");
    return name && (!vt_cli_has(c, "severity") || !strcmp(name, "all") || strchr(name, ','));
}

static int severity_count(const sweep *s) { return s->to - s->from + 1; }

static cell *cell_at(const sweep *s, int name, int severity, int row) {
    return &s->cells[((size_t)name * (size_t)severity_count(s) + (size_t)(severity - s->from)) * (size_t)s->rows +
                     (size_t)row];
}

/* ---- what is asked for ---- */

static vt_status fail_unknown_corruption(const char *name, const sweep *s, const char *data, vt_err *e) {
    const char *near = vt_nearest(name, (const char *const *)s->known.name, (size_t)s->known.n);
    return vt_fail(e, VT_E_USAGE, "--corruption names '%.60s', but %s has no %.60s.npy%s%s%s", name, data, name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static vt_status add_name(sweep *s, const char *name, const char *data, vt_err *e) {
    int k = 0;
    while (k < s->known.n && strcmp(s->known.name[k], name)) k++;
    if (k == s->known.n) return fail_unknown_corruption(name, s, data, e);
    for (int i = 0; i < s->n; i++)
        if (s->names[i] == s->known.name[k]) return vt_fail(e, VT_E_USAGE, "--corruption names '%s' twice", name);
    if (s->n == MOST_NAMES) return vt_fail(e, VT_E_USAGE, "--corruption names more than %d corruptions", MOST_NAMES);
    s->names[s->n++] = s->known.name[k];
    return VT_OK;
}

static vt_status parse(sweep *s, const vt_cli *c, vt_err *e) {
    const char *text = vt_cli_get(c, "corruption"), *data = vt_cli_get(c, "data");
    char buf[4096], *rest;
    long long severity;
    s->out = vt_cli_get(c, "out");
    if (!s->out)
        return vt_fail(e, VT_E_USAGE,
                       "--corruption %.60s is more than one evaluation: give --out FOLDER, or one name "
                       "and --severity",
                       text);
    if (vt_cli_has(c, "seeds")) return vt_fail(e, VT_E_USAGE, "give --seeds or several corruptions, not both");
    if (!data) return vt_fail(e, VT_E_USAGE, "--corruption needs --data FOLDER (CIFAR-10-C)");
    VT_TRY(vt_cli_int(c, "severity", 1, VT_SEVERITIES, 0, &severity, e));
    s->from = severity ? (int)severity : 1, s->to = severity ? (int)severity : VT_SEVERITIES;
    VT_TRY(vt_corruptions_list(&s->known, data, e));
    if (!strcmp(text, "all")) {
        for (int i = 0; i < s->known.n; i++) VT_TRY(add_name(s, s->known.name[i], data, e));
        return VT_OK;
    }
    if (snprintf(buf, sizeof buf, "%s", text) >= (int)sizeof buf)
        return vt_fail(e, VT_E_USAGE, "--corruption is longer than %zu characters", sizeof buf - 1);
    for (char *word = strtok_r(buf, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        VT_TRY(add_name(s, word, data, e));
    return s->n ? VT_OK
                : vt_fail(e, VT_E_USAGE, "--corruption is '%s', must be names separated by commas, or all", text);
}

/* ---- the evaluations ---- */

static vt_status folder_of(const sweep *s, int name, int severity, char out[VT_PATH_MAX], vt_err *e) {
    if (snprintf(out, VT_PATH_MAX, "%s/%s-%d", s->out, s->names[name], severity) < VT_PATH_MAX) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: path is too long", s->out);
}

static vt_status make_room(sweep *s, const vt_summary *sum, vt_err *e) {
    vt_row r;
    for (int i = 0; vt_summary_row(sum, i, &r); i++) s->rows += r.level == 0;
    s->labels = calloc((size_t)s->rows + 1, sizeof *s->labels);
    s->cells = calloc((size_t)s->n * (size_t)severity_count(s) * (size_t)s->rows + 1, sizeof *s->cells);
    if (!s->labels || !s->cells) return vt_fail(e, VT_E_MEMORY, "no memory for %d corruptions", s->n);
    for (int i = 0, k = 0; vt_summary_row(sum, i, &r); i++)
        if (r.level == 0) snprintf(s->labels[k++], sizeof *s->labels, "%.55s", r.label);
    return VT_OK;
}

/* The ledger's rows into the cells, and onto one line of the terminal. */
static vt_status collect_cells(sweep *s, int name, int severity, const char *dir, vt_err *e) {
    vt_ledger *l;
    vt_summary sum;
    vt_row r;
    VT_TRY(vt_ledger_open(&l, dir, e));
    vt_status st = vt_summary_make(&sum, l, 0, e);
    if (st != VT_OK) {
        vt_ledger_close(l);
        return st;
    }
    if (!s->cells) st = make_room(s, &sum, e);
    printf("%s, severity %d:", s->names[name], severity);
    for (int i = 0, k = 0; st == VT_OK && vt_summary_row(&sum, i, &r); i++) {
        if (r.level || k == s->rows) continue;
        *cell_at(s, name, severity, k++) = (cell){r.count, r.total, r.percent};
        printf("%s %s %.2f %%", k > 1 ? "," : "", r.label, r.percent);
    }
    printf("\n");
    vt_summary_free(&sum);
    vt_ledger_close(l);
    return st;
}

static vt_status run_all(sweep *s, const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e) {
    static vt_cli one;
    char severity[8], out[VT_PATH_MAX];
    if (c->given.n + 3 > VT_CHOICES_MOST) return vt_fail(e, VT_E_USAGE, "too many options");
    for (int i = 0; i < s->n; i++)
        for (int k = s->from; k <= s->to; k++) {
            one = *c;
            snprintf(severity, sizeof severity, "%d", k);
            VT_TRY(folder_of(s, i, k, out, e));
            vt_cli_set(&one, "corruption", s->names[i]);
            vt_cli_set(&one, "severity", severity);
            vt_cli_set(&one, "out", out);
            VT_TRY(once(&one, e));
            VT_TRY(collect_cells(s, i, k, out, e));
        }
    return VT_OK;
}

/* ---- the table ---- */

static bool in_benchmark(const char *name) {
    for (int i = 0; i < BENCHMARK; i++)
        if (!strcmp(benchmark[i], name)) return true;
    return false;
}

/* Are there all of the benchmark's corruptions, and others? */
static bool has_more(const sweep *s) {
    int of = 0;
    for (int i = 0; i < s->n; i++) of += in_benchmark(s->names[i]);
    return of == BENCHMARK && s->n > BENCHMARK;
}

/* Mean percentage over corruptions (name -1: all; -2: the benchmark's) and severities (0: all). */
static double mean_percent(const sweep *s, int name, int severity, int row) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < s->n; i++)
        for (int k = s->from; k <= s->to; k++) {
            if ((name >= 0 && i != name) || (name == -2 && !in_benchmark(s->names[i]))) continue;
            if (!severity || severity == k) sum += cell_at(s, i, k, row)->percent, n++;
        }
    return n ? sum / n : NAN;
}

static void print_line(const sweep *s, const char *label, int name, int row) {
    printf("%-20s", label);
    for (int k = s->from; k <= s->to; k++) printf(" %8.2f", mean_percent(s, name, k, row));
    if (s->from < s->to) printf(" %8.2f", mean_percent(s, name, 0, row));
    printf("\n");
}

static void print_table(const sweep *s, int row) {
    printf("\n%s: %d corruption%s, right in %% by severity\n%-20s", s->labels[row], s->n, s->n == 1 ? "" : "s", "");
    for (int k = s->from; k <= s->to; k++) printf(" %8d", k);
    printf(s->from < s->to ? " %8s\n" : "\n", "mean");
    for (int i = 0; i < s->n; i++) print_line(s, s->names[i], i, row);
    print_line(s, "mean", -1, row);
    if (has_more(s)) print_line(s, "mean of CIFAR-C's 15", -2, row);
}

static json_t *row_json(const sweep *s, int row) {
    json_t *o = json_object(), *by = json_array();
    for (int k = s->from; k <= s->to; k++) json_array_append_new(by, json_real(mean_percent(s, -1, k, row)));
    json_object_set_new(o, "row", json_string(s->labels[row]));
    json_object_set_new(o, "mean", json_real(mean_percent(s, -1, 0, row)));
    json_object_set_new(o, "mean_by_severity", by);
    if (has_more(s)) json_object_set_new(o, "mean_of_15", json_real(mean_percent(s, -2, 0, row)));
    json_t *all = json_object();
    for (int i = 0; i < s->n; i++) {
        json_t *percent = json_array(), *counts = json_array();
        for (int k = s->from; k <= s->to; k++) {
            json_array_append_new(percent, json_real(cell_at(s, i, k, row)->percent));
            json_array_append_new(counts, json_integer((json_int_t)cell_at(s, i, k, row)->count));
        }
        json_object_set_new(all, s->names[i],
                            json_pack("{s:o,s:o,s:I,s:f}", "counts", counts, "percent", percent, "total",
                                      (json_int_t)cell_at(s, i, s->from, row)->total, "mean",
                                      mean_percent(s, i, 0, row)));
    }
    json_object_set_new(o, "corruptions", all);
    return o;
}

static vt_status write_json(const sweep *s, vt_err *e) {
    size_t before = vt_json_refused();
    json_t *o = json_object(), *rows = json_array(), *list = json_array();
    for (int k = s->from; k <= s->to; k++) json_array_append_new(list, json_integer(k));
    for (int r = 0; r < s->rows; r++) json_array_append_new(rows, row_json(s, r));
    json_object_set_new(o, "severities", list);
    json_object_set_new(o, "rows", rows);
    o = vt_json_whole(o, before);
    vt_status st = vt_json_save(s->out, "corruptions.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return st;
}

static vt_status write_csv(const sweep *s, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, s->out, "corruptions.csv", e));
    fprintf(f.stream, "corruption,severity,row,count,total,percent\n");
    for (int i = 0; i < s->n; i++)
        for (int k = s->from; k <= s->to; k++)
            for (int r = 0; r < s->rows; r++) {
                const cell *c = cell_at(s, i, k, r);
                vt_csv(f.stream, s->names[i]);
                fprintf(f.stream, ",%d,", k);
                vt_csv(f.stream, s->labels[r]);
                fprintf(f.stream, ",%lld,%lld,%.4f\n", (long long)c->count, (long long)c->total, c->percent);
            }
    return vt_file_commit(&f, e);
}

static vt_status report_sweep(const sweep *s, vt_err *e) {
    for (int r = 0; r < s->rows; r++)
        if (r == 0 || r == s->rows - 1) print_table(s, r); /* clean, and the only attack or the worst case */
    VT_TRY(write_json(s, e));
    VT_TRY(write_csv(s, e));
    printf("\n%s: corruptions.json, corruptions.csv, and a run in each NAME-SEVERITY\n", s->out);
    return VT_OK;
}

vt_status vt_eval_corruptions(const vt_cli *c, vt_status (*once)(const vt_cli *c, vt_err *e), vt_err *e) {
    sweep s = {.n = 0};
    vt_status st = parse(&s, c, e);
    if (st == VT_OK) st = run_all(&s, c, once, e);
    if (st == VT_OK) st = report_sweep(&s, e);
    vt_folders_free(&s.known), free(s.labels), free(s.cells);
    return st;
}
