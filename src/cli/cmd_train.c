/* SPDX-License-Identifier: MIT */
/* vitrine train: opens what a recipe names, trains, and writes checkpoints and log. */
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "cli/cli.h"
#include "cli/plot_training.h"
#include "cli/run_args.h"
#include "eval/cost.h"
#include "train/train.h"

/* Notes that BatchNorm's statistics stay as they are: TRADES and MART take the loss with a batch's own. */
static void note_frozen_statistics(const vt_train_job *j) {
    bool any = false;
    for (int i = 0; i < j->model->params.count; i++)
        any = any || strstr(j->model->params.items[i].name, "running_mean");
    if (any)
        fprintf(stderr, "vitrine: the model has BatchNorm, whose statistics stay in training as %s\n",
                j->init ? "the checkpoint has them" : "they start, mean 0 and variance 1");
}

/* Reads the options, opens recipe, data and initial checkpoint, and prints what was assumed. */
static vt_status prepare_training(vt_train_job *j, const vt_cli *c, vt_err *e) {
    long long threads;
    const char *from = vt_cli_get(c, "from"), *file = c->n_positional ? c->positional[0] : NULL;
    VT_TRY(vt_cli_threads(c, &threads, e));
    if (!file == !from)
        return vt_fail(e, VT_E_USAGE, "vitrine train needs a RECIPE.yaml, or --from CHECKPOINT%s",
                       file ? ", not both" : "");
    if (!vt_cli_has(c, "out") && !vt_cli_has(c, "dry-run"))
        return vt_fail(e, VT_E_USAGE, "vitrine train needs --out FOLDER (or --dry-run)");
    if (!vt_cli_has(c, "data"))
        return vt_fail(e, VT_E_USAGE, "vitrine train needs --data FOLDER (CIFAR binary folder, or folders of PNGs)");
    VT_TRY(vt_train_open(j, &c->given, file, from, vt_cli_check_known, (void *)(uintptr_t)c, e));
    if (*j->note) fprintf(stderr, "vitrine: %s\n", j->note);
    vt_cli_say_data(c, j->data, NULL, 0);
    note_frozen_statistics(j);
    bool begins = j->init && !j->t.resume && !vt_team_rank(c->team);
    if (begins && j->init->config.classes == j->data->classes) vt_cli_hint(j->init, j->data, NULL, 0, (int)threads);
    vt_model_close(j->init);
    j->init = NULL;
    j->t.threads = (int)threads, j->t.team = c->team, j->t.progress = vt_cli_progress();
    return VT_OK;
}

/* Prints the resolved recipe and, as comments, steps, work, hours on this machine and memory. */
static vt_status dry_run(const vt_train_job *j, vt_err *e) {
    vt_train_plan p;
    double before = vt_resident_mb(), hours;
    char time[32];
    VT_TRY(vt_train_measure(&p, &j->t, e));
    VT_TRY(vt_measure_hours(&hours, j->model, p.flops * (double)p.steps, j->t.threads, e));
    char *text = vt_recipe_text(j->recipe);
    if (!text) return vt_fail(e, VT_E_MEMORY, "no memory for the recipe's text");
    const vt_config *c = &j->model->config;
    double weights = (double)(j->model->params.total + j->model->params.t_total) * 4 / 1048576;
    printf("%s\n", text);
    printf("# model: %s %d x %d, patch %d, dim %d, depth %d, heads %d, mlp %d, %d classes: %zu parameters\n", c->arch,
           c->image, c->image, c->patch, c->dim, c->depth, c->heads, c->hidden, c->classes,
           vt_model_param_count(j->model));
    printf("# images: %lld to train on, %lld watched; %lld steps an epoch, %lld in all\n", (long long)p.images,
           (long long)p.watched, (long long)p.per_epoch, (long long)p.steps);
    int rest = j->recipe->top.batch;
    for (int i = 0; i < j->extra.n; i++) rest -= vt_extra_take(j->recipe, i);
    if (j->extra.n) printf("# %d of each step's %d from %s", rest, j->recipe->top.batch, j->data->path);
    for (int i = 0; i < j->extra.n; i++)
        printf(", %d from %s%s", vt_extra_take(j->recipe, i), j->extra.sets[i]->path, i == j->extra.n - 1 ? "\n" : "");
    printf("# work: %.3g GFLOP a step, %.3g TFLOP in all\n", p.flops * 1e-9, p.flops * 1e-12 * (double)p.steps);
    printf("# time: %s here with %d thread%s and no other work, by the rate of one image's forward and gradient\n",
           vt_hours_text(time, hours), j->t.threads, j->t.threads == 1 ? "" : "s");
    printf("# memory: %.0f MB peak with %d threads (%.1f MB of weights, activations and optimiser; micro_batch %d)\n",
           before + (double)p.bytes / 1048576 - weights + vt_libraries_mb(j->model, j->t.threads), j->t.threads,
           (double)p.bytes / 1048576, j->recipe->top.micro_batch);
    free(text);
    return VT_OK;
}

/* Writes the figure's title: "cifar10-at: vit, width 128, depth 4; objective at, linf eps 8/255". */
static void plot_title(const vt_train_job *j, char *out, size_t size) {
    const vt_config *m = &j->model->config;
    const vt_recipe *r = j->recipe;
    double unit = r->attack.norm == VT_LINF ? 255 : 1;
    int n = snprintf(out, size, "%s: %s, width %d, depth %d; objective %s", *r->top.name ? r->top.name : j->t.out,
                     m->arch, m->dim, m->depth, r->top.objective);
    if (r->attack.eps > 0 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n, ", %s eps %.3g%s", vt_norm_name((vt_norm)r->attack.norm),
                 unit * r->attack.eps, unit > 1 ? "/255" : "");
}

/* Draws OUT/curves.svg from OUT/log.jsonl; a failure is a line on stderr. */
static void plot_curves(const vt_train_job *j) {
    char log[4096], svg[4096], title[200];
    vt_err why = {0};
    snprintf(log, sizeof log, "%s/log.jsonl", j->t.out), snprintf(svg, sizeof svg, "%s/curves.svg", j->t.out);
    plot_title(j, title, sizeof title);
    if (vt_plot_training(log, title, svg, &why) != VT_OK)
        fprintf(stderr, "no plot of the log is drawn: %s\n", why.text);
}

/* Runs the training of a command line; a stop at --max-steps is no failure. */
static vt_status run_training(vt_train_job *j, const vt_cli *c, vt_err *e) {
    VT_TRY(prepare_training(j, c, e));
    if (vt_cli_has(c, "dry-run")) return dry_run(j, e);
    j->t.interrupt = vt_cli_interruptible();
    vt_status s = vt_train_run(&j->t, e);
    if (vt_team_rank(c->team)) return s == VT_INTERRUPTED && !*j->t.interrupt ? VT_OK : s;
    if (s == VT_INTERRUPTED && !*j->t.interrupt) { /* --max-steps: as planned */
        printf("%s\n", e->text);
        return VT_OK;
    }
    VT_TRY(s);
    plot_curves(j);
    printf("%s: model.safetensors,%s state.safetensors, log.jsonl; peak memory %.0f MB\n", j->t.out,
           j->t.watch_data ? " best.safetensors," : "", vt_resident_mb());
    return VT_OK;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static vt_train_job j;
    vt_status s = run_training(&j, c, e);
    vt_train_close(&j);
    return s;
}

static const vt_arg args[] = {
    VT_TRAIN_ARGS,
    {"from", "CKPT", "take the recipe from this checkpoint's metadata", VT_OF_RUN},
    {"dry-run", NULL, "print the resolved recipe, steps, work, hours here and memory; train nothing", VT_OF_RUN},
    VT_QUIET_ARG,
    {0},
};

const vt_command vt_command_train = {
    .name = "train",
    .summary = "train or harden a model by a recipe",
    .operands = "RECIPE.yaml",
    .max_operands = 1,
    .args = args,
    .details =
        "'vitrine help recipe' explains every key. DIR gets model.safetensors (the last weights), best.safetensors "
        "(the epoch that was best on the watched images), state.safetensors (for --resume), log.jsonl and curves.svg.",
    .examples = {"vitrine train recipes/shapes10_plain.yaml --data datasets/shapes10 --dry-run",
                 "vitrine train recipes/shapes10_plain.yaml --data datasets/shapes10 --max-steps 2 --out run",
                 "vitrine train recipes/shapes10_plain.yaml --data datasets/shapes10 --max-steps 4 --out run --resume"},
    .run = run,
    .ranks = true,
};
