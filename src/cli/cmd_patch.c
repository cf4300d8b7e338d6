/* SPDX-License-Identifier: MIT */
/* vitrine patch: trains a universal patch. */
#include <stdlib.h>
#include <string.h>
#include "base/stats.h"
#include "cli/run_args.h"
#include "data/image.h"
#include "eval/result_index.h"
#include "eval/universal.h"

typedef struct job {
    vt_eval_options v;
    vt_universal u;
    int32_t *held_out;
    size_t n_held_out;
} job;

/* Drops images of the target class, which cannot be turned into it; refuses a list of which nothing is left. */
static vt_status drop_target_class(const job *j, int32_t *images, size_t *n, vt_err *e) {
    size_t kept = 0;
    int label;
    if (j->u.target < 0) return VT_OK;
    for (size_t i = 0; i < *n; i++) {
        VT_TRY(vt_subject_image(j->v.subject, images[i], NULL, &label, e));
        if (label != j->u.target) images[kept++] = images[i];
    }
    if (!kept) return vt_fail(e, VT_E_USAGE, "all %zu images are of class %d, the --target", *n, j->u.target);
    *n = kept;
    return VT_OK;
}

/* Reads --held-out; refuses an image that the training draws too. */
static vt_status read_held_out(job *j, const vt_cli *c, vt_err *e) {
    const char *text = vt_cli_get(c, "held-out");
    if (!text) return VT_OK;
    VT_TRY(vt_image_list(&j->held_out, &j->n_held_out, text, j->v.subject->data, e));
    for (size_t i = 0; i < j->n_held_out; i++)
        if (vt_image_place(j->v.images, j->v.n_images, j->held_out[i]) != SIZE_MAX)
            return vt_fail(e, VT_E_USAGE, "--held-out: image %d is trained on too (--images): give other images",
                           j->held_out[i]);
    return drop_target_class(j, j->held_out, &j->n_held_out, e);
}

/* Reads all options and opens data and model. */
static vt_status parse(job *j, const vt_cli *c, vt_err *e) {
    const char *rate = vt_cli_get(c, "rate"), *out = vt_cli_get(c, "out");
    long long steps, draws, target;
    vt_eval_options *v = &j->v;
    vt_cli_eval_options(v, c);
    if (!out || !vt_ends_in(out, ".png")) return vt_fail(e, VT_E_USAGE, "vitrine patch needs --out FILE.png");
    VT_TRY(vt_file_may_replace(out, "\x89PNG", e));
    VT_TRY(vt_file_writable(out, e));
    VT_TRY(vt_eval_options_read(v, e));
    if (!v->patch.size) return vt_fail(e, VT_E_USAGE, "vitrine patch needs --threat patch:size=N");
    VT_TRY(vt_cli_int(c, "steps", 0, 1000000, 500, &steps, e));
    VT_TRY(vt_cli_int(c, "draws", 1, 100000, 64, &draws, e));
    VT_TRY(vt_cli_int(c, "target", 0, INT32_MAX, -1, &target, e));
    j->u = (vt_universal){.v = v, .steps = (int)steps, .draws = (int)draws, .rate = 0.05, .target = (int)target};
    if (rate && !(vt_parse_real(rate, &j->u.rate) && j->u.rate > 0 && j->u.rate <= 1))
        return vt_fail(e, VT_E_USAGE, "--rate is '%.60s', must be above 0 and at most 1", rate);
    VT_TRY(vt_cli_eval_open(c, v, e));
    if (target >= vt_subject_classes(v->subject))
        return vt_fail(e, VT_E_USAGE, "--target is %lld, but the model has the classes 0 to %d", target,
                       vt_subject_classes(v->subject) - 1);
    VT_TRY(drop_target_class(j, v->own.images, &v->n_images, e));
    return read_held_out(j, c, e);
}

/* Writes the picture, complete or not at all. */
static vt_status write_picture(const vt_universal *u, const char *path, vt_err *e) {
    vt_image im;
    VT_TRY(vt_picture_open(&im, u->shape, path, e));
    vt_picture_fill(&im, u->picture, u->shape);
    vt_status s = vt_png_write(path, &im, e);
    vt_image_free(&im);
    return s;
}

/* Prints how many held-out images fall to u->picture. */
static vt_status print_success(const job *j, const char *what, vt_err *e) {
    int64_t right, fell;
    double low, high;
    VT_TRY(vt_universal_score(&j->u, j->held_out, j->n_held_out, &right, &fell, e));
    vt_wilson(fell, right, &low, &high);
    printf("%s: of %zu held-out images %lld are right, and %lld of these fall at a random place: %.1f %% [%.1f, "
           "%.1f]\n",
           what, j->n_held_out, (long long)right, (long long)fell, right ? 100 * (double)fell / (double)right : 0, low,
           high);
    return VT_OK;
}

/* Trains, writes and measures, after parse. */
static vt_status train_and_measure(job *j, const vt_cli *c, vt_err *e) {
    const char *out = vt_cli_get(c, "out");
    j->v.progress = vt_cli_progress(), j->v.interrupt = vt_cli_interruptible();
    vt_cli_hint_run(c, &j->v);
    VT_TRY(vt_universal_open(&j->u, e));
    if (j->n_held_out) VT_TRY(print_success(j, "noise, where training begins", e));
    if (j->u.steps) VT_TRY(vt_universal_train(&j->u, e));
    VT_TRY(write_picture(&j->u, out, e));
    if (j->n_held_out && j->u.steps) VT_TRY(print_success(j, out, e));
    printf("%s: %d x %d pixels, %d steps of %d draws from %zu images\n", out, j->u.shape.width, j->u.shape.height,
           j->u.steps, j->u.draws, j->v.n_images);
    return VT_OK;
}

static vt_status run(const vt_cli *c, vt_err *e) {
    static job j;
    vt_status s = parse(&j, c, e);
    if (s == VT_OK) s = train_and_measure(&j, c, e);
    vt_universal_close(&j.u);
    free(j.held_out);
    vt_eval_options_close(&j.v);
    return s;
}

static const vt_arg args[] = {
    VT_DATA_ARG,
    {"threat", "patch:size=N,count=N,aligned=0|1", "size, number and places of the squares that show the picture",
     VT_OF_THREAT},
    {"steps", "N", "steps of the training (default 500)", VT_OF_RUN},
    {"draws", "N", "images of a step, each at places of its own (default 64)", VT_OF_RUN},
    {"rate", "X", "by how much a value moves in the first step (default 0.05)", VT_OF_RUN},
    {"target", "CLASS", "the class to reach, by its number (default: any but an image's own)", VT_OF_ATTACK},
    VT_IMAGES_ARGS,
    {"held-out", "A:B|spread:N|FILE", "other images of the split, to print the success on", VT_OF_DATA},
    {"out", "FILE.png", "the picture to write", VT_OF_OUTPUT},
    VT_SEED_ARG,
    VT_THREADS_ARG,
    VT_QUIET_ARG,
    VT_WRAP_ARG,
    VT_ORACLE_ARGS,
    VT_MODEL_ARGS,
    {0},
};

const vt_command vt_command_patch = {
    .name = "patch",
    .summary = "train a universal patch: one picture that breaks images at any place",
    .operands = "WEIGHTS",
    .max_operands = 1,
    .args = args,
    .details = "Raises the mean margin of the other classes, or of --target, over --images and random places.\n"
               "--steps 0 writes the noise where training begins. Evaluate the picture on other\n"
               "images with vitrine eval --threat patch:size=N --attack universal --patch FILE.png (docs/attacks.md).",
    .examples =
        {"vitrine patch weights/shapes10-plain --data datasets/shapes10 --images 0:40 --held-out 40:60 --threat "
         "patch:size=8 --steps 20 --draws 16 --out patch.png",
         "vitrine eval weights/shapes10-plain --data datasets/shapes10 --images 40:60 --threat patch:size=8 "
         "--attack universal:places=3 --patch patch.png"},
    .run = run,
};
