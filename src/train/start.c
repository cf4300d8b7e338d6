/* SPDX-License-Identifier: MIT */
/* From the options of a training (eval/args.h: VT_TRAIN_ARGS) to its recipe, data and model; the model before the first
 * step, and what a run will cost in work and memory. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/text.h"
#include "eval/args.h"
#include "eval/prepare.h"
#include "models/arch.h"
#include "models/forms.h"
#include "tensors/tensors.h"
#include "train/batch.h"
#include "train/train.h"
#include "train/update.h"
#include "train/validation.h"

/* Sets *side to the pixels a side of the data set's images, by the first. VT_E_SHAPE: no square RGB. */
static vt_status square_image_side(const vt_dataset *d, int *side, vt_err *e) {
    vt_image im = {0};
    int label;
    VT_TRY(vt_dataset_read(d, 0, &im, &label, e));
    vt_status s = VT_OK;
    *side = vt_shape_side(im.shape);
    if (im.shape.channels != 3)
        s = vt_fail(e, VT_E_SHAPE, "%s: image 0 is " VT_CHW ", training needs square images of three channels", d->path,
                    VT_CHW_OF(im.shape));
    else if (!*side)
        s = vt_fail(e, VT_E_SHAPE, "%s: image 0 is %d x %d pixels, training needs square images", d->path,
                    im.shape.width, im.shape.height);
    vt_image_free(&im);
    return s;
}

/* Sets c's image, native and native_filter: the input is as large as the images, unless the model resizes them itself
 * (model.native). VT_E_USAGE: the recipe says another side. */
static vt_status input_side(vt_config *c, const vt_recipe_model *m, const vt_train_images *d, vt_err *e) {
    bool resizes = m->native > 0 || (m->native < 0 && c->native);
    int side = d->side, wanted = m->native > 0 ? m->native : resizes ? 0 : m->image;
    if (wanted && wanted != side)
        return vt_fail(e, VT_E_USAGE, "model.%s is %d, but the images of %s are %d pixels wide",
                       m->native > 0 ? "native" : "image", wanted, d->path, side);
    if (!resizes || m->image) c->image = resizes ? m->image : side;
    c->native = resizes && side != c->image ? side : 0;
    if (m->native_filter >= 0) c->native_filter = (vt_native_filter)m->native_filter;
    return VT_OK;
}

vt_status vt_train_config(vt_config *c, const vt_recipe *r, const vt_train_images *d, const vt_model *init, vt_err *e) {
    const vt_recipe_model *m = &r->model;
    if (init) {
        *c = init->config;
    } else {
        const vt_preset *p;
        VT_TRY(vt_preset_named(*m->preset ? m->preset : "vit_cifar_dim192_depth9", &p, e));
        vt_preset_config(p, c);
    }
    c->patch_order = VT_PATCH_CONV, c->qkv_rows = VT_QKV_ROWS, c->class_last = false,
    c->embed_scale = 0; /* the file's */
    int old_dim = c->dim;
    VT_TRY(input_side(c, m, d, e));
    if (m->classes && m->classes != d->classes)
        return vt_fail(e, VT_E_USAGE, "model.classes is %d, but %s has %d classes", m->classes, d->path, d->classes);
    c->classes = d->classes;
    if (m->patch) c->patch = m->patch;
    if (m->dim && m->dim != old_dim) c->dim = m->dim, c->hidden = 4 * m->dim;
    if (m->depth) c->depth = m->depth;
    if (m->dim && m->dim != old_dim) c->heads = m->dim >= 64 && m->dim % 64 == 0 ? m->dim / 64 : 1;
    if (m->heads) c->heads = m->heads;
    if (m->hidden) c->hidden = m->hidden;
    if (m->qkv_bias >= 0) c->qkv_bias = m->qkv_bias;
    if (m->pool >= 0) c->pool = (vt_pool)m->pool;
    if (c->pool == VT_POOL_TOKEN) c->norm_first = false;
    if (*m->forms) VT_TRY(vt_form_parse(c, m->forms, "model.forms", e));
    const char *of_file = vt_forms_of_file(c);
    if (of_file)
        return vt_fail(e, VT_E_USAGE, "model.forms: %s says how a checkpoint is read; this one is made", of_file);
    if (m->patch_gate) c->patch_gate = true;
    if (*m->attn) strcpy(c->attn, m->attn);
    if (m->has_norm) memcpy(c->mean, m->mean, sizeof m->mean), memcpy(c->std, m->std, sizeof m->std);
    if (!init) c->attn_scale = 1 / sqrt((double)vt_config_attn_dim(c) / c->heads);
    return VT_OK;
}

vt_status vt_train_check_hash(const vt_recipe *r, const vt_model *init, vt_err *e) {
    const char *expected = r->init.sha256;
    if (!strncmp(expected, init->sha256, strlen(expected))) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s has sha256 %s, but the recipe starts from %s", init->path, init->sha256,
                   expected);
}

vt_status vt_train_check_preset(const vt_recipe *r, const vt_model *init, vt_err *e) {
    const vt_config *c = &init->config;
    const vt_preset *p;
    if (!*r->model.preset) return VT_OK;
    VT_TRY(vt_preset_named(r->model.preset, &p, e));
    if (!strcmp(p->arch, c->arch) && p->dim == c->dim && p->depth == c->depth && p->hidden == c->hidden) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s is a %s of width %d, depth %d and MLP %d, but model.preset %s is a %s of width %d, depth %d and "
                   "MLP %d",
                   init->path, c->arch, c->dim, c->depth, c->hidden, p->name, p->arch, p->dim, p->depth, p->hidden);
}

/* Copies the model's shape into the recipe, so that the stored recipe is complete; init: clears its preset. */
static void write_back(vt_recipe_model *m, const vt_config *c, bool init) {
    if (init) *m->preset = 0; /* it decided nothing */
    snprintf(m->attn, sizeof m->attn, "%s", c->attn);
    m->image = c->image, m->patch = c->patch, m->dim = c->dim, m->depth = c->depth, m->heads = c->heads;
    m->hidden = c->hidden, m->classes = c->classes, m->qkv_bias = c->qkv_bias, m->pool = (int)c->pool;
    m->patch_gate = c->patch_gate, m->has_norm = true;
    m->native = c->native, m->native_filter = (int)c->native_filter;
    memcpy(m->mean, c->mean, sizeof m->mean), memcpy(m->std, c->std, sizeof m->std);
}

/* Writes the names of the class folders, a line each. */
static void write_class_names(FILE *f, const void *dataset) {
    const vt_dataset *d = dataset;
    for (int k = 0; k < d->classes; k++) {
        for (const char *c = d->names[k]; *c; c++) fputc((unsigned char)*c < ' ' ? ' ' : *c, f);
        fputc('\n', f);
    }
}

/* Sets m->labels, the names of its outputs: those of the class folders, else those of the weights that it starts from;
 * left NULL if neither has as many. */
static vt_status name_outputs(vt_model *m, const vt_dataset *d, const vt_model *init, vt_err *e) {
    int classes = m->config.classes;
    if (d->names)
        return d->classes == classes ? vt_text_of(&m->labels, write_class_names, d, "the class names", e) : VT_OK;
    if (!init || !init->labels || init->config.classes != classes) return VT_OK;
    m->labels = strdup(init->labels);
    return m->labels ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for the names of %d classes", classes);
}

/* Freezes the tensors that a word without numbers names; false: there are none. */
static bool freeze_word(vt_model *m, const char *word) {
    size_t n = strlen(word);
    bool any = false;
    for (int i = 0; i < m->params.count; i++) {
        vt_param *p = &m->params.items[i];
        bool fits = !strcmp(word, "embed") ? p->layer == 0
                    : strpbrk(word, "*?[") ? !fnmatch(word, p->name, 0)
                                           : !strncmp(p->name, word, n) && (!p->name[n] || p->name[n] == '.');
        p->buffer |= fits, any |= fits;
    }
    return any;
}

/* Freezes the tensors that any word names; false: none. "blocks.0-5": blocks.0 to blocks.5, all must be there. */
static bool freeze_words(vt_model *m, const char *word) {
    const char *dot = strrchr(word, '.');
    char one[sizeof((vt_recipe_top *)0)->freeze + 24];
    int first, last, n = 0;
    if (!dot || sscanf(dot, ".%d-%d%n", &first, &last, &n) < 2 || dot[n]) return freeze_word(m, word);
    bool all = first <= last;
    for (int k = first; k <= last && all; k++) {
        snprintf(one, sizeof one, "%.*s.%d", (int)(dot - word), word, k);
        all = freeze_word(m, one);
    }
    return all;
}

/* Marks the tensors of recipe.freeze as such that no training moves: they have no gradient, no optimiser's state and no
 * part in the clipped norm. Words, separated by commas: embed (what comes before the blocks), the beginning of names up
 * to a dot (blocks, head), with numbers (blocks.3, blocks.0-5), or a pattern (fnmatch: *.bias). A word that no tensor
 * fits, and a recipe that freezes all, are refused. */
static vt_status freeze_tensors(vt_model *m, const vt_recipe *r, vt_err *e) {
    char words[sizeof r->top.freeze], *save = NULL;
    int left = 0;
    snprintf(words, sizeof words, "%s", r->top.freeze);
    for (char *w = strtok_r(words, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
        if (!freeze_words(m, w))
            return vt_fail(e, VT_E_USAGE,
                           "freeze: '%s' is no layer and fits no tensor of this model of %d blocks (from 0)", w,
                           m->config.depth);
    }
    for (int i = 0; i < m->params.count; i++) left += !m->params.items[i].buffer;
    return left ? VT_OK : vt_fail(e, VT_E_USAGE, "freeze: '%s' leaves nothing to train", r->top.freeze);
}

vt_status vt_train_model(vt_model **out, vt_recipe *r, const vt_dataset *data, const vt_model *init, vt_err *e) {
    vt_config c;
    vt_train_images d = {.path = data->path, .classes = data->classes};
    VT_TRY(square_image_side(data, &d.side, e));
    VT_TRY(vt_train_config(&c, r, &d, init, e));
    VT_TRY(vt_model_new(out, &c, e));
    vt_status s =
        init ? vt_adapt(*out, init, &r->init, (uint64_t)r->top.seed, e) : vt_model_init(*out, (uint64_t)r->top.seed);
    if (s != VT_OK && !init) vt_fail(e, s, "no memory for the first weights");
    if (s == VT_OK) s = name_outputs(*out, data, init, e);
    if (s == VT_OK) s = vt_model_prepare(*out, e);
    if (s == VT_OK) s = freeze_tensors(*out, r, e);
    if (s != VT_OK) {
        vt_model_close(*out);
        *out = NULL;
    } else {
        write_back(&r->model, &c, init != NULL);
    }
    return s;
}

/* Fails with VT_E_SHAPE for penalties that do not fit the model; adds the bytes that they take to *bytes. */
static vt_status check_penalties(size_t *bytes, const vt_recipe *r, const vt_model *m, vt_err *e) {
    const vt_penalty_def_f32 *p;
    const void *params;
    for (int i = 0; (p = vt_next_penalty(r, &i, &params));) {
        if (p->check) VT_TRY(p->check(params, m, e));
        if (p->state_len) *bytes += p->state_len(params, m) * sizeof(float);
        if (p->work_len) *bytes += p->work_len(params, m) * sizeof(float);
    }
    return VT_OK;
}

/* Fails with VT_E_USAGE for groups that name no tensor of the model, and PRM patches that do not divide the image. */
static vt_status check_keys(const vt_recipe *r, const vt_model *m, vt_err *e) {
    if (vt_objective_find_f32(r->top.objective)->bounds) {
        char what[48];
        snprintf(what, sizeof what, "objective %s", r->top.objective);
        VT_TRY(vt_bounds_check_f32(m, what, e));
    }
    for (int i = 0; i < r->n_groups; i++) {
        bool fits = false;
        for (int k = 0; k < m->params.count && !fits; k++)
            fits = fnmatch(r->groups[i].pattern, m->params.items[k].name, 0) == 0;
        if (!fits)
            return vt_fail(e, VT_E_USAGE, "groups.%s: no tensor of this model has such a name", r->groups[i].pattern);
    }
    const vt_config *c = &m->config;
    int side = r->attack.prm_patch, input = vt_config_input(c);
    if (r->attack.prm && side && input % side)
        return vt_fail(e, VT_E_USAGE, "attack.prm_patch is %d, must divide the image's side (%d)", side, input);
    if (r->attack.prm && !side && c->patch * input % c->image)
        return vt_fail(e, VT_E_USAGE,
                       "attack.prm_patch must be given: a patch of %d in %d pixels is no whole number of the %d pixels "
                       "that are attacked",
                       c->patch, c->image, input);
    return VT_OK;
}

vt_status vt_train_flops(double *flops, const vt_recipe *r, const vt_config *c, vt_err *e) {
    const vt_objective_def_f32 *o = vt_objective_find_f32(r->top.objective);
    double forward, gradient;
    vt_arch_find(c->arch)->flops(c, false, &forward, &gradient);
    /* a training pass is a forward and twice that backward, for each view */
    *flops = (double)r->top.batch * 3 * forward * vt_views_f32(o) * (r->awp.gamma > 0 ? 2 - r->awp.warmup : 1);
    if (o->bounds) *flops *= 3; /* bounds: centres and radii */
    if (o->inner == VT_INNER_NONE) return VT_OK;
    vt_attack a;
    VT_TRY(vt_attack_parse(&a, r->attack.spec, (vt_norm)r->attack.norm, e));
    vt_cost_dims dims = {.classes = c->classes, .layers = c->depth, .norm = (vt_norm)r->attack.norm};
    vt_passes passes = vt_attack_cost(&a, &dims);
    vt_attack_free(&a);
    if (o->inner == VT_INNER_PREDICTION)
        passes.forwards++; /* at the clean image, for what the attack moves away from */
    *flops += (double)r->top.batch * ((passes.forwards - passes.unread) * forward + passes.gradients * gradient);
    return VT_OK;
}

vt_status vt_train_measure(vt_train_plan *p, const vt_train *t, vt_err *e) {
    const vt_recipe *r = t->recipe;
    const vt_model *m = t->model;
    size_t penalties = 0;
    VT_TRY(check_keys(r, m, e));
    VT_TRY(check_penalties(&penalties, r, m, e));
    p->watched = t->watch_data ? vt_validation_count(r, t->watch_data) : 0;
    p->images = t->data->count - (t->watch_data && t->watch_data->split == VT_SPLIT_TRAIN ? p->watched : 0);
    p->per_epoch = p->images / r->top.batch;
    p->steps = p->per_epoch * r->top.epochs;
    if (!p->per_epoch)
        return vt_fail(e, VT_E_USAGE, "batch is %d, but %s has %lld images to train on%s", r->top.batch, t->data->path,
                       (long long)p->images,
                       p->images < t->data->count ? " (the others are held out: probe.images)" : "");
    p->bytes = (m->params.total + m->params.t_total) * sizeof(float) +
               vt_batch_bytes(r, m, t->threads, vt_team_size(t->team)) + vt_update_bytes(m, r, t->threads) + penalties +
               (p->watched ? vt_validation_bytes(r, m, t->threads) : 0) + vt_sampler_bytes(p->images, t->extra);
    return vt_train_flops(&p->flops, r, &m->config, e);
}

/* ---- a training by its options ---- */

/* Applies the recipe in a checkpoint's metadata to r. VT_E_FORMAT: it has none. */
static vt_status recipe_of_checkpoint(vt_recipe *r, const char *path, vt_err *e) {
    vt_tensors *st;
    VT_TRY(vt_tensors_open(&st, path, e));
    const char *text = vt_tensors_meta(st, "recipe");
    vt_status s = text ? vt_recipe_parse(r, text, strlen(text), path, e)
                       : vt_fail(e, VT_E_FORMAT, "%s: holds no recipe (it was not made by vitrine train)", path);
    vt_tensors_close(st);
    return s;
}

/* Fails with VT_E_USAGE for options that describe a checkpoint: without `init` the recipe's section model describes the
 * network. */
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

/* Sets the state dict to read, o->part and the recipe's init.part, by the option `part` or init.part. VT_E_USAGE: two
 * different ones. */
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

/* Fails with VT_E_USAGE for a model.preset set by an option that is not the checkpoint's; notes it in j->note if the
 * recipe has it. */
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

/* Opens the checkpoint of `init` as j->init and writes its hash into the recipe; nothing without that option.
 * VT_E_USAGE: the recipe names another, or options ask for one. */
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

/* Fails with VT_E_USAGE if the training of checkpoint `from` read its initial checkpoint by options that are not given
 * now, so that this would be another network; a key of model in `set` asks for one. */
static vt_status check_same_reading(const vt_train_job *j, const vt_choices *c, const char *from, vt_err *e) {
    char own[VT_MODEL_TEXT], text[VT_MODEL_TEXT] = "", changed[300];
    const char *set;
    vt_tensors *st;
    vt_model *m;
    for (int i = 0; (set = vt_chosen_nth(c, "set", i)); i++)
        if (!strncmp(set, "model.", 6)) return VT_OK;
    VT_TRY(vt_tensors_open(&st, from, e));
    const char *stored = vt_tensors_meta(st, "model"); /* of a state; weights have it in their own metadata */
    if (stored) snprintf(text, sizeof text, "%s", stored);
    vt_tensors_close(st);
    if (!*text) {
        VT_TRY(vt_model_inspect(&m, from, &(vt_overrides){0}, e));
        vt_train_model_text(text, sizeof text, &m->config);
        vt_model_close(m);
    }
    vt_train_model_text(own, sizeof own, &j->model->config);
    vt_recipe_diff(text, own, changed, sizeof changed);
    if (!*changed) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s was trained with other options: %s: give these as well", from, changed);
}

/* Fails with VT_E_SHAPE if the first image of a set that is not data's is none of the model's input. */
static vt_status check_first_images(const vt_train_job *j, vt_err *e) {
    vt_image im;
    int label;
    for (int i = -1; i < j->extra.n; i++) {
        const vt_dataset *d = i < 0 ? j->test : j->extra.sets[i];
        if (d) VT_TRY(vt_dataset_read_as(d, 0, vt_shape_rgb(vt_config_input(&j->model->config)), &im, &label, e));
        if (d) vt_image_free(&im);
    }
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
    if (!recipe && j->init) VT_TRY(check_same_reading(j, c, from, e));
    VT_TRY(check_first_images(j, e));
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
