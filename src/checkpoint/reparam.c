/* SPDX-License-Identifier: MIT */
/* Parametrised weights (weight_norm, spectral_norm, prune), multiplied out. */
#include "checkpoint/steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"

enum { PARTS = 3, NAME = 300 };

/* Numbers of the parts, in double; w's are overwritten by the product. */
typedef struct numbers {
    const vt_tensor *t[PARTS];
    double *x[PARTS];
} numbers;

/* Computes g v / ||v|| in place of v (n->x[1]), a length for each index of the one side that g has (dim 0 unless it was
 * chosen), or one for all. false: shapes do not fit. */
static bool weight_norm(numbers *n) {
    const vt_tensor *g = n->t[0], *v = n->t[1];
    size_t inner = 1, sides = 1;
    int side = -1;
    for (int i = 0; i < g->ndim; i++) {
        if (g->shape[i] == 1) continue;
        if (side >= 0 || g->ndim != v->ndim || g->shape[i] != v->shape[i]) return false;
        side = i, sides = (size_t)g->shape[i];
    }
    for (int i = side + 1; i < v->ndim; i++) inner *= (size_t)v->shape[i];
    const size_t whole = sides * inner;
    for (size_t k = 0; k < sides; k++) {
        double sum = 0;
        for (size_t at = k * inner; at < v->numel; at += whole)
            for (size_t i = at; i < at + inner; i++) sum += n->x[1][i] * n->x[1][i];
        for (size_t at = k * inner; at < v->numel; at += whole)
            for (size_t i = at; i < at + inner; i++) n->x[1][i] *= n->x[0][k] / sqrt(sum);
    }
    return true;
}

/* Computes W / (u^T W v) in place of W (n->x[1]), as in eval mode: u and v are the file's. false: shapes do not fit. */
static bool spectral_norm(numbers *n) {
    const vt_tensor *u = n->t[0], *w = n->t[1], *v = n->t[2];
    double sigma = 0;
    if (w->ndim < 2 || u->numel != (size_t)w->shape[0] || u->numel * v->numel != w->numel) return false;
    for (size_t i = 0; i < u->numel; i++)
        for (size_t k = 0; k < v->numel; k++) sigma += n->x[0][i] * n->x[1][i * v->numel + k] * n->x[2][k];
    for (size_t i = 0; i < w->numel; i++) n->x[1][i] /= sigma;
    return true;
}

/* Multiplies a weight (n->x[1]) by its mask. false: shapes do not fit. */
static bool apply_pruning_mask(numbers *n) {
    if (n->t[0]->numel != n->t[1]->numel) return false;
    for (size_t i = 0; i < n->t[1]->numel; i++) n->x[1][i] *= n->x[0][i];
    return true;
}

/* The second part is the one that becomes the weight. */
static const struct {
    const char *what, *parts[PARTS], *becomes;
    bool (*fold)(numbers *n);
} forms[] = {
    {"weight_norm", {"weight_g", "weight_v"}, "weight", weight_norm},
    {"weight_norm", {"parametrizations.weight.original0", "parametrizations.weight.original1"}, "weight", weight_norm},
    {"spectral_norm", {"weight_u", "weight_orig", "weight_v"}, "weight", spectral_norm},
    {"spectral_norm",
     {"parametrizations.weight.0._u", "parametrizations.weight.original", "parametrizations.weight.0._v"},
     "weight",
     spectral_norm},
    {"prune", {"weight_mask", "weight_orig"}, "weight", apply_pruning_mask},
    {"prune", {"bias_mask", "bias_orig"}, "bias", apply_pruning_mask},
};

typedef struct work {
    vt_tensors *st;
    bool *gone;           /* parts that are used up */
    const char **becomes; /* names to be */
    vt_err *e;
} work;

/* ---- one weight ---- */

/* Finds all parts of form k of the weight whose second part is t; false: it is none. */
static bool find_parts(const vt_tensors *st, const vt_tensor *t, size_t k, numbers *n) {
    size_t len = strlen(t->name), end = strlen(forms[k].parts[1]);
    if (len < end || len >= NAME || strcmp(t->name + len - end, forms[k].parts[1])) return false;
    for (int i = 0; i < PARTS && forms[k].parts[i]; i++) {
        char name[NAME + 60];
        snprintf(name, sizeof name, "%.*s%s", (int)(len - end), t->name, forms[k].parts[i]);
        if (!(n->t[i] = vt_tensors_find(st, name)) || !n->t[i]->numel) return false;
    }
    return true;
}

/* Reads the parts' numbers as doubles, malloc'ed. */
static vt_status read_parts(const vt_tensors *st, numbers *n, vt_err *e) {
    for (int i = 0; i < PARTS && n->t[i]; i++) {
        n->x[i] = malloc(n->t[i]->numel * sizeof **n->x);
        if (!n->x[i]) return vt_fail(e, VT_E_MEMORY, "%s: no memory for %.160s", st->path, n->t[i]->name);
        VT_TRY(vt_tensor_f64(st, n->t[i], n->x[i], n->t[i]->numel, e));
    }
    return VT_OK;
}

/* Stores the product in place of the second part, in float32, and marks the others as gone. Its name changes when all
 * have been looked up (w->becomes). */
static vt_status store_product(work *w, const numbers *n, size_t k) {
    vt_tensors *st = w->st;
    size_t place = (size_t)(n->t[1] - st->t), stem = strlen(n->t[1]->name) - strlen(forms[k].parts[1]);
    vt_tensor *t = &st->t[place];
    float *product = vt_tensors_take(st, t->numel * sizeof *product, w->e);
    const char *name = product ? vt_tensors_text(st, w->e, "%.*s%s", (int)stem, t->name, forms[k].becomes) : NULL;
    if (!name) return vt_fail(w->e, VT_E_MEMORY, "%s: no memory for %.160s", st->path, t->name);
    for (size_t i = 0; i < t->numel; i++) product[i] = (float)n->x[1][i];
    for (int i = 0; i < PARTS && n->t[i]; i++) w->gone[n->t[i] - st->t] = i != 1;
    t->data = product, t->dtype = VT_F32, w->becomes[place] = name;
    return VT_OK;
}

/* Multiplies out one weight of form k and frees the numbers of its parts. VT_E_SHAPE: they have no shapes of that
 * form. */
static vt_status fold_one_weight(work *w, numbers *n, size_t k) {
    vt_status s = read_parts(w->st, n, w->e);
    if (s == VT_OK && !forms[k].fold(n))
        s = vt_fail(w->e, VT_E_SHAPE,
                    "%s: tensors of %.160s have no shapes of %s: remove_%s(module) in PyTorch before saving",
                    w->st->path, n->t[1]->name, forms[k].what, forms[k].what);
    if (s == VT_OK) s = store_product(w, n, k);
    for (int i = 0; i < PARTS; i++) free(n->x[i]);
    return s;
}

/* ---- all of them ---- */

/* Fails with VT_E_FORMAT for parts that are not multiplied out, with what to do in PyTorch. */
static vt_status refuse_others(const vt_tensors *st, vt_err *e) {
    static const struct {
        const char *part, *says;
    } rows[] =
        {{"lora_", "is of a LoRA beside the weights: merge_and_unload() in PEFT before saving"},
         {".parametrizations.",
          "is parametrised: torch.nn.utils.parametrize.remove_parametrizations(module, name) in PyTorch before saving"},
         {"adapter", "is of an adapter beside the weights: merge it before saving, or evaluate the whole in PyTorch by "
                     "`vitrine eval " VT_OPTION "oracle`"}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int i = 0; i < st->count; i++)
            if (strstr(st->t[i].name, rows[r].part))
                return vt_fail(e, VT_E_FORMAT, "%s: tensor " VT_NAME " %s", st->path, st->t[i].name, rows[r].says);
    return VT_OK;
}

/* Multiplies out all weights and notes how many of each form. */
static vt_status fold_all(work *w) {
    char text[60];
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        int with = 0;
        for (int i = 0; i < w->st->count; i++) {
            numbers n = {{NULL}, {NULL}};
            if (w->gone[i] || w->becomes[i] || !find_parts(w->st, &w->st->t[i], k, &n)) continue;
            VT_TRY(fold_one_weight(w, &n, k));
            with++;
        }
        snprintf(text, sizeof text, "multiplied out in %d tensors", with);
        if (with) VT_TRY(vt_tensors_add_note(w->st, VT_NOTE_RENAMED, forms[k].what, text, w->e));
    }
    return VT_OK;
}

/* Renames the products and drops the other parts; then refuses parts that are not multiplied out. */
static vt_status drop_folded_tensors(work *w) {
    for (int i = 0; i < w->st->count; i++)
        if (w->becomes[i]) w->st->t[i].name = w->becomes[i];
    vt_tensors_drop(w->st, w->gone);
    VT_TRY(vt_tensors_index(w->st, w->e));
    return refuse_others(w->st, w->e);
}

vt_status vt_fold_parts(vt_tensors *st, vt_err *e) {
    work w = {.st = st, .e = e};
    w.gone = calloc((size_t)st->count + 1, sizeof *w.gone);
    w.becomes = calloc((size_t)st->count + 1, sizeof *w.becomes);
    vt_status s = w.gone && w.becomes ? fold_all(&w) : vt_fail(e, VT_E_MEMORY, "%s: no memory", st->path);
    if (s == VT_OK) s = drop_folded_tensors(&w);
    free(w.gone), free(w.becomes);
    return s;
}
