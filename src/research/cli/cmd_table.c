/* SPDX-License-Identifier: MIT */
/* vitrine table: the cells of a manifest, trained and evaluated where they are missing, as a table. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "research/cli/plot_table.h"
#include "research/cli/spawn.h"
#include "linalg/gemm.h"
#include "base/progress.h"
#include "research/table/consistency.h"
#include "research/table/report.h"
#include "research/table/schedule.h"
#include "train/train.h"

enum { LIST_MOST = 256 };

typedef struct job {
    vt_manifest *m;
    vt_plan plan;
    vt_table table;
    vt_plan_ask ask;
    const char *only[LIST_MOST], *only_data[LIST_MOST], *only_column[LIST_MOST], *paths[LIST_MOST];
    long long jobs, threads;
    const char *plot;     /* --plot; NULL: no figure */
    vt_model *inits[512]; /* of rows: the checkpoints that they start from; rows may share one */
} job;

/* --published FILE: what a paper printed, and what cannot all be right about it. */
static vt_status show_published(const vt_cli *c, vt_err *e) {
    vt_published *p, *claims = NULL;
    vt_oddities f = {0};
    VT_TRY(vt_published_open(&p, vt_cli_get(c, "published"), e));
    vt_status s = vt_cli_get(c, "claims") ? vt_published_open(&claims, vt_cli_get(c, "claims"), e) : VT_OK;
    if (s == VT_OK) s = vt_published_check(&f, p, claims, e);
    if (s == VT_OK) s = vt_published_show(stdout, p, &f, vt_cli_get(c, "number"), e);
    vt_oddities_free(&f);
    vt_published_close(claims), vt_published_close(p);
    return s;
}

/* out: all values of a repeatable option, *n of them; VT_E_USAGE beyond LIST_MOST. */
static vt_status collect_option_values(const vt_cli *c, const char *name, const char **out, int *n, vt_err *e) {
    const char *value;
    for (*n = 0; (value = vt_cli_nth(c, name, *n)); out[(*n)++] = value)
        if (*n == LIST_MOST) return vt_fail(e, VT_E_USAGE, "--%s is given more than %d times", name, LIST_MOST);
    return VT_OK;
}

/* Reads --shard K/N into ask; VT_E_USAGE unless 1 <= K <= N. */
static vt_status parse_shard(const vt_cli *c, vt_plan_ask *ask, vt_err *e) {
    const char *text = vt_cli_get(c, "shard");
    char end;
    if (!text) return VT_OK;
    if (sscanf(text, "%d/%d%c", &ask->shard, &ask->shards, &end) != 2 || ask->shards < 1 || ask->shards > 100000 ||
        ask->shard < 1 || ask->shard > ask->shards)
        return vt_fail(e, VT_E_USAGE, "--shard is '%s', must be K/N with 1 <= K <= N, like 2/4", text);
    return VT_OK;
}

/* Reads the options and the manifest into j, and makes the plan. VT_E_USAGE without a manifest, without --out (but for
 * --dry-run), or for --plot without figures. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    if (!c->n_positional) return vt_fail(e, VT_E_USAGE, "vitrine table needs a MANIFEST.yaml, or --published FILE");
    VT_TRY(vt_cli_threads(c, &j->threads, e));
    VT_TRY(vt_cli_int(c, "jobs", 1, 256, 1, &j->jobs, e));
    VT_TRY(parse_shard(c, &j->ask, e));
    VT_TRY(collect_option_values(c, "only", j->only, &j->ask.n_only, e));
    VT_TRY(collect_option_values(c, "only-data", j->only_data, &j->ask.n_only_data, e));
    VT_TRY(collect_option_values(c, "only-column", j->only_column, &j->ask.n_only_column, e));
    VT_TRY(collect_option_values(c, "data", j->paths, &j->ask.n_paths, e));
    j->ask.only = j->only, j->ask.only_data = j->only_data, j->ask.only_column = j->only_column;
    j->ask.paths = j->paths, j->ask.out = vt_cli_get(c, "out");
    if (!j->ask.out && !vt_cli_has(c, "dry-run"))
        return vt_fail(e, VT_E_USAGE, "vitrine table needs --out FOLDER (or --dry-run)");
    VT_TRY(vt_manifest_open(&j->m, c->positional[0], e));
    j->plot = vt_cli_get(c, "plot");
    if (j->plot && !j->m->n_figures)
        return vt_fail(e, VT_E_USAGE, "%s: has no figures: --plot draws what the manifest names", j->m->path);
    return vt_plan_make(&j->plan, j->m, &j->ask, e);
}

/* Opens the checkpoint of a sigma_max cell, if it exists, so that one without attention fails now; other cells:
 * VT_OK. */
static vt_status check_attention(const vt_cli *c, const vt_plan_cell *cell, vt_err *e) {
    if (!cell->spectrum || cell->model >= 0 || *cell->lacks) return VT_OK;
    vt_overrides o;
    vt_model *m;
    VT_TRY(vt_cli_overrides(c, &o, e));
    VT_TRY(vt_model_open(&m, c->positional[0], &o, e));
    vt_model_close(m);
    return VT_OK;
}

/* Whether two word lists are equal. */
static bool same_words(const vt_words *a, const vt_words *b) {
    int i = 0;
    while (i < a->n && i < b->n && !strcmp(a->word[i], b->word[i])) i++;
    return a->n == b->n && i == a->n;
}

/* inits[row]: the checkpoint that a row starts from, read by its init_options; equal rows share one. */
static vt_status open_init(job *j, const vt_cli *c, int row, const vt_recipe *r, vt_err *e) {
    const vt_manifest_row *rows = j->m->rows;
    vt_overrides o;
    for (int i = 0; i < j->m->n_rows && !j->inits[row]; i++)
        if (j->inits[i] && !strcmp(rows[i].init, rows[row].init) &&
            same_words(&rows[i].init_options, &rows[row].init_options))
            j->inits[row] = j->inits[i];
    if (j->inits[row]) return VT_OK;
    VT_TRY(vt_cli_overrides(c, &o, e));
    if (*r->init.part) o.part = r->init.part;
    VT_TRY(vt_model_inspect(&j->inits[row], rows[row].init, &o, e));
    return vt_cli_known(c, j->inits[row], e);
}

/* Checks a training cell's initial checkpoint, if its file exists, against the recipe's hash and preset; other cells:
 * VT_OK. Opens j->inits of the row. */
static vt_status check_init(job *j, const vt_cli *c, const vt_plan_cell *of, vt_err *e) {
    const char *init = j->m->rows[of->row].init;
    vt_recipe *r;
    if (!init || !of->recipe || access(init, F_OK) != 0) return VT_OK;
    VT_TRY(vt_recipe_new(&r, e));
    vt_status s = vt_recipe_parse(r, of->recipe, strlen(of->recipe), j->m->path, e);
    if (s == VT_OK) s = open_init(j, c, of->row, r, e);
    if (s == VT_OK) s = vt_train_check_hash(r, j->inits[of->row], e);
    if (s == VT_OK) s = vt_train_check_preset(r, j->inits[of->row], e);
    vt_recipe_free(r);
    return s;
}

/* Closes each of the inits once. */
static void close_inits(job *j) {
    for (int i = 0; j->m && i < j->m->n_rows; i++) {
        vt_model *m = j->inits[i];
        for (int k = i; k < j->m->n_rows; k++)
            if (j->inits[k] == m) j->inits[k] = NULL;
        vt_model_close(m);
    }
}

/* Parses a cell's command as its process will, and checks its checkpoints; VT_E_USAGE names the cell. */
static vt_status check_words(job *j, int cell, vt_err *e) {
    static vt_cli cli;
    char **words = vt_plan_command(&j->plan, cell, 1), name[200];
    int count = 0;
    vt_err why = {0};
    vt_status s = VT_E_MEMORY;
    while (words && words[count]) count++;
    if (words) {
        cli = (vt_cli){.command = vt_command_find(words[0])};
        s = vt_cli_parse(&cli, count - 1, words + 1, &why);
        if (s == VT_OK) s = check_attention(&cli, &j->plan.cells[cell], &why);
        if (s == VT_OK) s = check_init(j, &cli, &j->plan.cells[cell], &why);
    }
    vt_plan_command_free(words);
    vt_plan_name(&j->plan, cell, name, sizeof name);
    if (s == VT_E_MEMORY) return vt_fail(e, s, "%s: no memory to %s", j->m->path, name);
    return s == VT_OK ? s : vt_fail(e, VT_E_USAGE, "%s: to %s: %s", j->m->path, name, why.text);
}

/* ---- dry run ---- */

/* GFLOP/s of a large float32 product on one thread, as vitrine bench measures them; 0 without memory. */
static double product_rate(void) {
    enum { SIDE = 512, TIMES = 6 };
    float *a = calloc(3 * SIDE * SIDE, sizeof *a), *b = a + SIDE * SIDE, *c = b + SIDE * SIDE;
    double best = 0;
    for (int i = 0; a && i < 2 * SIDE * SIDE; i++) a[i] = (float)(i % 97) / 97;
    for (int i = 0; a && i < TIMES; i++) {
        double began = vt_now();
        vt_gemm_f32(false, false, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE);
        if (i) best = fmax(best, 2e-9 * SIDE * SIDE * SIDE / (vt_now() - began)); /* the first prepares */
    }
    free(a);
    return best;
}

typedef struct sums {
    int trainings, evaluations, unknown;
    double training, evaluation, disk; /* TFLOP, bytes */
} sums;

/* Counts, work and disk of the missing cells of a row, or of all for -1. */
static sums sum_costs(const vt_plan *p, int row) {
    sums s = {0};
    for (int i = 0; i < p->n; i++) {
        const vt_plan_cell *c = &p->cells[i];
        if ((row >= 0 && c->row != row) || !vt_plan_needs(p, i)) continue;
        *(c->train ? &s.trainings : &s.evaluations) += 1;
        s.disk += c->disk;
        if (isnan(c->tflop)) s.unknown++;
        if (!isnan(c->tflop)) *(c->train ? &s.training : &s.evaluation) += c->tflop;
    }
    return s;
}

enum { LISTED_MOST = 40 }; /* missing cells that are named one by one without --verbose */

/* Prints the missing cells (by_name) and, each once, the files and folders that are not here. */
static void print_missing(const vt_plan *p, bool by_name) {
    char name[200];
    for (int i = 0; i < p->n && by_name; i++)
        if (vt_plan_needs(p, i)) {
            vt_plan_name(p, i, name, sizeof name);
            printf("missing: %s%s%.12s\n", name, *p->cells[i].hash ? ", cell " : "", p->cells[i].hash);
        }
    for (int i = 0, n; i < p->n; i++)
        if ((n = vt_plan_lacking(p, i))) printf("not here: %s (%d cell%s)\n", p->cells[i].lacks, n, n == 1 ? "" : "s");
}

/* Prints what is missing, row by row, with its work, time on this machine and disk. */
static void dry_run(const job *j, bool verbose) {
    const vt_plan *p = &j->plan;
    sums all = sum_costs(p, -1);
    double rate = product_rate(), total = all.training + all.evaluation;
    int width = vt_manifest_row_width(j->m);
    printf("%s\n\n%-*s %9s %11s %11s %13s\n", j->m->title ? j->m->title : j->m->name, width, "missing", "trainings",
           "TFLOP", "evaluations", "TFLOP at most");
    for (int r = 0; r < j->m->n_rows; r++) {
        sums s = sum_costs(p, r);
        if (s.trainings + s.evaluations)
            printf("%-*s %9d %11.4g %11d %13.4g\n", width, j->m->rows[r].name, s.trainings, s.training, s.evaluations,
                   s.evaluation);
    }
    printf("%-*s %9d %11.4g %11d %13.4g\n\n", width, "all", all.trainings, all.training, all.evaluations,
           all.evaluation);
    print_missing(p, verbose || all.trainings + all.evaluations <= LISTED_MOST);
    if (all.unknown) printf("%d cells could not be counted: their checkpoint or data are not here\n", all.unknown);
    printf("\nwork: %.4g TFLOP of matrix products at most (an attack ends early on images that it breaks)\n", total);
    printf("time: %.3g hours at the %.0f GFLOP/s that large products reach here on each of %lld threads; smaller ones "
           "reach a third to two thirds of that\n",
           total * 1e3 / (rate * (double)j->threads) / 3600, rate, j->threads);
    printf("disk: %.3g GB\n", all.disk * 1e-9);
    if (all.trainings + all.evaluations > 1)
        printf("several machines: each with --shard K/N and an --out of its own, then --merge DIR for each of them\n");
}

/* vt_runner.say: prints a line to stderr, at most every 30 s if that is no terminal; ctx: when the last was printed. */
static void print_progress(void *ctx, const char *text) {
    double *shown = ctx;
    bool tty = isatty(STDERR_FILENO);
    if (vt_script_quiet()) return;
    if (!tty && vt_now() - *shown < 30) return; /* as every command: a line each 30 s outside a terminal */
    *shown = vt_now();
    fprintf(stderr, "%s\n", text);
}

/* Takes the finished cells of every --merge folder into --out and prints how many; VT_E_USAGE, before it takes any, if
 * all of them together lack cells of a primary comparison. */
static vt_status merge_caches(const job *j, const vt_cli *c, vt_err *e) {
    const char *from, *dirs[LIST_MOST];
    int n;
    VT_TRY(collect_option_values(c, "merge", dirs, &n, e));
    for (int i = 0; i < n; i++) {
        bool there;
        VT_TRY(vt_cache_look(dirs[i], &there, e));
        if (!there) return vt_fail(e, VT_E_USAGE, "%s: is no cache of vitrine table", dirs[i]);
    }
    VT_TRY(vt_plan_primary_in(&j->plan, dirs, n, e));
    VT_TRY(vt_cache_make(j->ask.out, e));
    for (int i = 0; (from = vt_cli_nth(c, "merge", i)); i++) {
        VT_TRY(vt_cache_merge(j->ask.out, from, &n, e));
        printf("%s: %d cells taken\n", from, n);
    }
    return VT_OK;
}

/* Makes the table from the cache, prints it, and writes its files and --plot. */
static vt_status report_table(job *j, vt_err *e) {
    VT_TRY(vt_table_make(&j->table, &j->plan, e));
    VT_TRY(vt_table_write(&j->table, j->ask.out, stdout, e));
    printf("\n%s: %s.md, .tex, .html, .csv, .json\n", j->ask.out, j->m->name);
    return j->plot ? vt_plot_table(&j->table, j->plot, e) : VT_OK;
}

/* check_words for every missing cell; the first failure ends it. */
static vt_status check_cells(job *j, vt_err *e) {
    for (int i = 0; i < j->plan.n; i++)
        if (vt_plan_needs(&j->plan, i)) VT_TRY(check_words(j, i, e));
    return VT_OK;
}

/* Checks, then trains and evaluates the missing cells; VT_E_USAGE, before any runs, for timed cells with more than one
 * at a time. With a team all ranks must call it. */
static vt_status run_cells(job *j, vt_team *team, vt_err *e) {
    double shown = vt_now();
    vt_runner r = {.ctx = &shown, .start = vt_spawn, .wait = vt_spawn_wait, .say = print_progress};
    VT_TRY(check_cells(j, e));
    long long at_once = j->jobs * vt_team_size(team);
    for (int i = 0; i < j->plan.n && at_once > 1; i++)
        if (vt_plan_needs(&j->plan, i) && j->plan.cells[i].timed)
            return vt_fail(e, VT_E_USAGE, "%s is %lld, but %s times training steps: one cell at a time",
                           team ? "the number of cells at a time" : "--jobs", at_once, j->m->path);
    VT_TRY(vt_plan_ready(&j->plan, e));
    VT_TRY(vt_team_agree(team, vt_team_rank(team) ? VT_OK : vt_cache_make(j->ask.out, e), e));
    r.interrupt = vt_cli_interruptible(), r.team = team;
    return vt_schedule(&j->plan, &r, (int)j->jobs, (int)j->threads, e);
}

/* Merges, lists (--dry-run) or runs the cells, then reports the table; of several ranks only rank 0 reports. */
static vt_status build_table(job *j, const vt_cli *c, vt_err *e) {
    if (c->team && vt_cli_has(c, "merge"))
        return vt_fail(e, VT_E_USAGE, "--merge is the work of one process, but %d were started: leave mpirun out",
                       c->team->size);
    if (vt_cli_has(c, "merge") && vt_cli_has(c, "dry-run"))
        return vt_fail(e, VT_E_USAGE, "--dry-run runs nothing, --merge takes cells over: give one of them");
    if (vt_cli_has(c, "merge")) {
        VT_TRY(parse(j, c, e)); /* a manifest that is wrong takes nothing over */
        VT_TRY(merge_caches(j, c, e));
        vt_plan_free(&j->plan);
        VT_TRY(vt_plan_make(&j->plan, j->m, &j->ask, e));
        return report_table(j, e);
    }
    VT_TRY(parse(j, c, e));
    VT_TRY(vt_table_check_published(j->m, e));
    if (vt_cli_has(c, "dry-run")) {
        VT_TRY(check_cells(j, e));
        dry_run(j, vt_cli_has(c, "verbose"));
        return VT_OK;
    }
    VT_TRY(run_cells(j, c->team, e));
    return vt_team_rank(c->team) ? VT_OK : report_table(j, e); /* the rest is rank 0's */
}

static vt_status run(const vt_cli *c, vt_err *e) {
    const char *const instead = vt_cli_has(c, "published") ? "published" : vt_cli_has(c, "check") ? "check" : NULL;
    if (instead && c->n_positional)
        return vt_fail(e, VT_E_USAGE, "--%s is instead of a manifest, but %s is given", instead, c->positional[0]);
    if (!vt_cli_has(c, "published") && (vt_cli_has(c, "claims") || vt_cli_has(c, "number")))
        return vt_fail(e, VT_E_USAGE, "--%s is of --published", vt_cli_has(c, "claims") ? "claims" : "number");
    if (vt_cli_get(c, "published")) return show_published(c, e);
    if (vt_cli_get(c, "check")) return vt_table_check(vt_cli_get(c, "check"), stdout, e);
    static job j;
    vt_status s = build_table(&j, c, e);
    if (j.table.plan) vt_table_free(&j.table);
    if (j.plan.m) vt_plan_free(&j.plan);
    close_inits(&j);
    vt_manifest_close(j.m);
    return s;
}

static const vt_arg args[] = {
    {"out", "DIR", "cache of trainings and evaluations, and the table's files; may be shared by manifests",
     VT_OF_OUTPUT},
    {"dry-run", NULL, "list what is missing and what it costs; run nothing", VT_OF_RUN},
    {"verbose", NULL, "with --dry-run: name every missing cell, also when they are more than 40", VT_OF_OUTPUT},
    {"data", "NAME=FOLDER", "where a data set of the manifest lies; repeatable", VT_OF_DATA},
    {"only", "ROW", "run only this row's cells; repeatable", VT_OF_RUN},
    {"only-data", "NAME", "run only the cells of this data set; repeatable", VT_OF_RUN},
    {"only-column", "NAME", "run only the cells of this column; repeatable", VT_OF_RUN},
    {"jobs", "N", "cells at a time, which share the threads (default 1)", VT_OF_RUN},
    VT_QUIET_ARG,
    VT_THREADS_ARG,
    {"shard", "K/N", "run only the K-th of N parts", VT_OF_RUN},
    {"plot", "FILE", "draw the manifest's figures as SVG", VT_OF_OUTPUT},
    {"merge", "DIR", "take finished cells over from another cache, and print; repeatable", VT_OF_RUN},
    {"check", "FILE.json", "instead: compute a table's values, intervals and p anew from its seeds' counts", VT_OF_RUN},
    {"published", "FILE.csv", "instead: show published numbers, with what is inconsistent about them", VT_OF_RUN},
    {"claims", "FILE.csv", "with --published: averages that the paper's text states", VT_OF_RUN},
    {"number", "N", "with --published: only this table", VT_OF_RUN},
    {0},
};

const vt_command vt_command_table = {
    .name = "table",
    .summary = "a paper's table: trained and evaluated here, beside the published numbers",
    .operands = "[MANIFEST.yaml]",
    .max_operands = 1,
    .args = args,
    .details =
        "Trains and evaluates what DIR does not hold yet, each cell in a folder named by the hash of all that "
        "determines it, then prints the table and writes it as Markdown, LaTeX, HTML, CSV and JSON. A killed table "
        "goes on where it was; a changed recipe reruns its own cells. Manifests: docs/tables.md, recipes/tables/.",
    .examples = {"vitrine table recipes/tables/specformer_table2_small.yaml --dry-run",
                 "vitrine table --published recipes/published/specformer_tables.csv --claims "
                 "recipes/published/specformer_claims.csv --number 2"},
    .run = run,
    .ranks = true,
};
