/* SPDX-License-Identifier: MIT */
/* From the options of a training (eval/args.h: VT_TRAIN_ARGS) to its recipe, data and model. */
#include <stdio.h>
#include <string.h>
#include "eval/args.h"
#include "eval/prepare.h"
#include "tensors/tensors.h"
#include "train/train.h"

/* Reads the recipe in a checkpoint's metadata. */
static vt_status recipe_of_checkpoint(vt_recipe *r, const char *path, vt_err *e) {
    vt_tensors *st;
    VT_TRY(vt_tensors_open(&st, path, e));
    const char *text = vt_tensors_meta(st, "recipe");
    vt_status s = text ? vt_recipe_parse(r, text, strlen(text), path, e)
                       : vt_fail(e, VT_E_FORMAT, "%s: holds no recipe (it was not made by vitrine train)", path);
    vt_tensors_close(st);
    return s;
}

/* Refuses options that describe a checkpoint: without `init` the recipe's section model describes the network. */
static vt_status refuse_model_options(const vt_choices *c, vt_err *e) {
    static const vt_arg model_args[] = {VT_MODEL_ARGS, {0}};
    for (const vt_arg *a = model_args; a->name; a++)
        if (vt_is_chosen(c, a->name))
            return vt_fail(e, VT_E_USAGE,
                           "@%s says how the checkpoint of @init is read, and there is no @init: a model from scratch "
                           "is described by the recipe (@set model.KEY=VALUE)",
                           a->name);
    return VT_OK;
}

/* Sets the state dict to read from the option `part` or the recipe's init.part, and refuses two different ones. */
static vt_status read_part(vt_recipe *r, vt_overrides *o, vt_err *e) {
    char set[300];
    const char *pinned = r->init.part;
    if (o->part && *pinned && strcmp(o->part, pinned))
        return vt_fail(e, VT_E_USAGE, "@part is '%s', but the recipe's init.part is '%s'", o->part, pinned);
    if (!o->part && *pinned) o->part = pinned;
    if (!o->part) return VT_OK;
    snprintf(set, sizeof set, "init.part=%s", o->part);
    return vt_recipe_set(r, set, e);
}

/* Refuses a model.preset set by an option that is not the checkpoint's; notes it if the recipe has it. */
static vt_status check_preset(vt_train_job *j, const vt_choices *c, vt_err *e) {
    const char *set;
    vt_err why = {0};
    bool chosen = false;
    for (int i = 0; (set = vt_chosen_nth(c, "set", i)); i++) chosen |= !strncmp(set, "model.preset=", 13);
    vt_status s = vt_train_check_preset(j->recipe, j->init, &why);
    if (s == VT_OK) return VT_OK;
    if (chosen) return vt_fail(e, s, "%s", why.text);
    snprintf(j->note, sizeof j->note, "%.400s; the checkpoint's shape is taken", why.text);
    return VT_OK;
}

/* Opens the checkpoint of `init` and writes its hash into the recipe. */
static vt_status open_init(vt_train_job *j, const vt_choices *c, vt_known_fn known, void *ctx, vt_err *e) {
    const char *path = vt_chosen(c, "init");
    char *pinned = j->recipe->init.sha256;
    if (!path && *pinned)
        return vt_fail(e, VT_E_USAGE, "the recipe starts from the checkpoint with sha256 %s: name it with @init",
                       pinned);
    if (!path && *j->recipe->init.part)
        return vt_fail(e, VT_E_USAGE, "init.part is '%s', and there is no @init", j->recipe->init.part);
    if (!path) return refuse_model_options(c, e);
    vt_overrides o;
    VT_TRY(vt_prepare_overrides(c, &o, e));
    VT_TRY(read_part(j->recipe, &o, e));
    VT_TRY(vt_model_open(&j->init, path, &o, e));
    VT_TRY(known(ctx, j->init, false, e));
    VT_TRY(vt_train_check_hash(j->recipe, j->init, e));
    VT_TRY(check_preset(j, c, e));
    snprintf(pinned, sizeof j->recipe->init.sha256, "%s", j->init->sha256);
    return VT_OK;
}

vt_status vt_train_open(vt_train_job *j, const vt_choices *c, const char *recipe, const char *from, vt_known_fn known,
                        void *ctx, vt_err *e) {
    const char *set, *path = vt_chosen(c, "data");
    long long steps;
    VT_TRY(vt_chosen_int(c, "max-steps", 1, INT64_MAX, 0, &steps, e));
    VT_TRY(vt_recipe_new(&j->recipe, e));
    VT_TRY(recipe ? vt_recipe_read(j->recipe, recipe, e) : recipe_of_checkpoint(j->recipe, from, e));
    for (int i = 0; (set = vt_chosen_nth(c, "set", i)); i++) VT_TRY(vt_recipe_set(j->recipe, set, e));
    VT_TRY(open_init(j, c, known, ctx, e));
    VT_TRY(vt_recipe_resolve(j->recipe, e));
    const vt_recipe_probe *probe = &j->recipe->probe;
    VT_TRY(vt_dataset_open(&j->data, path, VT_SPLIT_TRAIN, e));
    if (probe->images && probe->split) VT_TRY(vt_dataset_open(&j->test, path, VT_SPLIT_TEST, e));
    VT_TRY(vt_extra_open(&j->extra, c, j->recipe, j->data, e));
    VT_TRY(vt_train_model(&j->model, j->recipe, j->data, j->init, e));
    j->t = (vt_train){.recipe = j->recipe,
                      .model = j->model,
                      .data = j->data,
                      .extra = &j->extra,
                      .watch_data = !probe->images ? NULL
                                    : j->test      ? j->test
                                                   : j->data,
                      .out = vt_chosen(c, "out"),
                      .resume = vt_is_chosen(c, "resume"),
                      .max_steps = steps};
    return VT_OK;
}

void vt_train_close(vt_train_job *j) {
    vt_model_close(j->model), vt_model_close(j->init);
    vt_dataset_close(j->data), vt_dataset_close(j->test), vt_extra_close(&j->extra);
    vt_recipe_free(j->recipe);
}
