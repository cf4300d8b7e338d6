/* SPDX-License-Identifier: MIT */
/* What cells cost, from shapes alone: products are counted, everything else is a few per cent beside them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "attacks/attack.h"
#include "models/arch.h"
#include "models/model.h"
#include "research/table/plan.h"
#include "train/recipe.h"
#include "train/train.h"

/* Sets each of the words ("key=value") in the recipe. */
static vt_status set_all(vt_recipe *r, const vt_words *w, vt_err *e) {
    for (int i = 0; i < w->n; i++) VT_TRY(vt_recipe_set(r, w->word[i], e));
    return VT_OK;
}

/* Sets the words of a YAML scalar or list in the recipe; NULL: none. */
static vt_status set_node(vt_recipe *r, const vt_yaml_node *x, vt_err *e) {
    if (x && x->kind == VT_YAML_SCALAR) return vt_recipe_set(r, x->value, e);
    for (int i = 0; x && i < x->n; i++) VT_TRY(vt_recipe_set(r, x->items[i].value, e));
    return VT_OK;
}

/* Sets r to a row's recipe on a data set, resolved: its file, the settings of data, row, and row on these data, the
 * seed. VT_E_USAGE for a wrong word, or the file's failure. */
static vt_status build_recipe(const vt_plan *p, const vt_plan_cell *c, vt_recipe *r, vt_err *e) {
    const vt_manifest_row *row = &p->m->rows[c->row];
    char seed[40];
    snprintf(seed, sizeof seed, "seed=%llu", (unsigned long long)c->seed);
    VT_TRY(vt_recipe_read(r, row->recipe, e));
    VT_TRY(set_all(r, &p->m->data[c->data].set, e));
    VT_TRY(set_all(r, &row->set, e));
    if (row->set_for) VT_TRY(set_node(r, vt_yaml_get(row->set_for, p->m->data[c->data].name), e));
    VT_TRY(vt_recipe_set(r, seed, e));
    VT_TRY(vt_recipe_resolve(r, e));
    if (!r->probe.images && row->weights && !strcmp(row->weights, "best"))
        return vt_fail(e, VT_E_USAGE, "weights is best, but probe.images is 0: no epoch is known to be the best");
    return VT_OK;
}

/* d, *count: the training images' shape, classes and number, declared or read; false if one is unknown. */
static bool training_images(const vt_plan *p, int data, vt_train_images *d, int64_t *count) {
    const vt_manifest_data *m = &p->m->data[data];
    const vt_dataset *t = p->data[data].train;
    *d = (vt_train_images){.path = p->data[data].path,
                           .side = (int)m->side,
                           .classes = t ? t->classes : (int)m->classes};
    *count = t ? t->count : m->train;
    vt_image im = {0};
    int label;
    if (t && !d->side && vt_dataset_read(t, 0, &im, &label, NULL) == VT_OK) d->side = vt_shape_side(im.shape);
    vt_image_free(&im);
    return d->side > 0 && d->classes > 0 && *count > 0;
}

/* Returns the bytes of a training's files: weights, averages and optimiser state, beside model and best. */
static double checkpoint_bytes(const vt_config *c) {
    enum { COPIES = 6 };
    vt_param_list l = {0};
    double numbers = 0;
    vt_arch_find(c->arch)->params(&l, c);
    for (int i = 0; i < l.count; i++) numbers += (double)l.items[i].numel;
    vt_param_list_free(&l);
    return 4.0 * COPIES * numbers;
}

/* Sets *out to the checkpoint that a row starts from, owned by the plan, read once; NULL: none, or missing. */
static vt_status inspect_init(const vt_plan *p, int row, const vt_model **out, vt_err *e) {
    const char *path = p->m->rows[row].init;
    *out = NULL;
    if (!path || access(path, F_OK) != 0) return VT_OK;
    for (int i = 0; i < p->m->n_rows && !*out; i++)
        if (p->inits[i] && !strcmp(p->m->rows[i].init, path)) *out = p->inits[i];
    if (*out) return VT_OK;
    VT_TRY(vt_model_inspect(&p->inits[row], path, &(vt_overrides){0}, e));
    *out = p->inits[row];
    return VT_OK;
}

/* Sets *config to the shape that a recipe trains on images d: its preset's, or else that of its initial checkpoint;
 * fails if it is no shape that the program computes. */
static vt_status trained_shape(vt_config *config, const vt_plan *p, int row, const vt_recipe *r,
                               const vt_train_images *d, vt_err *e) {
    const vt_model *init = NULL;
    if (!*r->model.preset) VT_TRY(inspect_init(p, row, &init, e));
    VT_TRY(vt_train_config(config, r, d, init, e));
    return vt_config_check(config, NULL, e);
}

vt_status vt_plan_recipe(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    vt_recipe *r;
    vt_config config;
    vt_train_images d;
    vt_err why = {0};
    int64_t count;
    double step;
    VT_TRY(vt_recipe_new(&r, e));
    vt_status s = build_recipe(p, c, r, &why);
    if (s == VT_OK && !(c->recipe = vt_recipe_text(r))) s = VT_E_MEMORY;
    if (s == VT_OK && training_images(p, c->data, &d, &count)) {
        s = trained_shape(&config, p, c->row, r, &d, &why);
        if (s == VT_OK) s = vt_train_flops(&step, r, &config, &why);
        if (s == VT_OK) {
            double steps = c->timed ? (double)c->timed + VT_TIME_FIRST : (double)(count / r->top.batch) * r->top.epochs;
            c->tflop = step * steps * 1e-12;
            c->disk = checkpoint_bytes(&config);
        }
    }
    vt_recipe_free(r);
    if (s == VT_OK) return VT_OK;
    return vt_fail(e, s == VT_E_MEMORY ? s : VT_E_USAGE, "%s: row %s on %s: %s", p->m->path, p->m->rows[c->row].name,
                   p->m->data[c->data].name, *why.text ? why.text : "no memory");
}

/* config: the shape that is evaluated, a training's or the checkpoint's; false if it cannot be known. */
static bool evaluated_shape(const vt_plan *p, const vt_plan_cell *c, vt_config *config) {
    const vt_manifest_row *row = &p->m->rows[c->row];
    vt_train_images d;
    vt_recipe *r;
    vt_model *m;
    int64_t count;
    bool ok = false;
    if (row->recipe) {
        if (!training_images(p, c->data, &d, &count) || vt_recipe_new(&r, NULL) != VT_OK) return false;
        ok = build_recipe(p, c, r, NULL) == VT_OK && trained_shape(config, p, c->row, r, &d, NULL) == VT_OK;
        vt_recipe_free(r);
        return ok;
    }
    if (access(row->checkpoint, F_OK) != 0 || vt_model_open(&m, row->checkpoint, &(vt_overrides){0}, NULL) != VT_OK)
        return false;
    *config = m->config;
    vt_model_close(m);
    return true;
}

vt_status vt_plan_evaluation(const vt_plan *p, vt_plan_cell *c, vt_err *e) {
    const vt_manifest_attack *a = &p->m->attacks[c->attack];
    vt_config config;
    vt_attack attack;
    vt_norm norm = VT_LINF;
    (void)e;
    int64_t n = p->data[c->data].of[c->attack].n;
    if (!n || !evaluated_shape(p, c, &config)) return VT_OK;
    double forward, gradient, each;
    vt_arch_find(config.arch)->flops(&config, true, &forward, &gradient);
    each = forward;
    c->disk = 2000.0 * (double)n; /* a line of the ledger for each stage, and reports */
    if (a->spec) {
        if (a->norm && !vt_norm_find(a->norm, &norm)) return VT_OK; /* evaluation_key reports it */
        if (vt_attack_parse(&attack, a->spec, norm, NULL) != VT_OK) return VT_OK;
        vt_cost_dims dims = {.classes = config.classes, .layers = config.depth, .norm = norm};
        vt_passes passes = vt_attack_cost(&attack, &dims);
        each += passes.forwards * forward + passes.gradients * gradient; /* no image costs more, most cost less */
        c->disk += 4.0 * 3 * vt_config_input(&config) * vt_config_input(&config) * (double)n; /* adv.bin, at most */
        vt_attack_free(&attack);
    }
    c->tflop = each * (double)n * 1e-12;
    return VT_OK;
}
