#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "analysis/analyze.h"
#include "cli/cli.h"
#include "cli/plot.h"
#include "cli/run_args.h"
#include "core/threads.h"
#include "eval/files.h"

enum { MOST_FIGURES = 16 };

typedef struct job {
    const vt_analysis_def *def;
    void *params;
    vt_analyze a;
    vt_attack attack;
    vt_progress progress;
    json_t *doc;
    vt_file tables;              /* DIR/tables.txt, while the analysis runs */
    const char *dir;             /* --out */
    char *figures[MOST_FIGURES]; /* names of those drawn */
    int n_figures;
} job;

/* ---- options of the kind ---- */

/* Keys are written with _ in tables and may be typed with - on the command line. */
static bool same_key(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

static const vt_opt *find_opt(const vt_analysis_def *d, const char *key) {
    for (const vt_opt *o = d->opts; o && o->key; o++)
        if (same_key(o->key, key)) return o;
    return NULL;
}

static vt_status unknown(const vt_analysis_def *d, const vt_cli *c, const char *key, vt_err *e) {
    const char *names[128];
    char all[400] = "";
    size_t n = 0;
    for (const vt_opt *o = d->opts; o && o->key && n < 64; o++) {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", n ? ", " : "", o->key);
        names[n++] = o->key;
    }
    for (const vt_arg *a = c->command->args; a->name && n < 128; a++) names[n++] = a->name;
    const char *near = vt_nearest(key, names, n);
    return vt_fail(e, VT_E_UNKNOWN, "analysis %s has no option '%s'%s%s%s; its own options are: %s", d->name, key,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", *all ? all : "none");
}

/* --key of the kind that the operands name. */
static vt_status find(const vt_cli *c, const char *name, vt_arg *out, vt_err *e) {
    const vt_analysis_def *d;
    if (!c->n_positional)
        return vt_fail(e, VT_E_USAGE,
                       "vitrine analyze has no option '--%s' of its own: name the kind before its options", name);
    VT_TRY(vt_analysis_find(&d, c->positional[0], e));
    const vt_opt *o = find_opt(d, name);
    if (!o) return unknown(d, c, name, e);
    *out = (vt_arg){o->key, o->type == VT_OPT_BOOL ? NULL : "VALUE", o->help};
    return VT_OK;
}

static vt_status parse_own(job *j, const vt_cli *c, vt_err *e) {
    char who[80];
    snprintf(who, sizeof who, "analysis %s", j->def->name);
    j->params = calloc(1, j->def->params_size + 1);
    if (!j->params) return vt_fail(e, VT_E_MEMORY, "no memory for %s", who);
    vt_opt_defaults(j->def->opts, j->params);
    for (int i = 0; i < c->n_given; i++) {
        const vt_arg *a = c->given[i].arg;
        if (a >= c->more && a < c->more + c->n_more)
            VT_TRY(vt_opt_set(j->def->opts, j->params, a->name, a->metavar ? c->given[i].value : "1", who, e));
    }
    return VT_OK;
}

/* ---- what all kinds share ---- */

/* Options that a kind does not read are refused: they would change nothing. */
static vt_status refuse_unread(const job *j, const vt_cli *c, vt_err *e) {
    static const char *const of_images[] = {"data", "images", "split", "preprocess", "attack-at", NULL};
    static const char *const of_attack[] = {"attack", "eps", "norm", NULL};
    unsigned w = j->def->wants;
    for (int i = 0; !(w & VT_WANTS_IMAGES) && of_images[i]; i++)
        if (vt_cli_has(c, of_images[i]))
            return vt_fail(e, VT_E_USAGE, "analysis %s looks at weights alone: --%s has no meaning there", j->def->name,
                           of_images[i]);
    for (int i = 0; !(w & VT_TAKES_ATTACK) && of_attack[i]; i++)
        if (vt_cli_has(c, of_attack[i]))
            return vt_fail(e, VT_E_USAGE, "analysis %s attacks nothing: --%s has no meaning there", j->def->name,
                           of_attack[i]);
    return VT_OK;
}

static vt_status parse_attack(job *j, const vt_cli *c, vt_err *e) {
    const char *spec = vt_cli_get(c, "attack"), *eps = vt_cli_get(c, "eps");
    bool needed = (j->def->wants & VT_WANTS_ATTACK) == VT_WANTS_ATTACK;
    VT_TRY(vt_cli_norm(c, &j->a.norm, e));
    if (!eps && !needed && !spec) return VT_OK;
    VT_TRY(vt_cli_eps(eps, j->a.norm, &j->a.eps, e));
    VT_TRY(vt_attack_parse(&j->attack, spec ? spec : "pgd", j->a.norm, e));
    j->a.eps_text = eps, j->a.attack = &j->attack;
    return VT_OK;
}

/* Each checkpoint has a view of the data of its own: transform and labels depend on it. */
static vt_status open_subject(job *j, const vt_cli *c, vt_subject *s, vt_err *e) {
    vt_overrides o;
    vt_input_story story;
    if (!(j->def->wants & VT_WANTS_IMAGES)) {
        VT_TRY(vt_cli_overrides(c, &o, e));
        return vt_model_open(&s->model, s->path, &o, e);
    }
    VT_TRY(vt_cli_data(c, &s->data, e));
    if (!j->a.images) VT_TRY(vt_cli_images(c, s->data, &j->a.images, &j->a.n_images, e));
    VT_TRY(vt_cli_model_at(c, s->path, s->data, j->a.images[0], &s->model, e));
    VT_TRY(vt_cli_input(c, s->model, s->data, j->a.images[0], &story, e));
    return vt_dataset_fit_head(s->data, s->model->config.classes, false, s->model->path, e);
}

static vt_status check_attack(const job *j, vt_err *e) {
    for (int i = 0; i < j->a.n; i++) {
        const vt_config *c = &j->a.subjects[i].model->config;
        vt_task dims = {.n = vt_config_input_pixels(c), .classes = c->classes};
        dims.height = dims.width = vt_config_input(c);
        for (int k = 0; j->a.attack && k < j->a.attack->n_stages; k++) {
            const vt_attack_stage *s = &j->a.attack->stages[k];
            if (s->def->check) VT_TRY(s->def->check(s->params, &dims, e));
            if (s->def->looks)
                return vt_fail(e, VT_E_USAGE, "attack %s looks at attention, which an analysis does not offer it",
                               s->def->name);
        }
    }
    return VT_OK;
}

static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long seed, threads;
    VT_TRY(vt_analysis_find(&j->def, c->positional[0], e));
    VT_TRY(parse_own(j, c, e));
    VT_TRY(refuse_unread(j, c, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    VT_TRY(vt_cli_int(c, "threads", 1, 1024, vt_cpu_count(), &threads, e));
    j->a.seed = (uint64_t)seed, j->a.threads = (int)threads;
    VT_TRY(parse_attack(j, c, e));
    for (; j->a.n < c->n_positional - 1; j->a.n++) {
        j->a.subjects[j->a.n].path = c->positional[1 + j->a.n];
        vt_status s = open_subject(j, c, &j->a.subjects[j->a.n], e);
        if (s != VT_OK) return j->a.n++, s; /* counted, so that it is closed */
    }
    return check_attack(j, e);
}

/* ---- what comes out ---- */

/* Tables go to the terminal as they come, and to tables.txt. */
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
    if (!vt_path(path, j->dir, file)) return vt_fail(e, VT_E_IO, "%s: path is too long", j->dir);
    VT_TRY(vt_plot_svg(path, script, e));
    if (j->n_figures < MOST_FIGURES && (j->figures[j->n_figures] = strdup(file))) j->n_figures++;
    return VT_OK;
}

static vt_status open_out(job *j, vt_err *e) {
    char path[VT_PATH_MAX];
    if (!j->dir) return VT_OK;
    VT_TRY(vt_make_dir(j->dir, e));
    if (!vt_path(path, j->dir, "analysis.json")) return vt_fail(e, VT_E_IO, "%s: path is too long", j->dir);
    if (access(path, F_OK) == 0)
        return vt_fail(e, VT_E_USAGE, "%s exists: choose another folder, nothing is overwritten", path);
    if (vt_plot_available()) j->a.figure = figure, j->a.figure_ctx = j;
    return vt_file_begin(&j->tables, j->dir, "tables.txt", e);
}

/* analysis.json comes last: a folder that has it is complete. */
static vt_status keep(job *j, vt_err *e) {
    vt_file f;
    if (!j->dir) return VT_OK;
    VT_TRY(vt_file_commit(&j->tables, e));
    VT_TRY(vt_file_begin(&f, j->dir, "analysis.json", e));
    if (json_dumpf(j->doc, f.stream, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) != 0) {
        vt_file_abandon(&f);
        return vt_fail(e, VT_E_IO, "%s/analysis.json cannot be written", j->dir);
    }
    fputc('\n', f.stream);
    VT_TRY(vt_file_commit(&f, e));
    printf("%s: analysis.json, tables.txt", j->dir);
    for (int i = 0; i < j->n_figures; i++) printf(", %s", j->figures[i]);
    printf("%s\n", j->a.figure ? "" : " (figures need gnuplot)");
    return VT_OK;
}

static vt_status analyze(job *j, const vt_cli *c, vt_err *e) {
    static bool tty;
    j->dir = vt_cli_get(c, "out");
    VT_TRY(parse(j, c, e));
    VT_TRY(open_out(j, e));
    FILE *out = fopencookie(j, "w", (cookie_io_functions_t){.write = tee});
    if (!out) return vt_fail(e, VT_E_MEMORY, "no memory for the tables");
    setvbuf(out, NULL, _IOLBF, BUFSIZ);
    tty = isatty(STDERR_FILENO);
    j->progress = (vt_progress){.show = vt_cli_show, .ctx = &tty, .live = tty};
    if (tty) j->a.progress = &j->progress;
    j->a.interrupt = vt_cli_interruptible();
    vt_status s = vt_analyze_run(j->def, j->params, &j->a, out, &j->doc, e);
    fclose(out);
    return s == VT_OK ? keep(j, e) : s;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = analyze(&j, c, e);
    if (j.tables.stream) vt_file_abandon(&j.tables);
    json_decref(j.doc);
    for (int i = 0; i < j.n_figures; i++) free(j.figures[i]);
    for (int i = 0; i < j.a.n; i++) vt_model_close(j.a.subjects[i].model), vt_dataset_close(j.a.subjects[i].data);
    vt_attack_free(&j.attack);
    free(j.a.images), free(j.params);
    return s;
}

static const vt_arg args[] = {
    VT_DATA_ARG,
    {"images", "A:B|FILE", "indices within the split, a file with one a line, or imagenette-v1 (default all)"},
    {"split", "test|train", "which split (default test)"},
    {"preprocess", "TEXT", "short:248,bicubic,crop:224 and the like (docs/images.md); default: the model's own"},
    VT_ATTACK_AT_ARG,
    {"attack", "SPEC", "the attack, for kinds that attack (default pgd); it is never left early"},
    {"eps", "A/B", "its radius in pixel units: 8/255, 0.5 (l2), 12 (l1)"},
    {"norm", "linf|l2|l1", "threat model (default linf)"},
    {"out", "DIR", "folder for analysis.json, tables.txt and, with gnuplot, figures"},
    {"seed", "N", "seed of every random draw (default 0)"},
    {"threads", "N", "threads (default all cores); never changes a result"},
    VT_MODEL_ARGS,
    {NULL, NULL, NULL},
};

const vt_command vt_command_analyze = {
    .name = "analyze",
    .summary = "figures and diagnostics of checkpoints: Lipschitz constants, attention, spectra",
    .operands = "KIND WEIGHTS...",
    .min_operands = 2,
    .max_operands = 1 + VT_ANALYZE_MOST,
    .args = args,
    .details =
        "vitrine list analyses shows the kinds and their options, which are flags too: vitrine analyze KIND WEIGHTS\n"
        "--key value, after the kind. Several checkpoints are compared on the same images. What is written depends on\n"
        "weights, images, options and seed alone (docs/analysis.md).",
    .run = run,
    .find = find,
};
