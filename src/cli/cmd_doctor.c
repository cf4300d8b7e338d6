#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/run_args.h"
#include "core/threads.h"
#include "eval/doctor.h"
#include "eval/metrics.h"
#include "models/session.h"

enum { LEAST = 500, MOST = 8192, FIRST = 128, ROUNDS = 4 };

/* Images of a sample that --images does not name: as many as 2 TFLOP of forward passes are, within limits. */
static size_t sample_size(const vt_model *m) {
    double forward, gradient;
    vt_arch_find_f32(m->config.arch)->flops(&m->config, &forward, &gradient);
    double n = 2e12 / forward;
    return n < LEAST ? LEAST : n > MOST ? MOST : (size_t)n;
}

/* Everything a run holds; freed in one place. */
typedef struct job {
    vt_model *model;
    vt_dataset *data;
    int32_t *images, *sample;
    size_t n_images;
    vt_input_story story;
    vt_doctor d;
    vt_setting first; /* what was asked for */
    bool tty;
} job;

static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long threads;
    VT_TRY(vt_cli_int(c, "threads", 1, 1024, vt_cpu_count(), &threads, e));
    VT_TRY(vt_cli_data(c, &j->data, e));
    VT_TRY(vt_cli_images(c, j->data, &j->images, &j->n_images, e));
    VT_TRY(vt_cli_model_for(c, j->data, j->images[0], &j->model, e));
    VT_TRY(vt_cli_input(c, j->model, j->data, j->images[0], &j->story, e));
    VT_TRY(vt_dataset_fit_head(j->data, j->model->config.classes, false, j->model->path, e));
    size_t n = sample_size(j->model);
    if (vt_cli_has(c, "images") || n > j->n_images) n = j->n_images;
    if (!(j->sample = calloc(n, sizeof *j->sample))) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    vt_doctor_sample(j->sample, n, j->images, j->n_images);
    j->tty = isatty(STDERR_FILENO);
    j->first = (vt_setting){j->model->config, j->data->transform};
    j->d = (vt_doctor){.model = j->model,
                       .data = j->data,
                       .images = j->sample,
                       .n_images = n,
                       .first = FIRST,
                       .threads = (int)threads < (int)n ? (int)threads : (int)n,
                       .aspects = VT_ASPECT_ALL,
                       .progress = {.show = vt_cli_show, .ctx = &j->tty, .live = j->tty},
                       .interrupt = vt_cli_interruptible()};
    return VT_OK;
}

/* ---- what is printed ---- */

static void print_setting(const job *j) {
    const vt_config *c = &j->first.config;
    char text[64];
    printf("as it is: mean %.6g, %.6g, %.6g (%s), std %.6g, %.6g, %.6g (%s)\n", c->mean[0], c->mean[1], c->mean[2],
           j->model->source[VT_FIELD_MEAN], c->std[0], c->std[1], c->std[2], j->model->source[VT_FIELD_STD]);
    vt_transform_text(&j->first.transform, text, sizeof text);
    if (!vt_transform_is_none(&j->first.transform)) printf("preprocessing %s (%s)\n", text, j->story.from);
    printf("up to %zu of %lld images, spread evenly\n", j->d.n_images, (long long)j->data->count);
}

static void print_row(const vt_trial *t, const vt_setting *from) {
    char rate[40], gain[40] = "", options[400];
    double low, high;
    vt_wilson(t->right, t->images, &low, &high);
    snprintf(rate, sizeof rate, "[%.1f, %.1f]", low, high);
    vt_setting_options(options, sizeof options, &t->setting, from);
    if (t->aspect != VT_ASPECT_NONE) snprintf(gain, sizeof gain, "%+.4f +- %.4f", t->gain, t->error);
    printf("%-36s %6lld %7.2f %14s %7.1f %8.4f %8.4f", t->what, (long long)t->images,
           100 * (double)t->right / (double)t->images, rate, 100 * t->confidence, t->loss, t->best_loss);
    if (t->aspect == VT_ASPECT_NONE)
        printf("\n");
    else
        printf(" %18s %8.1e  %-9s  %s\n", gain, t->mcnemar, vt_judgement_name(t->judgement), options);
}

static void print_table(const job *j) {
    printf("\n%-36s %6s %7s %14s %7s %8s %8s %18s %8s  %-9s  %s\n", "", "images", "% right", "95 % interval", "conf. %",
           "loss", "at best", "gain", "McNemar", "", "options");
    for (int i = 0; i < j->d.n_trials; i++) print_row(&j->d.trials[i], &j->first);
}

/* What more images might decide. */
static void print_open(const vt_doctor *d, const vt_trial *better) {
    bool any = false;
    for (int i = 0; i < d->n_trials; i++) {
        const vt_trial *t = &d->trials[i];
        if (t == better || t->settled || t->aspect == VT_ASPECT_NONE || t->judgement != VT_JUDGE_UNDECIDED) continue;
        printf("%s%s", any ? "; " : "undecided on these images: ", t->what);
        any = true;
    }
    if (any) printf(" (--images takes more)\n");
    any = false;
    for (int i = 1; better && i < d->n_trials; i++) {
        const vt_trial *t = &d->trials[i];
        if (t->settled || t->aspect != better->aspect || t->judgement != VT_JUDGE_BETTER) continue;
        printf("%s%s", any ? "; " : "not told from the first: ", t->what);
        any = true;
    }
    if (any) printf("\n");
}

static void print_end(const job *j, const vt_setting *now, int changes) {
    char options[400], labels[400];
    const vt_trial *t = vt_doctor_present(&j->d);
    printf("\n");
    if (vt_doctor_labels(&j->d, t, labels, sizeof labels)) printf("%s\n", labels);
    if (!changes) {
        printf("nothing clearly better than the present setting was found\n");
        return;
    }
    vt_setting_options(options, sizeof options, now, &j->first);
    printf("use: %s\n", options);
}

/* ---- rounds ---- */

/* One change after the other, the best first, until nothing is clearly better; an aspect is changed once. */
static vt_status examine(job *j, vt_err *e) {
    vt_setting now = j->first;
    int changes = 0;
    print_setting(j);
    for (;; changes++) {
        VT_TRY(vt_doctor_round(&j->d, &now, e));
        const vt_trial *better = vt_doctor_better(&j->d);
        if (!changes || better) print_table(j);
        print_open(&j->d, better);
        if (!better || changes == ROUNDS) break;
        printf("%s: %s\n", changes ? "and on top of that" : "clearly better", better->what);
        now = better->setting;
        j->d.aspects &= ~(1u << better->aspect);
    }
    print_end(j, &now, changes);
    return VT_OK;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = parse(&j, c, e);
    if (s == VT_OK) s = examine(&j, e);
    if (s == VT_INTERRUPTED) s = vt_fail(e, s, "interrupted");
    vt_doctor_free(&j.d);
    free(j.images), free(j.sample);
    vt_dataset_close(j.data);
    vt_model_close(j.model);
    return s;
}

static const vt_arg args[] = {
    {"data", "FOLDER", "labelled images that the model should know"},
    {"images", "A:B|FILE", "as in eval (default: 500 to 8192 by the model's size, spread evenly)"},
    {"split", "test|train", "which split (default test)"},
    {"preprocess", "TEXT", "the present preprocessing, as in eval"},
    VT_ATTACK_AT_ARG,
    {"threads", "N", "threads (default all cores); never changes a result"},
    VT_MODEL_ARGS,
    {NULL, NULL, NULL},
};

const vt_command vt_command_doctor = {
    .name = "doctor",
    .summary = "is the preprocessing right? tries the usual ones on labelled images",
    .operands = "WEIGHTS",
    .min_operands = 1,
    .max_operands = 1,
    .args = args,
    .details = "Tried, one change at a time and then combined: mean and std, pixels 0 to 255, channel order, resize "
               "and crop,\n"
               "LayerNorm eps, attention scale, activation, a distilled model's heads; labels are checked for another "
               "numbering.\n"
               "'gain' is how much the mean loss (nats) falls against the present setting on the same images, each "
               "setting at\n"
               "its best temperature (docs/images.md); 'better' and 'worse' hold with 1 % error over the whole table.",
    .run = run,
};
