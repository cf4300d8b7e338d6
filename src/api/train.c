/* SPDX-License-Identifier: MIT */
/* vitrine_train: a training by its options, as the command's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "api/api.h"
#include "parallel/threads.h"
#include "eval/args.h"
#include "eval/prepare.h"
#include "train/train.h"

static const vt_arg known_options[] = {{"recipe", "FILE", "the recipe", VT_OF_RUN}, VT_TRAIN_ARGS, {0}};
static const vt_arg model_options[] = {VT_MODEL_ARGS, {0}};

/* Everything that the call holds; freed in one place. */
typedef struct job {
    vt_api_options options;
    vt_recipe *recipe;
    vt_dataset *data, *test;
    vt_extra extra;
    vt_model *init, *model;
    const vitrine_listener *listener;
} job;

static vt_status get_required_option(const vt_choices *c, const char *name, const char **out, vt_err *e) {
    *out = vt_chosen(c, name);
    return *out ? VT_OK : vt_fail(e, VT_E_USAGE, "vitrine_train needs the option %s", name);
}

static vt_status read_init(job *j, vt_err *e) {
    const char *path = vt_chosen(&j->options.c, "init");
    char *on_verdict = j->recipe->init.sha256;
    vt_overrides o;
    if (!path && *on_verdict)
        return vt_fail(e, VT_E_USAGE, "the recipe starts from the checkpoint with sha256 %s: name it as init",
                       on_verdict);
    for (const vt_arg *a = model_options; !path && a->name; a++)
        if (vt_is_chosen(&j->options.c, a->name))
            return vt_fail(e, VT_E_USAGE, "%s says how the checkpoint `init` is read, and there is none", a->name);
    if (!path) return VT_OK;
    VT_TRY(vt_prepare_overrides(&j->options.c, &o, e));
    if (!o.part && *j->recipe->init.part) o.part = j->recipe->init.part;
    VT_TRY(vt_model_open(&j->init, path, &o, e));
    VT_TRY(vt_api_known_say(j->init, j->listener, e));
    if (*on_verdict && strcmp(on_verdict, j->init->sha256))
        return vt_fail(e, VT_E_USAGE, "%s has sha256 %s, but the recipe starts from %s", path, j->init->sha256,
                       on_verdict);
    snprintf(on_verdict, sizeof j->recipe->init.sha256, "%s", j->init->sha256);
    return VT_OK;
}

static vt_status read_all(job *j, const char **out, vt_err *e) {
    const vt_choices *c = &j->options.c;
    const char *recipe, *data, *set;
    VT_TRY(get_required_option(c, "recipe", &recipe, e));
    VT_TRY(get_required_option(c, "data", &data, e));
    VT_TRY(get_required_option(c, "out", out, e));
    VT_TRY(vt_recipe_new(&j->recipe, e));
    VT_TRY(vt_recipe_read(j->recipe, recipe, e));
    for (int i = 0; (set = vt_chosen_nth(c, "set", i)); i++) VT_TRY(vt_recipe_set(j->recipe, set, e));
    VT_TRY(read_init(j, e));
    VT_TRY(vt_recipe_resolve(j->recipe, e));
    VT_TRY(vt_dataset_open(&j->data, data, VT_SPLIT_TRAIN, e));
    if (j->recipe->probe.images && j->recipe->probe.split) VT_TRY(vt_dataset_open(&j->test, data, VT_SPLIT_TEST, e));
    VT_TRY(vt_extra_open_chosen(&j->extra, c, j->recipe, j->data, e));
    return vt_train_model(&j->model, j->recipe, j->data, j->init, e);
}

static vt_status run_training(job *j, const char *const *options, const vitrine_listener *l, vt_err *e) {
    const char *out;
    long long steps, asked;
    int threads;
    VT_TRY(vt_api_options_read(&j->options, "vitrine_train", options, known_options, e));
    VT_TRY(vt_chosen_int(&j->options.c, "threads", 0, VT_THREADS_MOST, 0, &asked, e));
    VT_TRY(vt_chosen_int(&j->options.c, "max-steps", 1, INT64_MAX, 0, &steps, e));
    VT_TRY(vt_api_threads(NULL, (int)asked, &threads, e));
    j->listener = l;
    VT_TRY(read_all(j, &out, e));
    const vt_dataset *watched = j->test ? j->test : j->data;
    vt_train t = {.recipe = j->recipe,
                  .model = j->model,
                  .data = j->data,
                  .extra = &j->extra,
                  .watch_data = j->recipe->probe.images ? watched : NULL,
                  .out = out,
                  .threads = threads,
                  .resume = vt_is_chosen(&j->options.c, "resume"),
                  .max_steps = steps,
                  .interrupt = l ? l->interrupt : NULL};
    if (l && l->say) t.say = vt_api_say, t.say_ctx = (void *)(uintptr_t)l, t.live = true;
    vt_status s = vt_train_run(&t, e);
    return s == VT_INTERRUPTED && !(t.interrupt && *t.interrupt) ? VT_OK : s; /* max-steps: as it was asked */
}

vitrine_status vitrine_train(const char *const *options, const vitrine_listener *listener, vitrine_err *e) {
    VT_API_NEEDS(options);
    VT_API_SIZED(listener, "the listener's size", vitrine_listener);
    vt_err why = {0};
    job *j = calloc(1, sizeof *j);
    vt_status s = j ? run_training(j, options, listener, &why) : vt_fail(&why, VT_E_MEMORY, "no memory for a training");
    if (j) {
        vt_model_close(j->model), vt_model_close(j->init);
        vt_dataset_close(j->data), vt_dataset_close(j->test), vt_extra_close(&j->extra);
        vt_recipe_free(j->recipe);
        vt_api_options_free(&j->options);
    }
    free(j);
    return vt_api_end(e, s, &why);
}
