/* SPDX-License-Identifier: MIT */
/* The classifier and other linear layers of a state dict, made canonical. */
#include "checkpoint/steps.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/text.h"
#include "models/detect.h"
#include "tensors/tensors.h"

enum { LAYERS = 16, NAME = 200 };

/* A layer below head., by its tensors. */
typedef struct part_of_head {
    char name[NAME]; /* "head.1" */
    const vt_tensor *weight, *bias, *mean, *var;
    bool folded; /* into the classifier after it: its tensors are dropped */
} part_of_head;

typedef struct work {
    vt_tensors *st;
    vt_names_row *rows;
    int n_rows;
    const char *root; /* what the classifier is called: "head", of a Swin "head.fc" */
    part_of_head layers[LAYERS];
    int n;
    char *assumed; /* [VT_HEAD_ASSUMED] */
    vt_err *e;
} work;

static vt_status no_memory(const work *w) { return vt_fail(w->e, VT_E_MEMORY, "%s: no memory", w->st->path); }

/* Returns tensor "LAYER.PART", or NULL. */
static const vt_tensor *find_layer_tensor(const vt_tensors *st, const char *layer, const char *part) {
    char name[NAME + 20];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return vt_tensors_find(st, name);
}

/* Appends a phrase to w->assumed, what no tensor tells of the head. */
static void append_assumption(work *w, const char *what) {
    vt_text_item(w->assumed, VT_HEAD_ASSUMED, ", ", "%s", what);
}

/* Renames tensor "FROM.PART" to "TO.PART", in the rows of the file too, and indexes the names again; VT_OK without
 * effect if there is none. */
static vt_status rename_part(work *w, const char *from, const char *to, const char *part) {
    const vt_tensor *t = find_layer_tensor(w->st, from, part);
    if (!t) return VT_OK;
    const char *name = vt_tensors_text(w->st, w->e, "%s.%s", to, part);
    if (!name) return no_memory(w);
    for (int i = 0; i < w->n_rows; i++)
        if (w->rows[i].became && !strcmp(w->rows[i].became, t->name)) w->rows[i].became = name;
    w->st->t[t - w->st->t].name = name;
    return vt_tensors_index(w->st, w->e);
}

/* Renames a layer's weight and bias. */
static vt_status rename_layer(work *w, const char *from, const char *to) {
    if (!strcmp(from, to)) return VT_OK;
    VT_TRY(rename_part(w, from, to, "weight"));
    return rename_part(w, from, to, "bias");
}

/* Adds tensor "LAYER.bias" of `outputs` float32 numbers; data NULL: zeros. Indexes the names again, so pointers to
 * tensors are then stale. */
static vt_status add_bias(work *w, const char *layer, size_t outputs, const float *data) {
    vt_tensor t = {.dtype = VT_F32, .ndim = 1, .shape = {(int64_t)outputs}, .numel = outputs, .data = data};
    float *zeros = data ? NULL : vt_tensors_take(w->st, outputs * sizeof *zeros, w->e);
    if (zeros) memset(zeros, 0, outputs * sizeof *zeros), t.data = zeros;
    if (!t.data || !(t.name = vt_tensors_text(w->st, w->e, "%s.bias", layer))) return no_memory(w);
    VT_TRY(vt_tensors_add(w->st, &t, w->e));
    return vt_tensors_index(w->st, w->e);
}

/* ---- layers of the head ---- */

/* Orders layers for qsort by name, numbers by value: head.2 before head.10, head.11 before head.100. */
static int in_order(const void *pa, const void *pb) {
    const char *a = ((const part_of_head *)pa)->name, *b = ((const part_of_head *)pb)->name;
    while (*a && *a == *b) a++, b++;
    for (; a > ((const part_of_head *)pa)->name && isdigit((unsigned char)a[-1]); a--) b--;
    long x = strtol(a, NULL, 10), y = strtol(b, NULL, 10);
    return x != y ? (x > y) - (x < y) : strcmp(a, b);
}

/* Collects the layers below head. into w->layers, in order. false: a tensor belongs to none that is known here, or
 * there are too many; what is not known is refused by name later. */
static bool find_layers(work *w) {
    for (int i = 0; i < w->st->count; i++) {
        const vt_tensor *t = &w->st->t[i];
        const char *part = strrchr(t->name, '.');
        if (strncmp(t->name, "head.", 5)) continue;
        size_t n = (size_t)(part - t->name);
        int k = 0;
        while (k < w->n && (strncmp(w->layers[k].name, t->name, n) || w->layers[k].name[n])) k++;
        if (n >= NAME || k == LAYERS) return false;
        part_of_head *l = &w->layers[k];
        if (k == w->n) snprintf(l->name, NAME, "%.*s", (int)n, t->name), w->n++;
        const vt_tensor **to = !strcmp(part, ".weight")         ? &l->weight
                               : !strcmp(part, ".bias")         ? &l->bias
                               : !strcmp(part, ".running_mean") ? &l->mean
                               : !strcmp(part, ".running_var")  ? &l->var
                                                                : NULL;
        if (!to) return false;
        *to = t;
    }
    qsort(w->layers, (size_t)w->n, sizeof *w->layers, in_order);
    return true;
}

/* Fails with VT_E_FORMAT for a head of several matrices, naming them. */
static vt_status refuse_mlp(const work *w, int matrices) {
    char names[300] = "";
    for (int i = 0; i < w->n; i++)
        if (w->layers[i].weight && w->layers[i].weight->ndim > 1)
            vt_text_item(names, sizeof names, ", ", "%.60s", w->layers[i].name);
    return vt_fail(w->e, VT_E_FORMAT,
                   "%s: the head is an MLP of %d layers (%s): vitrine computes a classifier of one matrix; of a "
                   "projector of pre-training, fine-tune it and save the classifier; `vitrine eval @oracle` evaluates "
                   "any head, say in PyTorch",
                   w->st->path, matrices, names);
}

/* Fails with VT_E_FORMAT for a norm that no architecture has there; what: "a norm behind its classifier". */
static vt_status refuse_norm(const work *w, const part_of_head *l, const char *what) {
    return vt_fail(w->e, VT_E_FORMAT, "%s: has %s (%s), which vitrine does not compute; " VT_WAY, w->st->path, what,
                   l->name);
}

/* ---- layers multiplied into one ---- */

/* Reads tensor t of n numbers as doubles; false: it is missing or of another size. */
static bool read_vector(const work *w, const vt_tensor *t, double *out, size_t n) {
    return t && t->numel == n && vt_tensor_f64(w->st, t, out, n, NULL) == VT_OK;
}

/* Reads weight and bias of a layer as one matrix *out [rows, columns + 1], its last column the bias, malloc'ed.
 * VT_E_FORMAT, *out NULL: a bias of another length, or a weight that cannot be read. */
static vt_status read_layer(work *w, const part_of_head *l, double **out, size_t *rows, size_t *columns) {
    const size_t n = *rows = (size_t)l->weight->shape[0], c = *columns = l->weight->numel / (n ? n : 1);
    double *all = *out = calloc(n * (c + 2) + 1, sizeof *all), *bias = all + n * (c + 1);
    if (!all) return no_memory(w);
    if (!read_vector(w, l->weight, all, n * c) || (l->bias && !read_vector(w, l->bias, bias, n))) {
        free(all), *out = NULL;
        return vt_fail(w->e, VT_E_FORMAT, "%s: weight and bias of layer %s do not fit each other", w->st->path,
                       l->name);
    }
    for (size_t i = n; i-- > 0;) {
        memmove(all + i * (c + 1), all + i * c, c * sizeof *all);
        all[i * (c + 1) + c] = bias[i];
    }
    return VT_OK;
}

/* Drops the tensors of layers marked as folded, says so in the rows of the file, and clears the marks; pointers to
 * other tensors are then stale. */
static vt_status drop_folded(work *w) {
    bool *gone = calloc((size_t)w->st->count + 1, sizeof *gone);
    if (!gone) return no_memory(w);
    for (int k = 0; k < w->n; k++) {
        part_of_head *l = &w->layers[k];
        const vt_tensor *const all[] = {l->weight, l->bias, l->mean, l->var};
        for (size_t i = 0; l->folded && i < sizeof all / sizeof *all; i++)
            if (all[i]) gone[all[i] - w->st->t] = true;
        l->folded = false;
    }
    for (int r = 0; r < w->n_rows; r++)
        for (int i = 0; i < w->st->count && w->rows[r].became; i++)
            if (gone[i] && !strcmp(w->rows[r].became, w->st->t[i].name))
                w->rows[r].became = NULL, w->rows[r].why = "multiplied into the classifier behind it";
    vt_tensors_drop(w->st, gone);
    free(gone);
    return vt_tensors_index(w->st, w->e);
}

/* Puts a matrix as of read_layer, which it frees, in place of a layer's weight and bias (which it adds if there was
 * none), in float32, and drops folded layers. */
static vt_status store_layer(work *w, const part_of_head *l, double *all, size_t rows, size_t columns) {
    float *weight = vt_tensors_take(w->st, rows * columns * sizeof *weight, w->e),
          *bias = weight ? vt_tensors_take(w->st, rows * sizeof *bias, w->e) : NULL;
    for (size_t i = 0; bias && i < rows; i++) {
        for (size_t k = 0; k < columns; k++) weight[i * columns + k] = (float)all[i * (columns + 1) + k];
        bias[i] = (float)all[i * (columns + 1) + columns];
    }
    free(all);
    if (!bias) return no_memory(w);
    vt_tensor *t = &w->st->t[l->weight - w->st->t];
    t->data = weight, t->dtype = VT_F32, t->n_parts = 0, t->parts = NULL, t->numel = rows * columns;
    if (t->ndim == 2) t->shape[1] = (int64_t)columns;
    if (l->bias) {
        t = &w->st->t[l->bias - w->st->t];
        t->data = bias, t->dtype = VT_F32, t->n_parts = 0, t->parts = NULL;
    }
    VT_TRY(drop_folded(w));
    return l->bias ? VT_OK : add_bias(w, l->name, rows, bias);
}

/* Folds a BatchNorm into the Linear after it: W bn(x) + b = W' x + b', by running statistics; eps is PyTorch's, or that
 * of MAE's linear probe, whose BatchNorm has neither weight nor bias (facebookresearch/mae, main_linprobe.py). all: as
 * of read_layer; s: room for four vectors. false: other sizes. */
static bool fold_norm_into_linear(const work *w, const part_of_head *norm, size_t rows, size_t columns, double *all,
                                  double *s) {
    const double eps = norm->weight ? 1e-5 : 1e-6;
    double *m = s + columns, *v = m + columns, *g = v + columns;
    for (size_t k = 0; k < columns; k++) g[k] = 1, s[k] = 0;
    if (!read_vector(w, norm->mean, m, columns) || !read_vector(w, norm->var, v, columns) ||
        (norm->weight && !read_vector(w, norm->weight, g, columns)) ||
        (norm->bias && !read_vector(w, norm->bias, s, columns)))
        return false;
    for (size_t k = 0; k < columns; k++) {
        double factor = g[k] / sqrt(v[k] + eps);
        for (size_t i = 0; i < rows; i++) {
            double *row = all + i * (columns + 1);
            row[columns] += row[k] * (s[k] - m[k] * factor);
            row[k] *= factor;
        }
    }
    return true;
}

/* Folds the BatchNorms before layer `at`, the nearest first, into its weight and bias, and notes the eps as assumed.
 * VT_E_SHAPE: a norm of another width. */
static vt_status fold_norms(work *w, int at) {
    const part_of_head l = w->layers[at];
    size_t rows, columns;
    double *all;
    VT_TRY(read_layer(w, &l, &all, &rows, &columns));
    double *room = calloc(4 * columns + 1, sizeof *room);
    bool good = true;
    if (!room) {
        free(all);
        return no_memory(w);
    }
    for (int k = at - 1; k >= 0 && good; k--) {
        part_of_head *norm = &w->layers[k];
        if (!norm->mean) continue;
        norm->folded = good = fold_norm_into_linear(w, norm, rows, columns, all, room);
        append_assumption(w, norm->weight ? "eps 1e-5 of its BatchNorm" : "eps 1e-6 of its BatchNorm, as MAE's");
    }
    free(room);
    if (good) return store_layer(w, &l, all, rows, columns);
    free(all);
    return vt_fail(w->e, VT_E_SHAPE, "%s: the BatchNorm before the classifier (%s) has other sides than it has",
                   w->st->path, l.name);
}

/* Are the layers two or more, head.0, head.1, ..., each a Linear that reads the one before, with nothing between
 * them? */
static bool is_chain(const work *w) {
    for (int i = 0; i < w->n; i++) {
        const part_of_head *l = &w->layers[i];
        const char *dot = strrchr(l->name, '.');
        if (!l->weight || l->weight->ndim != 2 || l->mean || l->var || !dot || strtol(dot + 1, NULL, 10) != i ||
            (i && l->weight->shape[1] != w->layers[i - 1].weight->shape[0]))
            return false;
    }
    return w->n > 1;
}

/* Replaces matrix *all [l's columns, inputs + 1], whose last column is the bias, by layer l's product with it. *all
 * NULL after a failure. */
static vt_status multiply_by_layer(work *w, const part_of_head *l, double **all, size_t inputs) {
    size_t rows, columns;
    const size_t wide = inputs + 1;
    double *m, *before = *all;
    vt_status s = read_layer(w, l, &m, &rows, &columns);
    double *out = *all = s == VT_OK ? calloc(rows * wide + 1, sizeof *out) : NULL;
    for (size_t i = 0; out && i < rows; i++) {
        for (size_t k = 0; k < columns; k++)
            for (size_t j = 0; j < wide; j++) out[i * wide + j] += m[i * (columns + 1) + k] * before[k * wide + j];
        out[i * wide + inputs] += m[i * (columns + 1) + columns];
    }
    free(m), free(before);
    return s == VT_OK && !out ? no_memory(w) : s;
}

/* Puts the product of a chain in the place of its last layer, called as the classifier (w->root), and drops the
 * others. */
static vt_status fold_chain(work *w) {
    const part_of_head last = w->layers[w->n - 1];
    size_t rows, inputs;
    double *all;
    VT_TRY(read_layer(w, &w->layers[0], &all, &rows, &inputs));
    for (int i = 1; i < w->n; i++) {
        VT_TRY(multiply_by_layer(w, &w->layers[i], &all, inputs));
        w->layers[i - 1].folded = true;
    }
    VT_TRY(store_layer(w, &last, all, (size_t)last.weight->shape[0], inputs));
    return rename_layer(w, last.name, w->root);
}

/* ---- the head ---- */

/* Is there a module without tensors before this layer of an nn.Sequential, as Dropout is, or an activation? */
static bool has_gap(const work *w, int at) {
    const char *dot = strrchr(w->layers[at].name, '.');
    return dot && dot[1] >= '0' && dot[1] <= '9' && strtol(dot + 1, NULL, 10) > at;
}

/* Finds the layer of the one matrix, *at (left alone: none). VT_E_FORMAT: there are several, or a norm behind it. */
static vt_status one_matrix(const work *w, int *at) {
    int matrices = 0;
    for (int i = 0; i < w->n; i++)
        if (w->layers[i].weight && w->layers[i].weight->ndim > 1) matrices++, *at = i;
    if (matrices > 1) return refuse_mlp(w, matrices);
    if (matrices && *at + 1 < w->n) return refuse_norm(w, &w->layers[*at + 1], "a norm behind its classifier");
    return VT_OK;
}

/* Makes the layers below head. one classifier, renaming and folding tensors and noting what is assumed. VT_E_FORMAT:
 * not possible. VT_OK without effect: no such layers, or unknown ones. */
static vt_status settle_head(work *w) {
    int at = -1, norms = 0;
    const vt_tensor *norm =
        find_layer_tensor(w->st, "fc_norm", "weight"); /* what maps call the first of a Sequential */
    if (norm && norm->ndim > 1)
        return vt_fail(w->e, VT_E_FORMAT,
                       "%s: the head is an MLP of 2 layers or more (%s is a matrix): vitrine computes a classifier of "
                       "one matrix; `vitrine eval @oracle` evaluates any head, say in PyTorch",
                       w->st->path, w->st->origin[norm - w->st->t]);
    char plain[NAME] = "";
    if (!find_layers(w) || !w->n) return VT_OK;
    if (is_chain(w)) return fold_chain(w);
    VT_TRY(one_matrix(w, &at));
    if (at < 0 && !w->layers[0].weight) return VT_OK; /* missed by name */
    if (at < 0)
        return vt_fail(w->e, VT_E_FORMAT, "%s: is a base model without classifier: %s has no matrix", w->st->path,
                       w->layers[0].name);
    if (w->n == 1 && !strcmp(w->layers[0].name, w->root)) return VT_OK;
    for (int i = 0; i < at; i++) {
        const part_of_head *l = &w->layers[i];
        norms += l->mean != NULL;
        if (l->mean) continue;
        if (*plain || find_layer_tensor(w->st, "norm", "weight") || find_layer_tensor(w->st, "fc_norm", "weight"))
            return refuse_norm(w, l, "a second norm, before its classifier");
        snprintf(plain, sizeof plain, "%s", l->name);
    }
    if (*plain && norms) return refuse_norm(w, &w->layers[0], "two norms before its classifier");
    char name[NAME];
    snprintf(name, sizeof name, "%s", w->layers[at].name);
    const char *dot = strrchr(name, '.');
    if (has_gap(w, at))
        append_assumption(w, "no activation before or after it");
    else if (dot && dot[1] >= '0' && dot[1] <= '9')
        append_assumption(w, "no activation after it");
    if (norms) VT_TRY(fold_norms(w, at));
    if (*plain) VT_TRY(rename_layer(w, plain, vt_tensors_find(w->st, "cls_token") ? "norm" : "fc_norm"));
    return rename_layer(w, name, w->root);
}

/* ---- one output ---- */

/* Puts a row of zeros before the one row of tensor "LAYER.PART": sigmoid(z) is the softmax of 0 and z. VT_OK without
 * effect if it is not there or has more rows. */
static vt_status put_zero_row(work *w, const char *layer, const char *part) {
    const vt_tensor *t = find_layer_tensor(w->st, layer, part);
    if (!t || t->n_parts || t->ndim < 1 || t->shape[0] != 1) return VT_OK;
    vt_tensor *parts = vt_tensors_take(w->st, 2 * sizeof *parts, w->e);
    void *zeros = parts ? vt_tensors_take(w->st, vt_tensor_bytes(t), w->e) : NULL;
    if (!zeros) return no_memory(w);
    memset(zeros, 0, vt_tensor_bytes(t));
    parts[0] = parts[1] = *t;
    parts[0].data = zeros;
    vt_tensor *two = &w->st->t[t - w->st->t];
    two->shape[0] = 2, two->numel *= 2, two->data = NULL, two->parts = parts, two->n_parts = 2;
    return VT_OK;
}

/* Makes a head of one output, and head_dist with it, one of two logits, and notes that as assumed; VT_OK without effect
 * for any other. */
static vt_status settle_one_output(work *w) {
    const vt_tensor *t = find_layer_tensor(w->st, w->root, "weight");
    const char *const layers[] = {w->root, "head_dist"};
    if (!t || t->ndim != 2 || t->shape[0] != 1) return VT_OK;
    for (int i = 0; i < 2; i++) {
        VT_TRY(put_zero_row(w, layers[i], "weight"));
        VT_TRY(put_zero_row(w, layers[i], "bias"));
    }
    append_assumption(w, "one output z, read as the logits 0 and z");
    return VT_OK;
}

/* ---- calibration ---- */

/* Divides the classifier's weight and bias by the temperature of the logits that tensors/strip_training found, and
 * notes it as assumed; VT_OK without effect if it found none. */
static vt_status settle_temperature(work *w) {
    const char *text = vt_tensors_meta(w->st, "logit_temperature");
    const double v = text ? strtod(text, NULL) : 0;
    part_of_head l = {.weight = find_layer_tensor(w->st, w->root, "weight"),
                      .bias = find_layer_tensor(w->st, w->root, "bias")};
    size_t rows, columns;
    if (!(v > 0)) return VT_OK;
    append_assumption(w, "logits divided by its temperature");
    if (!l.weight) return VT_OK;
    snprintf(l.name, sizeof l.name, "%s", w->root);
    double *all;
    VT_TRY(read_layer(w, &l, &all, &rows, &columns));
    for (size_t k = 0; k < rows * (columns + 1); k++) all[k] /= v;
    return store_layer(w, &l, all, rows, columns);
}

/* ---- biases ---- */

/* Does the name of a weight end in this layer's? Its name without .weight into out. */
static bool is_layer(const vt_tensor *t, const char *layer, char out[NAME]) {
    size_t n = strlen(t->name), k = strlen(layer);
    if (n < k + 7 || n - 7 >= NAME || t->ndim < 2 || strcmp(t->name + n - 7, ".weight")) return false;
    snprintf(out, NAME, "%.*s", (int)(n - 7), t->name);
    return !strcmp(out + n - 7 - k, layer) && (n == k + 7 || out[n - 8 - k] == '.');
}

/* Adds zeros for the bias of a kind of layer of which no layer has one, with a note. A layer that alone lacks one is
 * missed by name later. */
static vt_status settle_biases(work *w) {
    static const char *const layers[] = {"head_dist", "head", "head.fc", "mlp.fc1", "mlp.fc2", "patch_embed.proj"};
    for (size_t k = 0; k < sizeof layers / sizeof *layers; k++) {
        char name[NAME];
        int with = 0, count = w->st->count, added = 0;
        for (int i = 0; i < count; i++)
            with += is_layer(&w->st->t[i], layers[k], name) && find_layer_tensor(w->st, name, "bias") != NULL;
        const char *said = vt_tensors_meta(w->st, "no_patch_bias"); /* a form; with norm_pre it needs no word */
        bool none = (k == 5 && ((said && !strcmp(said, "1")) || find_layer_tensor(w->st, "norm_pre", "weight"))) ||
                    (!k && find_layer_tensor(w->st, "head", "bias"));
        for (int i = 0; i < count && !with && !none; i++) {
            if (!is_layer(&w->st->t[i], layers[k], name)) continue;
            VT_TRY(add_bias(w, name, (size_t)w->st->t[i].shape[0], NULL));
            added++;
        }
        char text[80];
        snprintf(text, sizeof text, "not in the file: zeros in %d layer%s", added, added > 1 ? "s" : "");
        snprintf(name, sizeof name, "%s.bias", layers[k]);
        if (added) VT_TRY(vt_tensors_add_note(w->st, VT_NOTE_VALUE, name, text, w->e));
        if (added && k < 3) append_assumption(w, "no bias: a plain product");
    }
    return VT_OK;
}

vt_status vt_head_settle(vt_tensors *st, vt_names_row *rows, int n, char assumed[VT_HEAD_ASSUMED], vt_err *e) {
    bool swin = vt_tensors_find(st, "layers.0.blocks.0.attn.relative_position_bias_table") != NULL;
    work w = {.st = st, .rows = rows, .n_rows = n, .root = swin ? "head.fc" : "head", .assumed = assumed, .e = e};
    *assumed = 0;
    VT_TRY(settle_head(&w));
    VT_TRY(settle_biases(&w));
    VT_TRY(settle_temperature(&w));
    return settle_one_output(&w);
}
