/* SPDX-License-Identifier: MIT */
#include "cli/eval_many.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "base/markup.h"
#include "base/opt.h"
#include "eval/report/checksums.h"
#include "data/folders.h"
#include "eval/report/summary.h"
#include "data/dataset.h"

enum { MOST_SEEDS = 64, MOST_NAMES = 256 };

typedef struct many {
    const vt_cli *c;
    vt_once_fn once;
    const char *out;
    int runs, n_rows;
    vt_row *rows; /* [runs][n_rows] of the runs' tables */
} many;

/* Returns row `row` of run `run`'s table. */
static const vt_row *row_at(const many *m, int run, int row) {
    return &m->rows[(size_t)run * (size_t)m->n_rows + (size_t)row];
}

/* Copies a run's table into m->rows. */
static vt_status collect_rows(many *m, int run, const vt_summary *s, vt_err *e) {
    if (!m->rows) m->n_rows = s->n_rows, m->rows = calloc((size_t)m->runs * (size_t)s->n_rows + 1, sizeof *m->rows);
    if (!m->rows) return vt_fail(e, VT_E_MEMORY, "no memory for %d evaluations", m->runs);
    memcpy(&m->rows[(size_t)run * (size_t)m->n_rows], s->rows, (size_t)m->n_rows * sizeof *m->rows);
    return VT_OK;
}

/* Runs one evaluation into OUT/folder with the options `with` (pairs that end at NULL) in place of the command's own;
 * then calls look with its ledger and summary. */
static vt_status run_one(many *m, int run, const char *folder, const char *const *with,
                         vt_status (*look)(void *ctx, const vt_ledger *l, const vt_summary *s, vt_err *e), void *ctx,
                         vt_err *e) {
    static vt_cli one;
    char out[VT_PATH_MAX];
    vt_ledger *l;
    vt_summary s;
    VT_TRY(vt_path_in(out, m->out, folder, e));
    one = *m->c;
    bool set = vt_cli_set(&one, "out", out);
    for (; *with; with += 2) set = vt_cli_set(&one, with[0], with[1]) && set;
    if (!set) return vt_fail(e, VT_E_USAGE, "too many options");
    VT_TRY(m->once(&one, e));
    VT_TRY(vt_ledger_open(&l, out, e));
    vt_status st = vt_summary_make(&s, l, 0, e);
    if (st == VT_OK) {
        st = collect_rows(m, run, &s, e);
        if (st == VT_OK) st = look(ctx, l, &s, e);
        vt_summary_free(&s);
    }
    vt_ledger_close(l);
    return st;
}

/* ---- --fail-under ---- */

static const vt_opt floors[] = {
    VT_OPT_R("clean", vt_floor, clean, "without perturbation", 0, 0, 100),
    VT_OPT_R("robust", vt_floor, robust, "under every attack", 0, 0, 100),
    VT_OPT_END,
};

vt_status vt_floor_parse(vt_floor *f, const vt_cli *c, bool attacked, vt_err *e) {
    const char *list;
    *f = (vt_floor){NAN, NAN};
    for (int i = 0; (list = vt_cli_nth(c, "fail-under", i)); i++)
        VT_TRY(vt_opt_parse(floors, f, *list ? list : ",", "--fail-under", e));
    if (!isnan(f->robust) && !attacked)
        return vt_fail(e, VT_E_USAGE, "--fail-under robust=%g needs an attack: without one, clean=%g is what is meant",
                       f->robust, f->robust);
    return VT_OK;
}

/* Refuses (VT_E_RANGE) a share of right images below `floor` percent, computed without rounding. */
static vt_status check_share(const char *key, int64_t right, int64_t total, double floor, vt_err *e) {
    double percent = 100 * (double)right;
    if (!(percent < floor * (double)total)) return VT_OK; /* both times the images */
    return vt_fail(e, VT_E_RANGE, "%s accuracy is %.2f %% (%lld of %lld images), below --fail-under %s=%g", key,
                   percent / (double)total, (long long)right, (long long)total, key, floor);
}

vt_status vt_floor_check(const vt_floor *f, const vt_summary *s, vt_err *e) {
    VT_TRY(check_share("clean", s->correct, s->total, f->clean, e));
    return check_share("robust", s->worst_robust, s->total, f->robust, e);
}

/* ---- seeds ---- */

typedef struct seeds {
    many m;
    long long seed[MOST_SEEDS];
    char text[MOST_SEEDS][24];
    int n, done;
    vt_floor floor;
    vt_summary counts[MOST_SEEDS]; /* what a floor is checked against, of each */
    size_t images;                 /* above the largest number of an image */
    uint8_t *seen, *broken;        /* [images]; under how many seeds it is broken or wrong, 255: not evaluated */
} seeds;

/* Reads "0,1,2" into s->seed; VT_E_USAGE: fewer than two, or one twice. */
static vt_status parse_seeds(seeds *s, const char *text, vt_err *e) {
    char buf[1024], *rest;
    if (snprintf(buf, sizeof buf, "%s", text) >= (int)sizeof buf)
        return vt_fail(e, VT_E_USAGE, "--seeds is longer than %zu characters", sizeof buf - 1);
    for (char *word = strtok_r(buf, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (s->n == MOST_SEEDS) return vt_fail(e, VT_E_USAGE, "--seeds names more than %d seeds", MOST_SEEDS);
        if (!vt_parse_int(word, &s->seed[s->n]) || s->seed[s->n] < 0)
            return vt_fail(e, VT_E_USAGE, "--seeds is '%s', must be whole numbers from 0, separated by commas", text);
        for (int i = 0; i < s->n; i++)
            if (s->seed[i] == s->seed[s->n])
                return vt_fail(e, VT_E_USAGE, "--seeds is '%s', which names %lld twice", text, s->seed[i]);
        snprintf(s->text[s->n], sizeof s->text[0], "%lld", s->seed[s->n]);
        s->n++;
    }
    return s->n > 1 ? VT_OK : vt_fail(e, VT_E_USAGE, "--seeds is '%s', must name at least two seeds", text);
}

/* Counts for each image under how many seeds it is broken or wrong; keeps the run's counts. */
static vt_status count_broken(void *ctx, const vt_ledger *l, const vt_summary *sum, vt_err *e) {
    seeds *s = ctx;
    s->counts[s->done++] =
        (vt_summary){.total = sum->total, .correct = sum->correct, .worst_robust = sum->worst_robust};
    for (size_t i = 0; s->done == 1 && i < l->count; i++)
        if ((size_t)l->records[i].image >= s->images) s->images = (size_t)l->records[i].image + 1;
    if (s->done == 1) {
        s->seen = calloc(2 * s->images + 1, 1), s->broken = s->seen + s->images;
        if (!s->seen) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", s->images);
        memset(s->broken, 255, s->images);
        for (size_t i = 0; i < l->count; i++)
            if (!l->records[i].entry) s->broken[l->records[i].image] = 0;
    }
    memset(s->seen, 0, s->images);
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if ((size_t)r->image >= s->images || s->broken[r->image] == 255 || s->seen[r->image]) continue;
        if (vt_record_fails(l, r)) s->seen[r->image] = 1, s->broken[r->image]++;
    }
    return VT_OK;
}

/* Prints mean and range of every row over the seeds, and writes OUT/seeds.json. */
static vt_status report_seeds(const seeds *s, vt_look look, vt_err *e) {
    int64_t depends = 0, robust = 0;
    for (size_t i = 0; i < s->images; i++) {
        robust += !s->broken[i];
        depends += s->broken[i] > 0 && s->broken[i] < s->n;
    }
    size_t before = vt_json_refused();
    json_t *rows = json_array(), *list = json_array();
    vt_columns t;
    vt_columns_titles(&t, "-\tmean %%\tleast %%\tmost %%\trange");
    printf("\n---- %d seeds ----\n", s->n);
    for (int i = 0; i < s->m.n_rows; i++) {
        double sum = 0, low = 101, high = -1;
        const vt_row *r = row_at(&s->m, s->n - 1, i);
        json_t *counts = json_array();
        for (int k = 0; k < s->n; k++) {
            double percent = row_at(&s->m, k, i)->percent;
            sum += percent, low = fmin(low, percent), high = fmax(high, percent);
            json_array_append_new(counts, json_integer((json_int_t)row_at(&s->m, k, i)->count));
        }
        vt_columns_cells(&t, "%s%s\t%.2f\t%.2f\t%.2f\t%.2f", r->level ? "  " : "", r->label, sum / s->n, low, high,
                         high - low);
        json_array_append_new(rows, json_pack("{s:s,s:i,s:o,s:I,s:f,s:f,s:f}", "row", r->label, "level", r->level,
                                              "counts", counts, "total", (json_int_t)r->total, "mean", sum / s->n,
                                              "low", low, "high", high));
    }
    vt_columns_end(&t, stdout, &look);
    printf("\n%lld of %lld images are broken under some seeds and not under others; %lld under none\n",
           (long long)depends, (long long)s->counts[0].total, (long long)robust);
    for (int k = 0; k < s->n; k++) json_array_append_new(list, json_integer(s->seed[k]));
    json_t *o = json_pack("{s:o,s:o,s:I,s:I}", "seeds", list, "rows", rows, "depends_on_seed", (json_int_t)depends,
                          "robust_under_all", (json_int_t)robust);
    o = vt_json_whole(o, before);
    vt_status st = vt_json_save(s->m.out, "seeds.json", o, JSON_INDENT(1), e);
    if (st == VT_OK) vt_checksums_list(stdout, s->m.out);
    if (st == VT_OK) return vt_script_print(o, e);
    json_decref(o);
    return st;
}

/* Evaluates once with each seed, reports all and checks --fail-under for each. */
static vt_status run_seeds(seeds *s, vt_err *e) {
    char folder[40];
    VT_TRY(parse_seeds(s, vt_cli_get(s->m.c, "seeds"), e));
    VT_TRY(vt_floor_parse(&s->floor, s->m.c, true, e));
    s->m.runs = s->n;
    for (int i = 0; i < s->n; i++) {
        snprintf(folder, sizeof folder, "seed-%s", s->text[i]);
        VT_TRY(vt_make_dir_in(s->m.out, folder, e));
        printf("\n---- seed %s ----\n", s->text[i]);
        VT_TRY(run_one(&s->m, i, folder, (const char *const[]){"seed", s->text[i], NULL}, count_broken, s, e));
    }
    VT_TRY(report_seeds(s, vt_cli_look(s->m.c), e));
    for (int i = 0; i < s->n; i++) VT_TRY(vt_floor_check(&s->floor, &s->counts[i], e));
    return VT_OK;
}

vt_status vt_eval_seeds(const vt_cli *c, vt_once_fn once, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    if (!out) return vt_fail(e, VT_E_USAGE, "--seeds needs --out FOLDER");
    if (vt_cli_has(c, "seed")) return vt_fail(e, VT_E_USAGE, "give --seed or --seeds, not both");
    seeds *s = calloc(1, sizeof *s);
    if (!s) return vt_fail(e, VT_E_MEMORY, "no memory for --seeds");
    s->m = (many){.c = c, .once = once, .out = out};
    vt_status st = run_seeds(s, e);
    free(s->m.rows), free(s->seen), free(s);
    return st;
}

/* ---- corruptions ---- */

/* The fifteen that CIFAR-10-C's mean is over; the other four were meant for choosing a method (Hendrycks and Dietterich
 * 2019, section 4). */
static const char *const benchmark[] =
    {"gaussian_noise",    "shot_noise", "impulse_noise",   "defocus_blur", "glass_blur", "motion_blur",
     "zoom_blur",         "snow",       "frost",           "fog",          "brightness", "contrast",
     "elastic_transform", "pixelate",   "jpeg_compression"};
enum { BENCHMARK = sizeof benchmark / sizeof *benchmark };

typedef struct sweep {
    many m; /* runs: by corruption, then severity; of their rows those of level 0 count */
    const char *names[MOST_NAMES];
    int n, from, to;  /* corruptions; severities */
    vt_folders known; /* that the data have */
} sweep;

bool vt_eval_many_corruptions(const vt_cli *c) {
    const char *name = vt_cli_get(c, "corruption");
    return name && (!vt_cli_has(c, "severity") || !strcmp(name, "all") || strchr(name, ','));
}

/* Returns row `row` of the run on one corruption and severity. */
static const vt_row *cell_at(const sweep *s, int name, int severity, int row) {
    return row_at(&s->m, name * (s->to - s->from + 1) + severity - s->from, row);
}

/* Refuses a corruption that the data do not have, with the nearest name. */
static vt_status fail_unknown_corruption(const char *name, const sweep *s, const char *data, vt_err *e) {
    const char *near = vt_nearest(name, (const char *const *)s->known.name, (size_t)s->known.n);
    return vt_fail(e, VT_E_USAGE, "--corruption names '%.60s', but %s has no %.60s.npy%s%s%s", name, data, name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* Adds a corruption to the sweep; refuses one that is unknown or named twice. */
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

/* Reads --corruption (names or all) and --severity (default: all five). */
static vt_status parse_corruptions(sweep *s, const vt_cli *c, vt_err *e) {
    const char *text = vt_cli_get(c, "corruption"), *data = vt_cli_get(c, "data");
    char buf[4096], *rest;
    long long severity;
    if (!s->m.out)
        return vt_fail(e, VT_E_USAGE,
                       "--corruption %.60s is more than one evaluation: give --out FOLDER, or one name and --severity",
                       text);
    if (vt_cli_has(c, "seeds")) return vt_fail(e, VT_E_USAGE, "give --seeds or several corruptions, not both");
    if (!data) return vt_fail(e, VT_E_USAGE, "--corruption needs --data FOLDER (CIFAR-10-C)");
    VT_TRY(vt_cli_int(c, "severity", 1, VT_SEVERITIES, 0, &severity, e));
    s->from = severity ? (int)severity : 1, s->to = severity ? (int)severity : VT_SEVERITIES;
    VT_TRY(vt_corruptions_list(&s->known, data, e));
    for (int i = 0; i < s->known.n && !strcmp(text, "all"); i++) VT_TRY(add_name(s, s->known.name[i], data, e));
    if (snprintf(buf, sizeof buf, "%s", strcmp(text, "all") ? text : "") >= (int)sizeof buf)
        return vt_fail(e, VT_E_USAGE, "--corruption is longer than %zu characters", sizeof buf - 1);
    for (char *word = strtok_r(buf, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        VT_TRY(add_name(s, word, data, e));
    if (!s->n) return vt_fail(e, VT_E_USAGE, "--corruption is '%s', must be names separated by commas, or all", text);
    s->m.runs = s->n * (s->to - s->from + 1);
    return VT_OK;
}

/* Prints a run's table on one line: "fog, severity 3: clean 61.20 %, ...". */
static vt_status print_run(void *title, const vt_ledger *l, const vt_summary *s, vt_err *e) {
    (void)l, (void)e;
    printf("%s:", (const char *)title);
    for (const vt_row *r = s->rows; r < s->rows + s->n_rows; r++)
        if (!r->level) printf("%s %s %.2f %%", r > s->rows ? "," : "", r->label, r->percent);
    printf("\n");
    return VT_OK;
}

/* Is an attack of that name one of the benchmark's? */
static bool in_benchmark(const char *name) {
    for (int i = 0; i < BENCHMARK; i++)
        if (!strcmp(benchmark[i], name)) return true;
    return false;
}

/* Are there all of the benchmark's corruptions and others, so that both means are shown? */
static bool has_more(const sweep *s) {
    int of = 0;
    for (int i = 0; i < s->n; i++) of += in_benchmark(s->names[i]);
    return of == BENCHMARK && s->n > BENCHMARK;
}

/* Returns the mean percentage of a row over corruptions (name -1: all; -2: the benchmark's) and severities (0: all);
 * NaN: none. */
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

/* Prints one row of all runs as a table: corruptions down, severities across. */
static void print_table(const sweep *s, int row) {
    vt_columns t;
    bool mean = s->from < s->to;
    printf("\n%s: %d corruption%s, right in %% by severity\n", cell_at(s, 0, s->from, row)->label, s->n,
           s->n == 1 ? "" : "s");
    vt_columns_titles(&t, mean ? "-\t1\t2\t3\t4\t5\tmean" : "-\t%d", s->from);
    for (int i = 0; i < s->n + 1 + has_more(s); i++) {
        int name = i < s->n ? i : s->n - i - 1; /* -1: mean, -2: that of the benchmark */
        vt_columns_cell(&t, "%s", i < s->n ? s->names[i] : i == s->n ? "mean" : "mean of CIFAR-C's 15");
        for (int k = s->from; k <= s->to; k++) vt_columns_cell(&t, "%.2f", mean_percent(s, name, k, row));
        if (mean) vt_columns_cell(&t, "%.2f", mean_percent(s, name, 0, row));
    }
    vt_columns_end(&t, stdout, VT_LOOK_PAGE);
}

/* Returns one row of all runs as an object with counts, percentages and means. */
static json_t *row_json(const sweep *s, int row) {
    json_t *o = json_object(), *by = json_array(), *all = json_object();
    for (int k = s->from; k <= s->to; k++) json_array_append_new(by, json_real(mean_percent(s, -1, k, row)));
    json_object_set_new(o, "row", json_string(cell_at(s, 0, s->from, row)->label));
    json_object_set_new(o, "mean", json_real(mean_percent(s, -1, 0, row)));
    json_object_set_new(o, "mean_by_severity", by);
    if (has_more(s)) json_object_set_new(o, "mean_of_15", json_real(mean_percent(s, -2, 0, row)));
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

/* Writes OUT/corruptions.json. */
static vt_status write_json(const sweep *s, vt_err *e) {
    size_t before = vt_json_refused();
    json_t *o = json_object(), *rows = json_array(), *list = json_array();
    for (int k = s->from; k <= s->to; k++) json_array_append_new(list, json_integer(k));
    for (int r = 0; r < s->m.n_rows; r++)
        if (!cell_at(s, 0, s->from, r)->level) json_array_append_new(rows, row_json(s, r));
    json_object_set_new(o, "severities", list);
    json_object_set_new(o, "rows", rows);
    o = vt_json_whole(o, before);
    vt_status st = vt_json_save(s->m.out, "corruptions.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return st;
}

/* Writes OUT/corruptions.csv, a line for each corruption, severity and row; stages are left out. */
static vt_status write_csv(const sweep *s, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, s->m.out, "corruptions.csv", e));
    fprintf(f.stream, "corruption,severity,row,count,total,percent\n");
    for (int i = 0; i < s->n; i++)
        for (int k = s->from; k <= s->to; k++)
            for (int r = 0; r < s->m.n_rows; r++) {
                const vt_row *c = cell_at(s, i, k, r);
                if (c->level) continue;
                vt_csv(f.stream, s->names[i]);
                fprintf(f.stream, ",%d,", k);
                vt_csv(f.stream, c->label);
                fprintf(f.stream, ",%lld,%lld,%.4f\n", (long long)c->count, (long long)c->total, c->percent);
            }
    return vt_file_commit(&f, e);
}

/* Evaluates on each corruption and severity, and reports all. */
static vt_status run_corruptions(sweep *s, vt_err *e) {
    char severity[8], folder[80], title[100];
    int last = 0, run = 0;
    VT_TRY(parse_corruptions(s, s->m.c, e));
    for (int i = 0; i < s->n; i++)
        for (int k = s->from; k <= s->to; k++) {
            snprintf(severity, sizeof severity, "%d", k);
            snprintf(folder, sizeof folder, "%s-%d", s->names[i], k);
            snprintf(title, sizeof title, "%s, severity %d", s->names[i], k);
            const char *const with[] = {"corruption", s->names[i], "severity", severity, NULL};
            VT_TRY(run_one(&s->m, run++, folder, with, print_run, title, e));
        }
    for (int r = 1; r < s->m.n_rows; r++)
        if (!row_at(&s->m, 0, r)->level) last = r;
    print_table(s, 0); /* clean, and the only attack or the worst case */
    if (last) print_table(s, last);
    VT_TRY(write_json(s, e));
    VT_TRY(write_csv(s, e));
    printf("\n%s: corruptions.json, corruptions.csv, and a run in each NAME-SEVERITY\n", s->m.out);
    return VT_OK;
}

vt_status vt_eval_corruptions(const vt_cli *c, vt_once_fn once, vt_err *e) {
    static sweep s;
    s = (sweep){.m = {.c = c, .once = once, .out = vt_cli_get(c, "out")}};
    vt_status st = run_corruptions(&s, e);
    vt_folders_free(&s.known), free(s.m.rows);
    return st;
}
