#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/plot.h"
#include "cli/run_json.h"
#include "core/threads.h"
#include "eval/files.h"
#include "lab/lab.h"

enum { MOST_FIGURES = 32 };

typedef struct job {
    const vt_lab_def *def;
    void *params;
    vt_lab lab;
    json_t *doc;
    vt_file tables;              /* DIR/tables.txt, while the lab runs */
    char *figures[MOST_FIGURES]; /* names of those drawn */
    int n_figures;
} job;

/* ---- options ---- */

/* Keys are written with _ in tables and may be typed with - on the command line. */
static bool same_key(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

static const vt_opt *find_opt(const vt_lab_def *d, const char *key) {
    for (const vt_opt *o = d->opts; o && o->key; o++)
        if (same_key(o->key, key)) return o;
    return NULL;
}

static vt_status unknown(const vt_lab_def *d, const char *key, vt_err *e) {
    static const char *const shared[] = {"seed", "threads", "out", "set"};
    const char *names[64];
    char all[400] = "";
    size_t n = 0;
    for (const vt_opt *o = d->opts; o && o->key && n < 60; o++) names[n++] = o->key;
    for (size_t i = 0; i < n; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", names[i]);
    memcpy(names + n, shared, sizeof shared);
    const char *near = vt_nearest(key, names, n + 4);
    return vt_fail(e, VT_E_UNKNOWN, "lab %s has no option '%s'%s%s%s; its options are: %s", d->name, key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", n ? all : "none");
}

/* --key of the lab that the operands name. */
static vt_status find(const vt_cli *c, const char *name, vt_arg *out, vt_err *e) {
    const vt_lab_def *d;
    if (!c->n_positional)
        return vt_fail(e, VT_E_USAGE, "vitrine lab has no option '--%s' of its own: name the lab before its options",
                       name);
    VT_TRY(vt_lab_find(&d, c->positional[0], e));
    const vt_opt *o = find_opt(d, name);
    if (!o) return unknown(d, name, e);
    *out = (vt_arg){o->key, o->type == VT_OPT_BOOL ? NULL : "VALUE", o->help};
    return VT_OK;
}

static vt_status set(job *j, const char *key, const char *value, vt_err *e) {
    char who[80];
    const vt_opt *o = find_opt(j->def, key);
    snprintf(who, sizeof who, "lab %s", j->def->name);
    return o ? vt_opt_set(j->def->opts, j->params, o->key, value, who, e) : unknown(j->def, key, e);
}

static vt_status set_pair(job *j, const char *pair, vt_err *e) {
    char key[64];
    size_t n = strcspn(pair, "=");
    if (!pair[n] || n == 0 || n >= sizeof key)
        return vt_fail(e, VT_E_USAGE, "--set takes key=value, but '%s' was given", pair);
    snprintf(key, sizeof key, "%.*s", (int)n, pair);
    return set(j, key, pair + n + 1, e);
}

/* In the order of the command line, so that the last one counts. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long seed, threads;
    VT_TRY(vt_lab_find(&j->def, c->positional[0], e));
    j->params = calloc(1, j->def->params_size + 1);
    if (!j->params) return vt_fail(e, VT_E_MEMORY, "no memory for lab %s", j->def->name);
    vt_opt_defaults(j->def->opts, j->params);
    for (int i = 0; i < c->n_given; i++) {
        const vt_arg *a = c->given[i].arg;
        if (a >= c->more && a < c->more + c->n_more) VT_TRY(set(j, a->name, a->metavar ? c->given[i].value : "1", e));
        if (!strcmp(a->name, "set")) VT_TRY(set_pair(j, c->given[i].value, e));
    }
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_int(c, "threads", 1, 1024, vt_cpu_count(), &threads, e));
    j->lab.seed = (uint64_t)seed, j->lab.threads = (int)threads;
    return VT_OK;
}

/* ---- what comes out ---- */

/* Everything that the lab writes goes to the terminal as it comes, and to tables.txt. */
static ssize_t tee(void *cookie, const char *text, size_t n) {
    job *j = cookie;
    size_t done = fwrite(text, 1, n, stdout);
    fflush(stdout);
    if (j->tables.stream && fwrite(text, 1, n, j->tables.stream) != n) return 0;
    return (ssize_t)done;
}

static vt_status figure(void *ctx, const char *name, const char *script, vt_err *e) {
    job *j = ctx;
    char path[VT_PATH_MAX], file[100];
    snprintf(file, sizeof file, "%s.svg", name);
    if (!vt_path(path, j->lab.dir, file)) return vt_fail(e, VT_E_IO, "%s: path is too long", j->lab.dir);
    VT_TRY(vt_plot_svg(path, script, e));
    if (j->n_figures < MOST_FIGURES && (j->figures[j->n_figures] = strdup(file))) j->n_figures++;
    return VT_OK;
}

static bool is_empty(const char *dir) {
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *f; d && (f = readdir(d));) n += strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
    if (d) closedir(d);
    return d && n == 0;
}

static vt_status open_out(job *j, const char *dir, vt_err *e) {
    if (!dir) return VT_OK;
    VT_TRY(vt_make_dir(dir, e));
    if (!is_empty(dir)) /* figures have names of their own: whatever is there is not ours to replace */
        return vt_fail(e, VT_E_USAGE, "%s is not an empty folder: choose another one, nothing is overwritten", dir);
    j->lab.dir = dir;
    if (vt_plot_available()) j->lab.figure = figure, j->lab.figure_ctx = j;
    return vt_file_begin(&j->tables, dir, "tables.txt", e);
}

/* The folder was empty: what a failed run leaves in it is half of something. */
static void clear_out(const job *j) {
    static const char *const files[] = {"tables.txt", "run.json", "lab.json"};
    for (int i = 0; i < j->n_figures; i++) vt_remove_in(j->lab.dir, j->figures[i]);
    for (int i = 0; i < 3; i++) vt_remove_in(j->lab.dir, files[i]);
}

static vt_status write_json(const job *j, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, j->lab.dir, "lab.json", e));
    if (json_dumpf(j->doc, f.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) != 0) {
        vt_file_abandon(&f);
        return vt_fail(e, VT_E_IO, "%s/lab.json cannot be written", j->lab.dir);
    }
    fputc('\n', f.stream);
    return vt_file_commit(&f, e);
}

/* lab.json comes last: a folder that has it is complete. */
static vt_status keep(job *j, const vt_cli *c, double seconds, vt_err *e) {
    if (!j->lab.dir) return VT_OK;
    vt_status s = vt_file_commit(&j->tables, e);
    if (s == VT_OK) s = vt_cli_run_json(c, j->lab.dir, j->lab.threads, seconds, NULL, e);
    if (s == VT_OK) s = write_json(j, e);
    if (s != VT_OK) return s;
    printf("%s: lab.json, tables.txt, run.json", j->lab.dir);
    for (int i = 0; i < j->n_figures; i++) printf(", %s", j->figures[i]);
    printf("%s\n", j->lab.figure ? "" : " (figures need gnuplot)");
    return VT_OK;
}

static vt_status experiment(job *j, const vt_cli *c, vt_err *e) {
    static bool tty;
    VT_TRY(parse(j, c, e));
    VT_TRY(open_out(j, vt_cli_get(c, "out"), e));
    j->lab.out = fopencookie(j, "w", (cookie_io_functions_t){.write = tee});
    if (!j->lab.out) return vt_fail(e, VT_E_MEMORY, "no memory for the lab's output");
    setvbuf(j->lab.out, NULL, _IOLBF, BUFSIZ);
    tty = isatty(STDERR_FILENO);
    j->lab.progress = (vt_progress){.show = vt_cli_show, .ctx = &tty, .live = tty, .unit = "runs"};
    j->lab.interrupt = vt_cli_interruptible();
    double began = vt_now();
    VT_TRY(vt_lab_run(j->def, j->params, &j->lab, &j->doc, e));
    double seconds = vt_now() - began;
    printf("%.1f s, %d thread%s\n", seconds, j->lab.threads, j->lab.threads == 1 ? "" : "s");
    return keep(j, c, seconds, e);
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = experiment(&j, c, e);
    if (j.lab.out) fclose(j.lab.out);
    if (j.tables.stream) vt_file_abandon(&j.tables);
    if (s != VT_OK && j.lab.dir) clear_out(&j);
    json_decref(j.doc);
    for (int i = 0; i < j.n_figures; i++) free(j.figures[i]);
    free(j.params);
    return s;
}

static const vt_arg args[] = {
    {"seed", "N", "seed of every random draw (default 0)"},
    {"threads", "N", "threads (default all cores); never changes a result"},
    {"out", "DIR", "folder for lab.json, tables.txt, run.json and, with gnuplot, figures"},
    {"set", "KEY=VALUE", "an option of the lab; repeatable"},
    {NULL, NULL, NULL},
};

const vt_command vt_command_lab = {
    .name = "lab",
    .summary = "small experiments that test what the papers claim",
    .operands = "NAME",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details =
        "vitrine list labs shows the labs and their options, which are flags too: vitrine lab NAME --key value, after "
        "the\n"
        "name. A lab prints its tables, then claim by claim what it supports, weakens or contradicts: a finding, not "
        "a\n"
        "failure, so the exit status is 0. lab.json and tables.txt depend on seed and options alone; times and the\n"
        "machine are in run.json (docs/labs.md).",
    .run = run,
    .find = find,
};
