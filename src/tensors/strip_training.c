/* SPDX-License-Identifier: MIT */
/* What training wraps around the names of a model, taken off again (docs/formats.md): prefixes that all names share,
 * copies and counters, and a normalisation layer, which becomes the texts "mean" and "std". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tensors/tensors.h"

#define MAX_PASSES 16 /* of prefixes, one around another */

/* Stripped when every name has it: DataParallel and DistributedDataParallel, torch.compile, the module around a model
 * that attacks its inputs in training (nmndeep/revisiting-at), Lightning and RobustBench, then what people call their
 * model, and the second stage of nn.Sequential(Normalize(...), model). */
static const char *const prefixes[] = {"module.",   "_orig_mod.", "base_model.", "model.",
                                       "backbone.", "net.",       "encoder.",    "1."};

/* A normalisation layer's two tensors, by the last part of their names: RobustBench and nn.Sequential(Normalize,
 * model); the robustness library; home-made ones. */
static const struct {
    const char *mean, *std;
} pairs[] = {{"mean", "std"}, {"new_mean", "new_std"}, {"mu", "sigma"}, {"_mean", "_std"}, {"pixel_mean", "pixel_std"}};

typedef struct tidy {
    vt_tensors *st;
    bool *gone; /* tensors to be left out, known by their place in st->t */
    bool any, normalised;
    vt_err *e;
} tidy;

static size_t tensor_index(const tidy *t, const vt_tensor *x) { return (size_t)(x - t->st->t); }

/* Marks a tensor to be left out (t->gone, t->any), and adds a note why (NULL: none). */
static vt_status leave_out(tidy *t, const vt_tensor *x, const char *why) {
    t->gone[tensor_index(t, x)] = t->any = true;
    return why ? vt_tensors_add_note(t->st, VT_NOTE_IGNORED, t->st->origin[tensor_index(t, x)], why, t->e) : VT_OK;
}

/* ---- copies and counters ---- */

/* Returns whether two tensors (a may be NULL) have the same type and bytes. */
static bool same_numbers(const vt_tensor *a, const vt_tensor *b) {
    return a && a->dtype == b->dtype && a->numel == b->numel && !memcmp(a->data, b->data, vt_tensor_bytes(a));
}

/* Returns whether t is, by its name, a vector or number of a LightningModule's loss, such as class weights. */
static bool is_loss_tensor(const vt_tensor *t) {
    static const char *const names[] = {"criterion.", "loss.", "loss_fn.", "loss_func.", "loss_function."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(t->name, names[i], strlen(names[i]))) return t->ndim <= 1;
    return false;
}

/* Marks, with notes, the tensors of a loss, n_averaged (torch.optim.swa_utils.AveragedModel) and every attacker.X that
 * equals X (the robustness library's copy, whose normaliser has another name there). */
static vt_status find_copies(tidy *t) {
    for (int i = 0; i < t->st->count; i++) {
        const vt_tensor *x = &t->st->t[i];
        char other[300] = "";
        if (!strcmp(x->name, "n_averaged") && x->numel == 1) VT_TRY(leave_out(t, x, "counts the averaged models"));
        if (is_loss_tensor(x)) VT_TRY(leave_out(t, x, "of the loss, which no prediction needs"));
        if (strncmp(x->name, "attacker.", 9)) continue;
        if (!strncmp(x->name + 9, "normalize.", 10)) snprintf(other, sizeof other, "normalizer.%.200s", x->name + 19);
        if (same_numbers(vt_tensors_find(t->st, x->name + 9), x) || same_numbers(vt_tensors_find(t->st, other), x))
            VT_TRY(leave_out(t, x, "the same numbers once more"));
    }
    return VT_OK;
}

/* ---- normalisation ---- */

/* Reads three floating-point numbers, or one for all three; false: t is no mean or std of RGB pixels. */
static bool read_rgb_values(const vt_tensors *st, const vt_tensor *t, double out[3]) {
    if ((t->numel != 3 && t->numel != 1) || vt_tensor_f64(st, t, out, t->numel, NULL) != VT_OK) return false;
    if (t->numel == 1) out[1] = out[2] = out[0];
    return true;
}

/* Returns the std that belongs to a mean of that name (pairs, with the same prefix); NULL: the name is no mean, or has
 * none. */
static const vt_tensor *find_matching_std(const vt_tensors *st, const char *name) {
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        char other[300];
        if (strcmp(last, pairs[p].mean)) continue;
        if (snprintf(other, sizeof other, "%.*s%s", (int)(last - name), name, pairs[p].std) < (int)sizeof other)
            return vt_tensors_find(st, other);
    }
    return NULL;
}

/* Sets a key of the metadata to a copy of text. Where they hold it already (mean, std), the layer's value counts: the
 * model has it. */
static vt_status set_meta(tidy *t, const char *key, const char *text) {
    vt_tensors *st = t->st;
    const char *value = vt_tensors_text(st, t->e, "%s", text);
    if (!value) return t->e->code;
    for (int i = 0; i < st->meta_count; i++)
        if (!strcmp(st->meta[2 * i], key)) {
            st->meta[2 * i + 1] = value;
            return VT_OK;
        }
    return vt_tensors_add_meta(st, key, value, t->e);
}

/* Sets the texts "mean" and "std" and t->normalised, with a note. VT_E_FORMAT: a layer before had other numbers. who:
 * its tensors. */
static vt_status set_normalisation(tidy *t, const char *who, const double m[3], const double s[3]) {
    vt_tensors *st = t->st;
    char mean[80], std[80], text[200];
    snprintf(mean, sizeof mean, "%.17g,%.17g,%.17g", m[0], m[1], m[2]);
    snprintf(std, sizeof std, "%.17g,%.17g,%.17g", s[0], s[1], s[2]);
    snprintf(text, sizeof text, "mean %s, std %s", mean, std);
    if (t->normalised && (strcmp(vt_tensors_meta(st, "mean"), mean) || strcmp(vt_tensors_meta(st, "std"), std)))
        return vt_fail(t->e, VT_E_FORMAT, "%s: has two normalisation layers, and they differ: %.200s has %.200s",
                       st->path, who, text);
    t->normalised = true;
    VT_TRY(vt_tensors_add_note(st, VT_NOTE_MEAN_STD, who, text, t->e));
    VT_TRY(set_meta(t, "mean", mean));
    return set_meta(t, "std", std);
}

/* Finds normalisation layers, sets "mean" and "std" to theirs (set_normalisation), and marks their tensors to be left
 * out. */
static vt_status find_normalisation(tidy *t) {
    for (int i = 0; i < t->st->count; i++) {
        double m[3], s[3];
        char who[300];
        const vt_tensor *mean = &t->st->t[i], *std = t->gone[i] ? NULL : find_matching_std(t->st, mean->name);
        if (!std || !read_rgb_values(t->st, mean, m) || !read_rgb_values(t->st, std, s)) continue;
        snprintf(who, sizeof who, "%.140s, %.140s", t->st->origin[i], t->st->origin[tensor_index(t, std)]);
        VT_TRY(set_normalisation(t, who, m, s));
        VT_TRY(leave_out(t, mean, NULL));
        VT_TRY(leave_out(t, std, NULL));
    }
    return VT_OK;
}

/* Finds a BatchNorm over the three channels of the input, which is y = (x - mean) / std once more after what normalises
 * pixels (PyTorch's eps); sets the text "input_norm" to them and marks its tensors. VT_E_FORMAT: two. */
static vt_status find_input_norm(tidy *t) {
    static const char *const parts[] = {"running_mean", "running_var", "weight", "bias", "num_batches_tracked"};
    vt_tensors *st = t->st;
    for (int i = 0; i < st->count; i++) {
        double v[4][3] = {{0}, {0}, {1, 1, 1}, {0}};
        const vt_tensor *x[5] = {0};
        char name[320], text[200];
        size_t n = strcspn(st->t[i].name, "."), at = 0;
        bool good = n && n < 280 && !strcmp(st->t[i].name + n, ".running_mean");
        for (int k = 0; k < 5 && good; k++) {
            snprintf(name, sizeof name, "%.*s.%s", (int)n, st->t[i].name, parts[k]);
            x[k] = vt_tensors_find(st, name);
            good = k == 4 || (x[k] ? x[k]->numel == 3 && read_rgb_values(st, x[k], v[k]) : k > 1);
        }
        if (!good) continue;
        if (vt_tensors_meta(st, "input_norm"))
            return vt_fail(t->e, VT_E_FORMAT,
                           "%s: has two BatchNorms of three channels, one of them is not on its input", st->path);
        for (int f = 0; f < 6; f++) { /* three means, three stds */
            double std = sqrt(v[1][f % 3] + 1e-5) / v[2][f % 3], mean = v[0][f % 3] - v[3][f % 3] * std;
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.17g", f ? "," : "", f < 3 ? mean : std);
        }
        VT_TRY(set_meta(t, "input_norm", text));
        for (int k = 0; k < 5; k++)
            if (x[k]) VT_TRY(leave_out(t, x[k], "the BatchNorm on the input: part of mean and std"));
    }
    return VT_OK;
}

/* Moves a positive `temperature` beside model.X alone (temperature scaling, Guo et al. 2017) into the metadata as
 * "logit_temperature", and marks it; otherwise no effect. */
static vt_status find_temperature(tidy *t) {
    const vt_tensor *x = vt_tensors_find(t->st, "temperature");
    char text[32];
    double v;
    int with = 0;
    for (int i = 0; i < t->st->count; i++) with += !strncmp(t->st->t[i].name, "model.", 6);
    if (!x || x->numel != 1 || with + 1 != t->st->count || vt_tensor_f64(t->st, x, &v, 1, NULL) != VT_OK || !(v > 0))
        return VT_OK;
    snprintf(text, sizeof text, "%.17g", v);
    VT_TRY(set_meta(t, "logit_temperature", text));
    return leave_out(t, x, "the logits are divided by it");
}

/* ---- prefixes ---- */

/* Strips from all names, with a note, the first of `prefixes` that all have, and sets *changed, which stays if there is
 * none. */
static vt_status strip_shared_prefix(tidy *t, bool *changed) {
    vt_tensors *st = t->st;
    for (size_t p = 0; p < sizeof prefixes / sizeof *prefixes && st->count; p++) {
        size_t len = strlen(prefixes[p]);
        int with = 0;
        while (with < st->count && !strncmp(st->t[with].name, prefixes[p], len) && st->t[with].name[len]) with++;
        if (with < st->count) continue;
        for (int i = 0; i < st->count; i++) st->t[i].name += len;
        char text[64];
        snprintf(text, sizeof text, "stripped from all %d names", st->count);
        *changed = true;
        return vt_tensors_add_note(st, VT_NOTE_RENAMED, prefixes[p], text, t->e);
    }
    return VT_OK;
}

/* Takes off one layer of what training wrapped around the model: drops tensors, renames the rest, sorts names anew
 * (VT_E_FORMAT: one is there twice). *changed: whether there was any. */
static vt_status run_strip_pass(tidy *t, bool *changed) {
    vt_tensors *st = t->st;
    t->any = false;
    memset(t->gone, 0, (size_t)st->count);
    VT_TRY(find_copies(t));
    VT_TRY(find_normalisation(t));
    VT_TRY(find_input_norm(t));
    VT_TRY(find_temperature(t));
    vt_tensors_drop(st, t->gone);
    *changed = t->any;
    VT_TRY(strip_shared_prefix(t, changed));
    return *changed ? vt_tensors_index(st, t->e) : VT_OK;
}

vt_status vt_tensors_strip_training(vt_tensors *st, vt_err *e) {
    tidy t = {.st = st, .gone = calloc((size_t)st->count + 1, 1), .e = e};
    if (!t.gone) return vt_fail(e, VT_E_MEMORY, "%s: no memory", st->path);
    vt_status s = VT_OK;
    bool changed = true;
    for (int i = 0; s == VT_OK && changed && i < MAX_PASSES; i++) s = run_strip_pass(&t, &changed);
    free(t.gone);
    return s;
}
