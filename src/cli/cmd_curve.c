/* SPDX-License-Identifier: MIT */
/* vitrine curve: robust accuracy over eps from the smallest perturbation of each image, with confirmed radii. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cli/run_args.h"
#include "base/chart.h"
#include "base/files.h"
#include "base/opt.h"
#include "eval/report/curve.h"
#include "eval/report/checksums.h"
#include "eval/report/summary.h"
#include "eval/cost.h"
#include "eval/evaluate.h"
#include "eval/run_folder.h"
#include "base/stats.h"

enum { MOST = 64 }; /* attacks times radii */

/* Everything a run holds; freed in one place. */
typedef struct job {
    vt_eval_options v;
    vt_attack attacks[MOST];
    vt_radius radii[MOST];
    char *texts; /* --confirm, cut into pieces */
    vt_cli_run r;
} job;

/* ---- options ---- */

/* The next attack of "fmn:steps=200,alpha=1,ddn": a piece that sets an option ("alpha=1") belongs to the attack before
 * it. false: no more. */
static bool next_spec(const char **list, char out[200]) {
    size_t n = 0;
    if (!**list) return false;
    do {
        n += strcspn(*list + n, ",");
        size_t piece = strcspn(*list + n + ((*list)[n] != 0), ",:=");
        if (!(*list)[n] || (*list)[n + 1 + piece] != '=') break;
        n++;
    } while (true);
    snprintf(out, 200, "%.*s", (int)(n < 199 ? n : 199), *list);
    *list += n + ((*list)[n] != 0);
    return true;
}

/* Adds an entry for every attack of the list, at radius eps as typed in text (NULL: minimum-norm attacks, without a
 * radius). */
static vt_status add_attacks(job *j, const char *option, const char *list, double eps, const char *text, vt_err *e) {
    char spec[200];
    while (next_spec(&list, spec)) {
        int i = j->v.n_attacks;
        vt_attack *a = &j->attacks[i];
        if (i == MOST)
            return vt_fail(e, VT_E_USAGE, "at most %d attacks in one curve, each eps of --confirm counted", MOST);
        VT_TRY(vt_attack_parse(a, spec, j->v.norm, e));
        j->v.n_attacks++;
        j->radii[i] = (vt_radius){eps, text ? text : ""};
        if (a->scoring != VT_SCORE_BALL)
            return vt_fail(e, VT_E_USAGE, "--%s %s: a curve is made of points of balls, not of a paper's evaluator",
                           option, a->id);
        if (a->stages[a->n_stages - 1].share < 1)
            return vt_fail(e, VT_E_USAGE, "--%s %s: a curve is made of all images, so share must be 1", option, a->id);
        if (text) {
            size_t n = strlen(a->name);
            snprintf(a->name + n, sizeof a->name - n, "@%s", text);
        } else if (!a->stages[0].def->minimum_norm || a->n_stages > 1) {
            return vt_fail(e, VT_E_USAGE,
                           "--%s takes minimum-norm attacks (fmn, pdpgd, deepfool, ddn, cw-l2, fab), but %s attacks at "
                           "a "
                           "fixed eps: give it to --confirm-with",
                           option, a->name);
        }
    }
    return VT_OK;
}

/* Orders radii for qsort, ascending. */
static int by_eps(const void *a, const void *b) {
    double x = ((const vt_radius *)a)->eps, y = ((const vt_radius *)b)->eps;
    return (x > y) - (x < y);
}

/* Reads --attacks, --confirm and --confirm-with into the entries of the curve and their radii, ascending. */
static vt_status parse_attacks(job *j, const vt_cli *c, vt_err *e) {
    const char *attacks = vt_cli_get(c, "attacks"), *with = vt_cli_get(c, "confirm-with");
    const char *confirm = vt_cli_get(c, "confirm");
    vt_radius at[MOST];
    int n = 0;
    bool sparse = j->v.norm == VT_L0;
    VT_TRY(add_attacks(j, "attacks", attacks ? attacks : sparse ? "sigma-zero" : "fmn", INFINITY, NULL, e));
    if (!j->v.n_attacks) return vt_fail(e, VT_E_USAGE, "--attacks names no attack");
    if (with && !confirm) return vt_fail(e, VT_E_USAGE, "--confirm-with needs --confirm EPS,EPS,...");
    j->texts = strdup(confirm ? confirm : "");
    if (!j->texts) return vt_fail(e, VT_E_MEMORY, "no memory for --confirm");
    char *save = NULL;
    for (char *t = strtok_r(j->texts, ",", &save); t; t = strtok_r(NULL, ",", &save)) {
        if (n == MOST) return vt_fail(e, VT_E_USAGE, "--confirm takes at most %d eps", MOST);
        VT_TRY(vt_eps_parse(t, j->v.norm, &at[n].eps, e));
        at[n++].text = t;
    }
    qsort(at, (size_t)n, sizeof *at, by_eps);
    for (int i = 0; i < n; i++) {
        if (i && at[i].eps == at[i - 1].eps) return vt_fail(e, VT_E_USAGE, "--confirm names %s twice", at[i].text);
        VT_TRY(add_attacks(j, "confirm-with",
                           with     ? with
                           : sparse ? "sparse-rs"
                                    : "apgd-ce,apgd-t",
                           at[i].eps, at[i].text, e));
    }
    j->v.attacks = j->attacks, j->v.radii = j->radii;
    return VT_OK;
}

/* Reads all options, opens data and model, and makes the ledger's header. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long seed;
    vt_cli_eval_options(&j->v, c);
    VT_TRY(vt_cli_norm(c, &j->v.norm, e));
    VT_TRY(parse_attacks(j, c, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    if (!vt_cli_has(c, "out") && !vt_cli_has(c, "dry-run"))
        return vt_fail(e, VT_E_USAGE, "vitrine curve needs --out FOLDER");
    j->v.seed = (uint64_t)seed;
    j->v.skip_not_finite = vt_cli_has(c, "skip-not-finite");
    VT_TRY(vt_cli_eval_open(c, &j->v, e));
    return vt_eval_header(&j->r.header, &j->v, e);
}

/* ---- terminal ---- */

/* Writes a norm as "0.00412 (1.05/255)" (linf), "0.00412", or "none" if it is infinite. */
static void norm_text(const vt_curve *c, double d, char out[40]) {
    if (!isfinite(d))
        snprintf(out, 40, "none");
    else if (c->norm == VT_LINF)
        snprintf(out, 40, "%.5f (%.3g/255)", d, 255 * d);
    else
        snprintf(out, 40, "%.5f", d);
}

/* Adds the row of one eps: images right within it by all attacks, with interval, and by minimum norms alone. */
static void print_row(vt_columns *t, const vt_curve *c, const char *name, double eps, bool confirmed) {
    double low, high;
    int64_t robust = vt_curve_robust(c, eps);
    vt_wilson(robust, (int64_t)c->n, &low, &high);
    vt_columns_cell(t, "%s", name);
    vt_columns_cells(t, "%lld / %zu\t%.2f\t[%.2f, %.2f]\t%lld\t%s", (long long)robust, c->n,
                     100 * (double)robust / (double)c->n, low, high, (long long)vt_curve_unconfirmed(c, eps),
                     confirmed ? "confirmed" : "");
}

/* Prints a table of the attacks: images broken of those tried, median norm, cost. */
static void print_attacks(const vt_curve *c, const vt_look *look) {
    static const vt_column columns[] = {{"attack", true, 0},
                                        {"broken", false, 0},
                                        {"median norm", true, 0},
                                        {"gradients", false, 1},
                                        {"forwards", false, 2}};
    vt_columns t;
    char median[40];
    vt_columns_begin(&t, columns, (int)(sizeof columns / sizeof *columns));
    for (int k = 0; k < c->n_entries; k++) {
        const vt_curve_entry *a = &c->entries[k];
        norm_text(c, isinf(a->eps) ? vt_curve_median(c, k) : INFINITY, median);
        vt_columns_cell(&t, "%s", a->name);
        vt_columns_cells(&t, "%lld/%lld\t%s\t%lld\t%lld", (long long)a->found, (long long)a->tried,
                         isinf(a->eps) ? median : "", (long long)a->gradients, (long long)a->forwards);
    }
    vt_columns_end(&t, stdout, look);
}

/* Prints both tables of a curve; rows are a fixed grid of eps and the confirmed ones, ascending. */
static void print_all(const vt_curve *c, const vt_look *look) {
    static const vt_radius linf[] = {{1 / 255., "1/255"}, {2 / 255., "2/255"},   {4 / 255., "4/255"},
                                     {8 / 255., "8/255"}, {16 / 255., "16/255"}, {0, NULL}};
    static const vt_radius l2[] = {{0.1, "0.1"}, {0.25, "0.25"}, {0.5, "0.5"}, {1, "1"}, {2, "2"}, {0, NULL}};
    static const vt_radius l1[] = {{1, "1"}, {2, "2"}, {4, "4"}, {8, "8"}, {12, "12"}, {16, "16"}, {0, NULL}};
    static const vt_radius l0[] = {{1, "1"}, {3, "3"}, {10, "10"}, {30, "30"}, {100, "100"}, {300, "300"}, {0, NULL}};
    const vt_radius *grid = c->norm == VT_LINF ? linf : c->norm == VT_L2 ? l2 : c->norm == VT_L1 ? l1 : l0;
    vt_columns t;
    printf("%s, %zu images, %zu right\n\n", vt_norm_name(c->norm), c->n, c->right);
    print_attacks(c, look);
    for (int k = 0; k < c->n_entries; k++) {
        const vt_curve_entry *a = &c->entries[k];
        char text[300];
        for (int i = 0; vt_remark(a->name, a->vanished, a->not_finite, i, text, sizeof text); i++)
            printf("NOTE: %s\n", text);
    }
    printf("\n");
    vt_columns_titles(&t, "-eps\trobust\t%%\t95 %%\tby minimum norm alone\t-");
    print_row(&t, c, "0", 0, false);
    const vt_curve_point *p = c->points, *end = p + c->n_points;
    for (;;) { /* the grid and the confirmed eps, merged */
        while (p < end && !p->confirmed) p++;
        if (p == end && !grid->text) break;
        bool at_point = p < end && (!grid->text || p->eps <= grid->eps);
        const char *name = grid->text;
        for (int k = 0; at_point && k < c->n_entries; k++)
            if (c->entries[k].eps == p->eps) name = c->entries[k].eps_text;
        double eps = at_point ? p->eps : grid->eps;
        print_row(&t, c, name, eps, at_point);
        if (grid->text && grid->eps == eps) grid++;
        p += at_point;
    }
    vt_columns_end(&t, stdout, look);
}

/* ---- picture ---- */

/* Draws robust accuracy over eps as steps with 95 % intervals and, if some eps were confirmed, the curve of the
 * minimum-norm attacks alone and marks at those eps. */
static void draw_curve(vt_figure *f, const void *data) {
    const vt_curve *c = data;
    double unit = c->norm == VT_LINF ? 255 : 1, percent = 100 / (double)c->n;
    bool confirmed = false;
    vt_figure_panel(f, &(vt_panel){.x = c->norm == VT_LINF ? "eps (linf, in 1/255)" : vt_norm_name(c->norm),
                                   .y = "robust accuracy (%)",
                                   .y_to = 100});
    vt_figure_series(f, VT_STEPS, "robust, with its 95 %% interval");
    for (const vt_curve_point *p = c->points; p < c->points + c->n_points; p++) {
        double x = unit * p->eps;
        vt_figure_interval(f, (double[]){x, x, x}, (double[]){percent * (double)p->robust, p->low, p->high});
        confirmed = confirmed || p->confirmed;
    }
    if (!confirmed) return;
    vt_figure_series(f, VT_STEPS | VT_DASHED, "by minimum-norm attacks alone");
    for (const vt_curve_point *p = c->points; p < c->points + c->n_points; p++)
        vt_figure_point(f, unit * p->eps, percent * (double)vt_curve_unconfirmed(c, p->eps));
    vt_figure_series(f, VT_MARKS, "confirmed by attacks at this eps");
    for (const vt_curve_point *p = c->points; p < c->points + c->n_points; p++)
        if (p->confirmed) vt_figure_point(f, unit * p->eps, percent * (double)p->robust);
}

/* Writes dir/curve.svg. */
static vt_status plot_curve(const job *j, const vt_curve *c, const vt_cli *cli, const char *dir, vt_err *e) {
    char path[VT_PATH_MAX], name[100], title[200];
    VT_TRY(vt_path_in(path, dir, "curve.svg", e));
    const vt_remote *r = j->v.subject->remote;
    vt_model_nickname(r ? vt_remote_handshake(r)->name : cli->positional[0], name);
    snprintf(title, sizeof title, "%s: robust accuracy over eps, %s, %zu images", name, vt_norm_name(c->norm), c->n);
    return vt_figure_save(path, title, draw_curve, c, e);
}

/* ---- the command ---- */

/* Self-tests the gradients at 4/255, 0.5 (l2) or 12 (l1), and prints; not in l0, without gradients, or if told. */
static vt_status test_itself(const job *j, const vt_cli *c, vt_err *e) {
    static const char *const usual[] = {[VT_LINF] = "4/255", [VT_L2] = "0.5", [VT_L1] = "12"};
    vt_eval_options v = j->v;
    if (vt_cli_has(c, "no-selftest") || !v.n_attacks || v.norm == VT_L0) return VT_OK;
    if (!vt_subject_differentiable(v.subject)) {
        printf("\nthe self-test is left out: the model gives no gradients\n");
        return VT_OK;
    }
    v.eps_text = usual[v.norm], v.radii = NULL;
    VT_TRY(vt_eps_parse(v.eps_text, v.norm, &v.eps, e));
    return vt_cli_selftest(c, &v, &j->attacks[0], j->r.ledger, true, e);
}

/* Prints the finished curve and writes curve.csv, curve.json, curve.svg, selftest.json, run.json and checksums. */
static vt_status report_curve(job *j, const vt_cli *cli, vt_err *e) {
    vt_curve c;
    const char *out = vt_cli_get(cli, "out");
    VT_TRY(vt_ledger_finish(j->r.ledger, e));
    VT_TRY(vt_curve_make(&c, j->r.ledger, e));
    vt_look look = vt_cli_look(cli);
    print_all(&c, &look);
    vt_status s = vt_curve_write(&c, out, e);
    if (s == VT_OK && vt_script_stream()) s = vt_script_print(vt_curve_json(&c), e);
    if (s == VT_OK) s = plot_curve(j, &c, cli, out, e);
    if (s == VT_OK) s = test_itself(j, cli, e);
    if (s == VT_OK) s = vt_cli_eval_json(cli, out, &j->v, &j->r, NAN, e);
    if (s == VT_OK) s = vt_checksums_write(out, e);
    if (s == VT_OK) putchar('\n'), vt_checksums_list(stdout, out);
    vt_curve_free(&c);
    return s;
}

/* Runs the curve of a command line; VT_INTERRUPTED names how many ledger lines are kept. */
static vt_status measure_curve(job *j, const vt_cli *c, vt_err *e) {
    VT_TRY(parse(j, c, e));
    bool tested = !vt_cli_has(c, "no-selftest") && j->v.norm != VT_L0 && vt_subject_differentiable(j->v.subject);
    j->r.tested = tested ? &j->attacks[0] : NULL, j->r.points_only = true;
    vt_status s = vt_cli_evaluate(c, &j->r, &j->v, e);
    if (s == VT_INTERRUPTED && !vt_team_rank(c->team))
        return vt_fail(e, s, "interrupted; %zu ledger lines are kept: continue with --resume", j->r.ledger->count);
    return j->r.complete ? report_curve(j, c, e) : s;
}

/* Runs vitrine curve on the ranks of a launcher, if there is one. */
static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = measure_curve(&j, c, e);
    vt_cli_run_close(&j.r);
    for (int i = 0; i < j.v.n_attacks; i++) vt_attack_free(&j.attacks[i]);
    free(j.texts);
    vt_eval_options_close(&j.v);
    return s;
}

static const vt_arg args[] = {
    VT_DATA_ARG,
    {"norm", "linf|l2|l1|l0", "threat model (default linf)", VT_OF_THREAT},
    {"attacks", "ATTACKS", "minimum-norm attacks, as fmn:steps=200,deepfool (default fmn; l0: sigma-zero)",
     VT_OF_ATTACK},
    {"confirm", "EPS,EPS,...", "radii at which fixed-eps attacks try the images that still stand there", VT_OF_ATTACK},
    {"confirm-with", "ATTACKS", "those attacks (default apgd-ce,apgd-t; l0: sparse-rs)", VT_OF_ATTACK},
    VT_IMAGES_ARGS,
    {"out", "DIR", "folder for curve.csv, curve.json, curve.svg and the ledger", VT_OF_OUTPUT},
    VT_RESUME_ARG,
    VT_DRY_RUN_ARG,
    VT_JSON_ARG,
    VT_QUIET_ARG,
    {"no-selftest", NULL, "leave out the self-test of single points and of the ball's scale", VT_OF_RUN},
    VT_SKIP_ARG,
    {"allow-mixed", NULL, "resume although another BLAS kernel was in use", VT_OF_RUN},
    VT_SEED_ARG,
    VT_THREADS_ARG,
    VT_BATCH_ARG,
    VT_SEARCH_ARG,
    VT_VERBOSE_ARG,
    VT_ORACLE_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_curve = {
    .name = "curve",
    .summary = "robust accuracy over eps, from the smallest perturbation of every image",
    .operands = "WEIGHTS",
    .max_operands = 1,
    .args = args,
    .details = "Every right image is attacked without a radius; the nearest point that breaks it (confirmed in double, "
               "and measured again by separate code) says at which eps it falls. What a minimum-norm attack misses, "
               "attacks of a fixed eps may find: --confirm runs them on the images that stand at those eps, in "
               "ascending order. An image broken at one eps is broken at all larger ones, so the curve never rises.",
    .examples = {"vitrine curve weights/shapes10-vit --data datasets/shapes10 --images 0:10 --out curve",
                 "vitrine curve weights/shapes10-vit --data datasets/shapes10 --images 0:10 --norm l2 --attacks "
                 "fmn:steps=20,deepfool --confirm 0.25,0.5 --confirm-with pgd --out l2"},
    .run = run,
    .ranks = true,
};
