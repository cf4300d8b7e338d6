/* SPDX-License-Identifier: MIT */
/* vitrine doctor: tries other readings of a checkpoint on labelled images and says which fit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cli/cli.h"
#include "cli/doctor_against.h"
#include "cli/run_args.h"
#include "base/stats.h"
#include "base/text.h"
#include "eval/doctor/doctor.h"
#include "eval/doctor/doctor_logits.h"
#include "models/arch.h"
#include "checkpoint/provenance.h"

/* ---- against saved logits ---- */

/* What is compared, and with what. */
typedef struct logits_job {
    const vt_cli *c;
    const char *path; /* of the logits */
    vt_saved_logits saved;
    int threads;
    vt_model *model; /* that part of the file whose match is r */
    vt_logits_match r;
    char part[120]; /* where it is not the one that is usually read; else "" */
} logits_job;

/* The checkpoint as it is read for images of this shape, which tell the side where nothing else does. */
static vt_status open_for(logits_job *j, const char *part, vt_err *e) {
    vt_overrides o;
    const vt_saved_logits *s = &j->saved;
    VT_TRY(vt_cli_overrides(j->c, &o, e));
    if (part) o.part = part;
    if (s->shape.height == s->shape.width) o.shown = s->shape.width;
    VT_TRY(vt_model_open(&j->model, j->c->positional[0], &o, e));
    vt_shape want = vt_config_shape(&j->model->config);
    if (!vt_shape_same(s->shape, want))
        return vt_fail(e, VT_E_USAGE, "%s: x has images of " VT_CHW ", the model takes " VT_CHW, j->path,
                       VT_CHW_OF(s->shape), VT_CHW_OF(want));
    if (s->classes == j->model->config.classes) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s: logits of %d classes, the model has %d", j->path, s->classes,
                   j->model->config.classes);
}

/* Opens the checkpoint's part (NULL: the usual one) and searches the reading that gives the saved logits, into j->r. */
static vt_status match_logits(logits_job *j, const char *part, vt_err *e) {
    static bool tty;
    static vt_doctor d;
    VT_TRY(open_for(j, part, e));
    const vt_setting present = {.config = j->model->config};
    tty = isatty(STDERR_FILENO);
    d = (vt_doctor){.model = j->model,
                    .threads = j->threads,
                    .aspects = VT_ASPECT_ALL,
                    .progress = {.show = vt_cli_show, .ctx = &tty, .live = tty},
                    .interrupt = vt_cli_interruptible()};
    return vt_doctor_logits(&j->r, &d, &j->saved, &present, e);
}

/* Tries the other state dicts of a file that holds several, as timm's scripts evaluate the average; *j becomes the
 * first whose logits are equal. */
static vt_status match_others(logits_job *j, vt_err *e) {
    char list[400], *save = NULL;
    snprintf(list, sizeof list, "%s", j->model->parts);
    for (char *part = strtok_r(list, ", ", &save); part && !j->r.equal; part = strtok_r(NULL, ", ", &save)) {
        logits_job other = *j;
        vt_err why = {0};
        if (!strcmp(part, j->model->part)) continue;
        other.model = NULL;
        snprintf(other.part, sizeof other.part, "%s", part);
        vt_status s = match_logits(&other, part, &why);
        bool better = s == VT_OK && other.r.equal;
        vt_model_close(better ? j->model : other.model);
        if (better) *j = other;
        if (s == VT_E_MEMORY || s == VT_INTERRUPTED) return vt_fail(e, s, "%s", why.text); /* else it is no model */
    }
    return VT_OK;
}

/* Fails with VT_E_NUMERIC and a sentence that says how near the nearest reading came. */
static vt_status no_reading(const logits_job *j, vt_err *e) {
    const vt_logits_match *r = &j->r;
    bool rounded = !j->saved.precise && r->difference < 0.02 * j->saved.span;
    return vt_fail(e, VT_E_NUMERIC,
                   "%s: no reading fits: of %d tried%s the nearest differs by %.3g, where logits span %.3g%s: the "
                   "network computes what no option says, or these are logits of other weights or of a model in "
                   "training mode; vitrine eval --oracle evaluates it in its own program (docs/oracle.md)",
                   j->path, r->tried, r->all ? "" : ", as many as time allows,", r->difference, j->saved.span,
                   rounded ? " (half precision or TF32 may explain it: save from model.eval().double())" : "");
}

/* Prints which reading gives the saved logits and the options that select it. VT_E_NUMERIC: none does. */
static vt_status print_match(const logits_job *j, vt_err *e) {
    const vt_saved_logits *s = &j->saved;
    const vt_logits_match *r = &j->r;
    const vt_setting first = {.config = j->model->config};
    char options[1000], changed[400], part[140] = "", names[300] = "";
    if (*j->part) snprintf(part, sizeof part, "--part %s ", j->part);
    if (vt_cli_get(j->c, "names")) snprintf(names, sizeof names, "--names %s ", vt_cli_get(j->c, "names"));
    vt_setting_options(changed, sizeof changed, &r->setting, &first, NULL, VT_OPEN);
    vt_setting_options(options, sizeof options, &r->setting, &first, j->model, VT_OPEN);
    printf("%d images and logits of %d classes, %s; the logits span %.3g\n", s->n, s->classes,
           s->precise ? "computed in double" : "in float32", s->span);
    if (*changed || !r->equal) printf("%sas it is: differs by %.3g\n", part, r->present);
    if (!r->equal) {
        if (*changed) printf("nearest: %s: differs by %.3g\n", changed, r->difference);
        return no_reading(j, e);
    }
    printf("%s%s%s: equal within %.2g: this reading is proven on %d image%s\n",
           *changed || *part ? "with " : "as it is", part, changed, r->difference, s->n, s->n > 1 ? "s" : "");
    if (*r->also)
        printf("these logits do not tell it from: %s%s\n", r->also,
               s->precise ? "" : " (logits of model.double() may)");
    if (*options || *part) printf("use: %s%s\n", part, options);
    vt_setting_options(options, sizeof options, &r->setting, &first, j->model, VT_ASSUMED);
    if (*options || *part)
        printf("a copy that assumes nothing: vitrine convert %s COPY.safetensors %s%s%s\n", j->model->path, names, part,
               options);
    return VT_OK;
}

/* Finds the reading of a checkpoint that gives the saved logits. VT_E_NUMERIC: none does. */
static vt_status run_logits(const vt_cli *c, vt_err *e) {
    static const char *const others[] = {"data", "images", "split", "seed", "preprocess", "attack-at", "oracle"};
    static logits_job j;
    long long threads;
    const char *weights;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (vt_cli_has(c, others[i]))
            return vt_fail(e, VT_E_USAGE, "--logits brings images of its own for a checkpoint: leave --%s out",
                           others[i]);
    VT_TRY(vt_cli_weights(c, &weights, e));
    VT_TRY(vt_cli_threads(c, &threads, e));
    j = (logits_job){.c = c, .path = vt_cli_get(c, "logits"), .threads = (int)threads};
    vt_status s = vt_saved_logits_read(&j.saved, j.path, e);
    if (s == VT_OK) s = match_logits(&j, NULL, e);
    if (s == VT_OK && !j.r.equal && *j.model->parts && !vt_cli_has(c, "part")) s = match_others(&j, e);
    if (s == VT_OK) s = print_match(&j, e);
    vt_saved_logits_free(&j.saved);
    vt_model_close(j.model);
    return s;
}

/* ---- on labelled images ---- */

enum { LEAST = 128, MOST = 1024, ROUNDS = 5, FEW = 30 };
#define ENOUGH (2.0 / 3) /* of the images: what is right on fewer at best may be read wrongly still */

/* Images of a sample that --images does not name: as many as 2 TFLOP of forward passes are, within limits. */
static size_t sample_size(const vt_model *m) {
    double forward, gradient;
    vt_arch_find(m->config.arch)->flops(&m->config, true, &forward, &gradient);
    return (size_t)fmin(fmax(2e12 / forward, LEAST), MOST);
}

/* Everything a run holds; freed in one place. */
typedef struct job {
    vt_subject subject;
    int32_t *images, *sample;
    size_t n_images;
    vt_doctor d;
    vt_setting first; /* what was asked for */
    char found[300];  /* what was clearly better, one after the other */
    char drawn[60];   /* how the sample was chosen */
    bool tty, verbose;
} job;

/* Reads the options, opens data and model, and chooses the sample of images. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    long long threads, seed;
    VT_TRY(vt_cli_threads(c, &threads, e));
    VT_TRY(vt_cli_int(c, "seed", 0, INT64_MAX, 0, &seed, e));
    const char *weights;
    vt_subject *s = &j->subject;
    VT_TRY(vt_cli_weights(c, &weights, e));
    if (!vt_cli_has(c, "data"))
        return vt_fail(e, VT_E_USAGE,
                       "vitrine doctor needs --data FOLDER, or better --logits FILE.npz, which four lines of Python "
                       "save (vitrine help doctor)");
    VT_TRY(vt_cli_data(c, &s->data, e));
    VT_TRY(vt_cli_images(c, s->data, &j->images, &j->n_images, e));
    VT_TRY(vt_subject_open(s, &c->given, weights, j->images[0], e));
    VT_TRY(vt_subject_fit(s, &c->given, j->images[0], e));
    vt_cli_say_data(c, s->data, j->images, j->n_images);
    vt_shape shape = vt_subject_shape(s);
    if (shape.channels != 3)
        return vt_fail(e, VT_E_USAGE,
                       "vitrine doctor tries what is done to red, green and blue: the model %.300s takes " VT_CHW,
                       s->model->path, VT_CHW_OF(shape));
    if (s->remote) vt_remote_interruptible(s->remote, vt_cli_interruptible());
    size_t n = vt_cli_has(c, "images") ? j->n_images : s->remote ? MOST : sample_size(s->model);
    if (!(j->sample = calloc(n, sizeof *j->sample))) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    const bool drawn = vt_cli_has(c, "seed");
    n = drawn ? vt_doctor_draw(j->sample, n, j->images, j->n_images, (uint64_t)seed)
              : vt_doctor_sample(j->sample, n, j->images, j->n_images);
    snprintf(j->drawn, sizeof j->drawn, drawn ? "drawn with seed %lld" : "spread evenly", seed);
    j->tty = isatty(STDERR_FILENO), j->verbose = vt_cli_has(c, "verbose");
    j->first = (vt_setting){s->model->config, s->data->transform};
    for (int k = 0; k < 3 && s->remote; k++) j->first.config.std[k] = 1; /* pixels as they are */
    j->d = (vt_doctor){.model = s->model,
                       .remote = s->remote,
                       .data = s->data,
                       .images = j->sample,
                       .n_images = n,
                       .threads = (int)threads < (int)n ? (int)threads : (int)n,
                       .progress = {.show = vt_cli_show, .ctx = &j->tty, .live = j->tty},
                       .interrupt = vt_cli_interruptible()};
    return VT_OK;
}

/* ---- what is printed ---- */

/* Prints the present setting and how many images are tried. */
static void print_setting(const job *j) {
    const vt_config *c = &j->first.config;
    char text[64];
    if (j->subject.remote)
        printf("as it is: %s gets pixels in [0,1] and does the rest itself\n",
               vt_remote_handshake(j->subject.remote)->name);
    else
        printf("as it is: mean %.6g, %.6g, %.6g (%s), std %.6g, %.6g, %.6g (%s)\n", c->mean[0], c->mean[1], c->mean[2],
               j->subject.model->source[VT_FIELD_MEAN], c->std[0], c->std[1], c->std[2],
               j->subject.model->source[VT_FIELD_STD]);
    vt_transform_text(&j->first.transform, text, sizeof text);
    if (!vt_transform_is_none(&j->first.transform)) printf("preprocessing %s (%s)\n", text, j->subject.input.from);
    printf("%zu of %lld images, %s\n", j->d.n_images, (long long)j->subject.data->count, j->drawn);
}

static double percent_right(const job *j, const vt_trial *t) { return 100 * (double)t->right / (double)j->d.n_images; }

/* Writes the options that turn the setting that was asked for into another, and those of m's values that are open; of
 * a model in another process what it would have to do. */
static const char *describe_setting(const job *j, const vt_setting *to, const vt_model *m, char *buf, size_t size) {
    if (j->subject.remote)
        vt_setting_words(buf, size, to, &j->first);
    else
        vt_setting_options(buf, size, to, &j->first, m, VT_OPEN);
    return buf;
}

/* Prints a trial's row, within 80 columns. */
static void print_row(const job *j, const vt_trial *t) {
    printf("%-37.37s %7.2f", t->what, percent_right(j, t));
    if (t->aspect != VT_ASPECT_NONE)
        printf(" %+6lld %6lld %8.1e  %s", (long long)t->only_here, -(long long)t->only_there, t->mcnemar,
               vt_judgement_name(t->judgement));
    printf("\n");
    if (!j->verbose || t->aspect == VT_ASPECT_NONE) return;
    char options[400];
    printf("    %s\n", describe_setting(j, &t->setting, NULL, options, sizeof options));
}

/* The present setting, what is better, and what a test of it alone would call better. */
static bool is_worth_showing(const vt_trial *t) {
    return t->aspect == VT_ASPECT_NONE || t->judgement >= VT_JUDGE_AS_GOOD ||
           (t->only_here > t->only_there && t->mcnemar <= 0.05);
}

/* Prints the trials that are worth showing (--verbose: all) and how many are left out. */
static void print_table(const job *j) {
    int left_out = 0;
    bool open = false;
    printf("\n%-37s %7s %6s %6s %8s\n", "", "% right", "gained", "lost", "p");
    for (int i = 0; i < j->d.n_trials; i++) {
        const vt_trial *t = &j->d.trials[i];
        const bool shown = j->verbose || is_worth_showing(t);
        open = open || (t->aspect != VT_ASPECT_NONE && is_worth_showing(t) && t->judgement != VT_JUDGE_BETTER);
        if (shown) print_row(j, t);
        left_out += !shown;
    }
    if (left_out) printf("%d others are not better (--verbose shows them)\n", left_out);
    if (open) printf("undecided or as good: more images may tell (--images)\n");
}

/* Prints what to do if even the best reading is doubtful: at chance, where a small gain is noise, or right on less than
 * two thirds with 95 % confidence. */
static void print_way(const job *j) {
    if (vt_doctor_pixels_alone(&j->d)) return;
    printf("no reading that was tried fits, unless PyTorch is right as seldom.\n"
           "--logits FILE.npz proves a reading (vitrine help doctor); where each value came\n"
           "from says vitrine info %s;\n"
           "vitrine eval --oracle evaluates the network in its own program\n",
           j->subject.model->path);
}

/* Prints the conclusion: renumbered labels, chance level, or the setting `now` that was found and its options. */
static void print_end(const job *j, const vt_setting *now) {
    char options[700], labels[400];
    const vt_trial *t = vt_doctor_present(&j->d);
    const bool remote = j->subject.remote != NULL, renumbered = vt_doctor_labels(&j->d, t, labels, sizeof labels);
    double low, high;
    vt_wilson(t->right, (int64_t)j->d.n_images, &low, &high);
    printf("\n");
    if (renumbered) printf("%s\n", labels);
    if (!renumbered && vt_doctor_chance(t->right, (int64_t)j->d.n_images, j->d.outputs)) {
        printf("the model does not know these images: %.1f %% are right at best, where guessing is right on %.3g %%\n",
               percent_right(j, t), 100.0 / j->d.outputs);
        if (t->constant) printf("constant logits: it answers all of them alike\n");
        print_way(j);
        return;
    }
    const bool doubtful = !renumbered && high < 100 * ENOUGH;
    printf(!*j->found ? "nothing clearly better than the present setting was found\n"
           : doubtful ? "better, but not right: %s\n"
                      : "clearly better: %s\n",
           j->found);
    if (*describe_setting(j, now, j->subject.model, options, sizeof options))
        printf("%s: %s\n", remote ? "its process is to take" : doubtful ? "with" : "use", options);
    if (doubtful)
        printf("%.1f %% [%.1f, %.1f] are right at best, far below what trained weights\n"
               "give, unless training was adversarial\n",
               percent_right(j, t), low, high);
    if (doubtful) print_way(j);
}

/* ---- rounds ---- */

/* Applies one change after the other, the best first, until none is clearly better, and prints each round; an aspect is
 * changed once, except the network, of which a later round may tell more. */
static vt_status find_best_setting(job *j, vt_err *e) {
    vt_setting now = j->first;
    char why[200];
    print_setting(j);
    j->d.aspects = 0;
    VT_TRY(vt_doctor_round(&j->d, &now, e));
    if (vt_doctor_blind(&j->d, FEW, why, sizeof why)) {
        print_table(j);
        printf("\n%s\n", why);
        return VT_OK;
    }
    j->d.aspects = VT_ASPECT_ALL;
    for (int changes = 0;; changes++) {
        VT_TRY(vt_doctor_round(&j->d, &now, e));
        const vt_trial *better = changes < ROUNDS ? vt_doctor_better(&j->d) : NULL;
        if (!changes || better) print_table(j);
        if (!better) break;
        printf("then, on top of: %s\n", better->what);
        vt_text_item(j->found, sizeof j->found, "; on top of that: ", "%s", better->what);
        now = better->setting;
        j->d.aspects &= ~(1u << better->aspect) | 1u << VT_ASPECT_NETWORK;
    }
    print_end(j, &now);
    return VT_OK;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    if (vt_cli_has(c, "against")) return vt_cli_doctor_against(c, e);
    if (vt_cli_has(c, "logits")) return run_logits(c, e);
    j = (job){0};
    vt_status s = parse(&j, c, e);
    if (s == VT_OK && !j.subject.remote) vt_cli_say_assumed(j.subject.model);
    if (s == VT_OK) s = find_best_setting(&j, e);
    if (s == VT_INTERRUPTED) s = vt_fail(e, s, "interrupted");
    vt_doctor_free(&j.d);
    free(j.images), free(j.sample);
    vt_subject_close(&j.subject);
    return s;
}

static const vt_arg args[] = {
    {"logits", "FILE.npz", "x and logits as PyTorch gives them (below): finds the reading that gives the same",
     VT_OF_DATA},
    {"against", "FILE.onnx", "or: the authors' own export: names the first layer that computes something else",
     VT_OF_DATA},
    {"data", "FOLDER", "or: labelled images that the model should know", VT_OF_DATA},
    {"images", "A:B|spread:N|FILE", "as in eval (default: 128 to 1024 by the model's size, spread evenly)", VT_OF_DATA},
    VT_SPLIT_ARG,
    VT_CLASS_ORDER_ARG,
    {"seed", "N", "other images, drawn at random: does the answer hold?", VT_OF_RUN},
    {"preprocess", "TEXT", "the present preprocessing, as in eval", VT_OF_DATA},
    {"verbose", NULL, "every trial, with its options", VT_OF_OUTPUT},
    VT_ATTACK_AT_ARG,
    VT_THREADS_ARG,
    VT_ORACLE_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_doctor = {
    .name = "doctor",
    .summary = "is a checkpoint read as it was made? against logits of PyTorch, or on labelled images",
    .operands = "WEIGHTS",
    .max_operands = 1,
    .args = args,
    .details =
        "The sure way is --logits: four lines of Python, in which net(x) takes pixels in [0,1] and does what you do to "
        "them, mean and std included (net = lambda x: model((x - mean) / std)):\n"
        "\n"
        "    import numpy, torch\n"
        "    model.eval().double(); x = torch.rand(8, 3, 32, 32)  # or images of yours\n"
        "    with torch.no_grad(): z = net(x.double())\n"
        "    numpy.savez('logits.npz', x=x.numpy(), logits=z.numpy())\n"
        "\n"
        "vitrine doctor WEIGHTS --logits logits.npz then says whether this reading gives these logits, to rounding, or "
        "which options do. Exit status 1: none that it tries.\n"
        "\n"
        "On labelled images (--data) it says what fits better. Tried, one change at a time and then combined: number "
        "of heads, pre- or post-norm and GELU or ReLU (each with each), pooling, LayerNorm eps, attention scale, a "
        "distilled model's heads, the file's order of rows (qkv, class token); mean and std, pixels 0 to 255, channel "
        "order, resize and crop. Labels are checked for another numbering. 'gained' are images that are right under "
        "this setting alone, 'lost' under the present one alone, p is McNemar's; 'better' and 'worse' hold with 1 % "
        "error over the whole table. Of a model in another process (--oracle) mean and std, 0 to 255, channels, resize "
        "and labels: what its process would have to take.",
    .examples = {"vitrine doctor weights/shapes10-vit --data datasets/shapes10 --images 0:60",
                 "vitrine doctor weights/shapes10-vit --data datasets/shapes10 --images 0:60 --heads 4"},
    .run = run,
};
