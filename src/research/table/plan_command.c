/* SPDX-License-Identifier: MIT */
/* The command that makes a cell. */
#include "research/table/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct words {
    char **list;
    int n;
    bool ok;
} words;

/* Appends a printf'ed word; without memory w->ok becomes false. */
__attribute__((format(printf, 2, 3))) static void add_word(words *w, const char *format, ...) {
    char **more = realloc(w->list, (size_t)(w->n + 2) * sizeof *more), *text = NULL;
    va_list ap;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0) text = NULL;
    va_end(ap);
    if (more) w->list = more, more[w->n] = text, more[w->n + (text != NULL)] = NULL, w->n += text != NULL;
    if (!more) free(text);
    w->ok = w->ok && more && text;
}

/* Appends options as written in manifests, "attn-scale=dim", or "restrict-classes" for a flag, each with --. */
static void add_options(words *w, const vt_words *list) {
    for (int i = 0; i < list->n; i++) add_word(w, "--%s", list->word[i]);
}

/* vitrine train: recipe, data, init, and for a timing the steps. */
static void train_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    add_word(w, "train");
    add_word(w, "%s/cells/%s/recipe.yaml", p->out, c->hash);
    add_word(w, "--data"), add_word(w, "%s", p->data[c->data].path);
    if (r->init) add_word(w, "--init"), add_word(w, "%s", r->init);
    add_options(w, &r->init_options);
    if (c->timed) add_word(w, "--max-steps"), add_word(w, "%lld", (long long)c->timed + VT_TIME_FIRST);
}

const char *vt_plan_weights(const vt_plan *p, const vt_plan_cell *c) {
    const char *which = p->m->rows[c->row].weights;
    return which && !strcmp(which, "best") ? "run/best.safetensors" : "run/model.safetensors";
}

/* Appends the model that a cell evaluates: its training's weights or the row's checkpoint. */
static void model_word(words *w, const vt_plan *p, const vt_plan_cell *c) {
    if (c->model < 0)
        add_word(w, "%s", p->m->rows[c->row].checkpoint);
    else
        add_word(w, "%s/cells/%s/%s", p->out, p->cells[c->model].hash, vt_plan_weights(p, c));
}

/* vitrine eval: model, data, images, attack, seed and options. */
static void eval_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_manifest_data *d = &p->m->data[c->data];
    const vt_manifest_attack *a = &p->m->attacks[c->attack];
    const char *images = p->data[c->data].of[c->attack].text;
    add_word(w, "eval"), model_word(w, p, c);
    add_word(w, "--data"), add_word(w, "%s", p->data[c->data].path);
    if (images) add_word(w, "--images"), add_word(w, "%s", images);
    if (d->split) add_word(w, "--split"), add_word(w, "%s", d->split);
    if (a->spec) add_word(w, "--attack"), add_word(w, "%s", a->spec), add_word(w, "--eps"), add_word(w, "%s", a->eps);
    if (a->certify)
        add_word(w, "--certify"), add_word(w, "%s", a->certify), add_word(w, "--eps"), add_word(w, "%s", a->eps);
    if (a->norm) add_word(w, "--norm"), add_word(w, "%s", a->norm);
    add_word(w, "--seed"), add_word(w, "%llu", (unsigned long long)c->seed);
    add_word(w, "--no-selftest"); /* of whole evaluations; a table's cells are small */
    add_options(w, &d->options), add_options(w, &p->m->rows[c->row].options);
}

/* Whether an option of vitrine eval concerns images (how they are read or saved), not weights: spectrum has none. */
static bool is_image_option(const char *option) {
    static const char *const all[] = {"preprocess",  "attack-at", "restrict-classes",
                                      "class-order", "save-adv",  "save-npz"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcspn(option, "=") == strlen(all[i]) && !strncmp(option, all[i], strlen(all[i]))) return true;
    return false;
}

/* vitrine spectrum: model, the CSV in the cell's folder, and the row's options that are not about images. */
static void spectrum_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_words *own = &p->m->rows[c->row].options;
    add_word(w, "spectrum"), model_word(w, p, c);
    add_word(w, "--csv"), add_word(w, "%s/cells/%s/" VT_SPECTRUM_CSV, p->out, c->hash);
    for (int i = 0; i < own->n; i++)
        if (!is_image_option(own->word[i])) add_word(w, "--%s", own->word[i]);
}

char **vt_plan_command(const vt_plan *p, int cell, int threads) {
    const vt_plan_cell *c = &p->cells[cell];
    words w = {.ok = true};
    (c->spectrum ? spectrum_words : c->train || c->timed ? train_words : eval_words)(&w, p, c);
    if (!c->spectrum) add_word(&w, "--out"), add_word(&w, "%s/cells/%s/run", p->out, c->hash), add_word(&w, "--resume");
    add_word(&w, "--threads"), add_word(&w, "%d", threads);
    if (w.ok) return w.list;
    vt_plan_command_free(w.list);
    return NULL;
}

void vt_plan_command_free(char **list) {
    for (char **w = list; w && *w; w++) free(*w);
    free(list);
}
