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

__attribute__((format(printf, 2, 3))) static void word(words *w, const char *format, ...) {
    char **more = realloc(w->list, (size_t)(w->n + 2) * sizeof *more), *text = NULL;
    va_list ap;
    va_start(ap, format);
    if (vasprintf(&text, format, ap) < 0) text = NULL;
    va_end(ap);
    if (more) w->list = more, more[w->n] = text, more[w->n + (text != NULL)] = NULL, w->n += text != NULL;
    if (!more) free(text);
    w->ok = w->ok && more && text;
}

/* Options as written in manifests, "attn-scale=dim", or "restrict-classes" for a flag. */
static void add_options(words *w, const vt_words *list) {
    for (int i = 0; i < list->n; i++) word(w, "--%s", list->word[i]);
}

static void train_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_manifest_row *r = &p->m->rows[c->row];
    word(w, "train");
    word(w, "%s/cells/%s/recipe.yaml", p->out, c->hash);
    word(w, "--data"), word(w, "%s", p->data[c->data].path);
    if (r->init) word(w, "--init"), word(w, "%s", r->init);
    add_options(w, &r->init_options);
    if (c->timed) word(w, "--max-steps"), word(w, "%lld", (long long)c->timed + VT_TIME_FIRST);
}

const char *vt_plan_weights(const vt_plan *p, const vt_plan_cell *c) {
    const char *which = p->m->rows[c->row].weights;
    return which && !strcmp(which, "best") ? "run/best.safetensors" : "run/model.safetensors";
}

static void model_word(words *w, const vt_plan *p, const vt_plan_cell *c) {
    if (c->model < 0)
        word(w, "%s", p->m->rows[c->row].checkpoint);
    else
        word(w, "%s/cells/%s/%s", p->out, p->cells[c->model].hash, vt_plan_weights(p, c));
}

static void eval_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_manifest_data *d = &p->m->data[c->data];
    const vt_manifest_attack *a = &p->m->attacks[c->attack];
    const char *images = p->data[c->data].of[c->attack].text;
    word(w, "eval"), model_word(w, p, c);
    word(w, "--data"), word(w, "%s", p->data[c->data].path);
    if (images) word(w, "--images"), word(w, "%s", images);
    if (d->split) word(w, "--split"), word(w, "%s", d->split);
    if (a->spec) word(w, "--attack"), word(w, "%s", a->spec), word(w, "--eps"), word(w, "%s", a->eps);
    if (a->norm) word(w, "--norm"), word(w, "%s", a->norm);
    word(w, "--seed"), word(w, "%llu", (unsigned long long)c->seed);
    word(w, "--no-selftest"); /* of whole evaluations; a table's cells are small */
    add_options(w, &d->options), add_options(w, &p->m->rows[c->row].options);
}

/* Options of vitrine eval that say how images are read, and nothing of the weights. */
static bool of_images(const char *option) {
    static const char *const all[] = {"preprocess",  "attack-at", "restrict-classes",
                                      "class-order", "save-adv",  "save-npz"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcspn(option, "=") == strlen(all[i]) && !strncmp(option, all[i], strlen(all[i]))) return true;
    return false;
}

static void spectrum_words(words *w, const vt_plan *p, const vt_plan_cell *c) {
    const vt_words *own = &p->m->rows[c->row].options;
    word(w, "spectrum"), model_word(w, p, c);
    word(w, "--csv"), word(w, "%s/cells/%s/" VT_SPECTRUM_CSV, p->out, c->hash);
    for (int i = 0; i < own->n; i++)
        if (!of_images(own->word[i])) word(w, "--%s", own->word[i]);
}

char **vt_plan_command(const vt_plan *p, int cell, int threads) {
    const vt_plan_cell *c = &p->cells[cell];
    words w = {.ok = true};
    (c->spectrum ? spectrum_words : c->train || c->timed ? train_words : eval_words)(&w, p, c);
    if (!c->spectrum) word(&w, "--out"), word(&w, "%s/cells/%s/run", p->out, c->hash), word(&w, "--resume");
    word(&w, "--threads"), word(&w, "%d", threads);
    if (w.ok) return w.list;
    vt_plan_command_free(w.list);
    return NULL;
}

void vt_plan_command_free(char **list) {
    for (char **w = list; w && *w; w++) free(*w);
    free(list);
}
