/* SPDX-License-Identifier: MIT */
/* The classes of a data set: their names, and the output of the model that stands for each: by --class-order, by the
 * names of both, by ImageNet's wnids, else by the order of the classes (vt_dataset_fit_head). */
#include "data/dataset.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- ImageNet ---- */

static const char wnids[][10] = {
#include "wnids.inc"
};
_Static_assert(sizeof wnids == 10 * VT_IMAGENET_CLASSES, "1000 wnids");

/* For bsearch in the sorted list of WordNet identifiers, byte by byte. */
static int compare_wnids(const void *a, const void *b) { return strcmp(a, b); }

int vt_imagenet_index(const char *wnid) {
    const char(*hit)[10] = bsearch(wnid, wnids, VT_IMAGENET_CLASSES, sizeof *wnids, compare_wnids);
    return hit ? (int)(hit - wnids) : -1;
}

bool vt_imagenet_is_val(const char *path) {
    static const char start[] = "ILSVRC2012_val_";
    return !strncmp(basename(path), start, sizeof start - 1);
}

int64_t vt_imagenet_val_count(const vt_dataset *d) {
    int64_t n = 0;
    if (!d->names || !d->def->file) return -1;
    for (int k = 0; k < d->classes; k++)
        if (vt_imagenet_index(d->names[k]) < 0) return -1;
    for (int64_t i = 0; i < d->count; i++) n += vt_imagenet_is_val(vt_dataset_image_name(d, i));
    return n;
}

/* ---- names ---- */

enum { NAMES_MOST = 1 << 16 }; /* bytes of a list of names */

/* Writes the name of the label in batches.meta.txt or fine_label_names.txt of the official sets, beside or in d->path;
 * false: there is no list of d->classes names. Takes no memory, so that a name does not depend on how much there is. */
static bool find_listed_name(const vt_dataset *d, int label, char *out, size_t size) {
    static const char *const lists[] = {"batches.meta.txt", "fine_label_names.txt"};
    char folder[VT_PATH_MAX], path[VT_PATH_MAX], text[NAMES_MOST + 1];
    size_t n = vt_is_folder(d->path) ? strlen(d->path) : (size_t)(basename(d->path) - d->path);
    int lines = 0;
    snprintf(folder, sizeof folder, "%.*s", n ? (int)n : 1, n ? d->path : ".");
    for (size_t i = 0; i < 2 && lines != d->classes; i++) {
        n = vt_path(path, folder, lists[i]) ? vt_file_start(path, text, NAMES_MOST) : 0;
        text[n < NAMES_MOST ? n : 0] = 0;
        lines = 0;
        for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
            line[strcspn(line, "\r")] = 0;
            if (*line && lines++ == label) snprintf(out, size, "%s", line);
        }
    }
    return lines == d->classes;
}

void vt_dataset_class_name(const vt_dataset *d, int label, char *out, size_t size) {
    int k = label;
    if (d->head && !d->restricted) { /* of the model's outputs, those that the data have */
        for (k = 0; k < d->classes && d->head[k] != label; k++) continue;
    }
    bool own = k >= 0 && k < d->classes;
    if (own && d->names)
        snprintf(out, size, "%s", d->names[k]);
    else if (!own || d->head || !find_listed_name(d, k, out, size))
        snprintf(out, size, "class %d", label);
}

/* ---- the order of --class-order ---- */

enum { ORDER_MOST = 1 << 24 }; /* bytes of a class order */

/* A name and its number: of a class, or of an output of the model. */
typedef struct named {
    const char *name;
    int at;
} named;

/* Orders two names, by their text. */
static int compare_names(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

/* Orders two texts of digits, as numbers; equal ones as texts. */
static int compare_numbers(const void *pa, const void *pb) {
    const char *a = ((const named *)pa)->name, *b = ((const named *)pb)->name;
    const char *x = a + strspn(a, "0"), *y = b + strspn(b, "0");
    size_t n = strlen(x), m = strlen(y);
    int c = n != m ? (n < m ? -1 : 1) : strcmp(x, y);
    return c ? c : strcmp(a, b);
}

static vt_status no_memory(const vt_dataset *d, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory for its classes", d->path);
}

/* Returns whether --class-order names a file. */
static bool is_order_file(const char *asked) {
    return asked && strcasecmp(asked, "text") && strcasecmp(asked, "number");
}

/* Names in the order of their bytes. */
typedef struct name_list {
    char *text; /* holds them */
    named *v;
    int n;
} name_list;

static void free_list(name_list *l) { free(l->v), free(l->text); }

/* Returns an entry of that name; NULL: there is none. */
static const named *find_name(const name_list *l, const char *name) {
    return bsearch(&(named){name, 0}, l->v, (size_t)l->n, sizeof *l->v, compare_names);
}

/* Reads into l, to be freed in any case, the lines of the file that hold a name, each with its number among them,
 * sorted. VT_E_USAGE: no such file. */
static vt_status read_list(name_list *l, const char *path, vt_err *e) {
    vt_err why = {0};
    vt_status s = vt_file_text(path, ORDER_MOST, &l->text, &why);
    if (s == VT_E_MEMORY) return vt_fail(e, s, "%s", why.text);
    if (s != VT_OK)
        return vt_fail(e, VT_E_USAGE,
                       "@class-order is '%s', must be text, number, or a file with one class a line (%s)", path,
                       why.text);
    size_t lines = 1;
    for (const char *c = l->text; *c; c++) lines += *c == '\n';
    if (!(l->v = calloc(lines, sizeof *l->v))) return vt_fail(e, VT_E_MEMORY, "%s: no memory for its names", path);
    for (char *line, *rest = l->text; (line = strsep(&rest, "\n"));) {
        size_t k = strlen(line);
        while (k && isspace((unsigned char)line[k - 1])) line[--k] = 0;
        if (k) l->v[l->n] = (named){line, l->n}, l->n++;
    }
    qsort(l->v, (size_t)l->n, sizeof *l->v, compare_names);
    return VT_OK;
}

vt_status vt_class_order_names(const vt_dataset *d, char *const *names, int n, bool *all, vt_err *e) {
    name_list l = {0};
    *all = false;
    if (!is_order_file(d->asked) || !n) return VT_OK;
    vt_status s = read_list(&l, d->asked, e);
    *all = s == VT_OK;
    for (int i = 0; *all && i < n; i++) *all = find_name(&l, names[i]) != NULL;
    free_list(&l);
    return s;
}

/* Sets d->order, by l, the classes of the file, d->order_lines, and d->extra: the first name without a folder.
 * VT_E_USAGE: a name occurs twice, or a class folder is not in l. */
static vt_status order_by_list(vt_dataset *d, const name_list *l, vt_err *e) {
    int k = 0;
    for (int i = 1; i < l->n; i++)
        if (!compare_names(&l->v[i], &l->v[i - 1]))
            return vt_fail(e, VT_E_USAGE, "%s: names the class '%.80s' twice", d->asked, l->v[i].name);
    for (k = 0; k < d->classes; k++) {
        const named *hit = find_name(l, d->names[k]);
        if (!hit)
            return vt_fail(e, VT_E_USAGE, "%s: does not name the class folder '%.80s' of %s", d->asked, d->names[k],
                           d->path);
        d->order[k] = hit->at;
    }
    d->order_lines = l->n;
    for (int i = 0; !*d->extra && i < l->n; i++) {
        for (k = 0; k < d->classes && d->order[k] != l->v[i].at; k++) continue;
        if (k == d->classes) snprintf(d->extra, sizeof d->extra, "%s", l->v[i].name);
    }
    return VT_OK;
}

/* Returns whether a name is digits alone. */
static bool is_number(const char *name) { return *name && !name[strspn(name, "0123456789")]; }

/* Sets d->order by the folders' names as numbers; VT_E_USAGE for a name that is none. */
static vt_status order_by_numbers(vt_dataset *d, vt_err *e) {
    int k = 0;
    while (k < d->classes && is_number(d->names[k])) k++;
    if (k < d->classes)
        return vt_fail(e, VT_E_USAGE, "@class-order number: the class folder %.80s of %s is no number", d->names[k],
                       d->path);
    named *list = calloc((size_t)d->classes + 1, sizeof *list);
    if (!list) return no_memory(d, e);
    for (k = 0; k < d->classes; k++) list[k] = (named){d->names[k], k};
    qsort(list, (size_t)d->classes, sizeof *list, compare_numbers);
    for (k = 0; k < d->classes; k++) d->order[list[k].at] = k;
    free(list);
    return VT_OK;
}

vt_status vt_class_order(vt_dataset *d, vt_err *e) {
    name_list l = {0};
    if (!d->asked) return VT_OK;
    if (!(d->order = calloc((size_t)d->classes + 1, sizeof *d->order))) return no_memory(d, e);
    for (int k = 0; k < d->classes; k++) d->order[k] = k;
    if (!strcasecmp(d->asked, "number")) return order_by_numbers(d, e);
    if (!is_order_file(d->asked)) return VT_OK;
    vt_status s = read_list(&l, d->asked, e);
    if (s == VT_OK) s = order_by_list(d, &l, e);
    free_list(&l);
    return s;
}

/* ---- by names ---- */

/* Writes a name [n] with letters small and what is none of letters and digits as one '_', cut to fit; short_form: up to
 * the first comma. */
static void simplify_name(char *out, size_t size, const char *name, size_t n, bool short_form) {
    size_t at = 0;
    for (size_t i = 0; i < n && at + 1 < size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (short_form && c == ',') break;
        if (isalnum(c) || c > 127)
            out[at++] = (char)tolower(c);
        else if (at && out[at - 1] != '_')
            out[at++] = '_';
    }
    while (at && out[at - 1] == '_') at--;
    out[at] = 0;
}

/* Sets l, to be freed in any case, to the names of outputs (as d->labels), simplified, each with its output, sorted. */
static vt_status list_labels(name_list *l, const vt_dataset *d, const char *labels, bool short_form, vt_err *e) {
    size_t bytes = strlen(labels) + 1, names = 1, at = 0;
    for (const char *c = labels; *c; c++) names += *c == '\n' || *c == '\t';
    l->text = malloc(bytes + names), l->v = calloc(names, sizeof *l->v);
    if (!l->text || !l->v) return no_memory(d, e);
    int output = 0;
    for (const char *c = labels; *c; c++) {
        size_t k = strcspn(c, "\n\t");
        simplify_name(l->text + at, k + 1, c, k, short_form);
        if (l->text[at]) l->v[l->n++] = (named){l->text + at, output};
        at += strlen(l->text + at) + 1, c += k;
        output += *c == '\n';
        if (!*c) break;
    }
    qsort(l->v, (size_t)l->n, sizeof *l->v, compare_names);
    return VT_OK;
}

/* Returns the one output that is called so; -1: none, or several. */
static int output_called(const name_list *l, const char *name) {
    const named *hit = find_name(l, name), *x = hit;
    while (hit && x > l->v && !compare_names(x - 1, hit)) x--;
    for (; hit && x < l->v + l->n && !compare_names(x, hit); x++)
        if (x->at != hit->at) return -1;
    return hit ? hit->at : -1;
}

/* Sets head[k] to the output that labels call as class k, in full or by its short form, or -1; *hits: how many have
 * one, each its own. */
static vt_status match_classes_to_outputs(const vt_dataset *d, const char *labels, int outputs, int *head, int *hits,
                                          vt_err *e) {
    vt_status s = VT_OK;
    bool *taken = calloc((size_t)outputs + 1, sizeof *taken);
    if (!taken) return no_memory(d, e);
    for (int k = 0; k < d->classes; k++) head[k] = -1;
    *hits = 0;
    for (int round = 0; s == VT_OK && round < 2; round++) {
        char name[512];
        name_list l = {0};
        s = list_labels(&l, d, labels, round, e);
        for (int k = 0; s == VT_OK && k < d->classes; k++) {
            if (head[k] >= 0) continue;
            simplify_name(name, sizeof name, d->names[k], strlen(d->names[k]), false);
            int at = output_called(&l, name);
            if (at < 0 || at >= outputs || taken[at]) continue;
            head[k] = at, taken[at] = true, ++*hits;
        }
        free_list(&l);
    }
    free(taken);
    return s;
}

/* Writes the model's own name of an output, the first of several, cut to fit, and returns buf; "" if there is none. */
static const char *output_name(const vt_dataset *d, int output, char buf[60]) {
    const char *c = d->labels;
    while (output-- && *c) c += strcspn(c, "\n"), c += *c == '\n';
    snprintf(buf, 60, "%.*s", (int)strcspn(c, "\n\t"), c);
    return buf;
}

/* VT_E_USAGE if head has a class whose output is not its place; there is then also one without an output. Names that
 * agree with the model's in part contradict the order of the folders. */
static vt_status check_partial_match(const vt_dataset *d, const int *head, const char *model, vt_err *e) {
    char label[60];
    int other = 0, none = 0;
    while (other < d->classes && (head[other] < 0 || head[other] == other)) other++;
    while (none < d->classes && head[none] >= 0) none++;
    if (other == d->classes) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s: the model %s calls its output %d '%s', which is class folder %d here, but it has no name "
                   "'%.60s': give @class-order FILE, one class folder a line in the model's order (or text: as they "
                   "stand)",
                   d->path, model, head[other], output_name(d, head[other], label), other, d->names[none]);
}

/* Returns whether d->head differs from the order of the folders. */
static bool is_reordered(const vt_dataset *d) {
    int k = 0;
    while (k < d->classes && d->head[k] == k) k++;
    return k < d->classes;
}

/* Sets d->head, ordered and how by the model's own names if all classes have one; else, if they are as many as the
 * outputs, d->head by the order of the folders (VT_E_USAGE: check_partial_match). */
static vt_status assign_by_labels(vt_dataset *d, int outputs, const char *model, vt_err *e) {
    int hits = 0;
    char label[60];
    VT_TRY(match_classes_to_outputs(d, d->labels, outputs, d->head, &hits, e));
    d->ordered = hits == d->classes;
    if (d->ordered && is_reordered(d))
        snprintf(d->how, sizeof d->how, "labels by the model's own class names, not by the order of the folders");
    if (d->ordered || d->classes != outputs) return VT_OK;
    VT_TRY(check_partial_match(d, d->head, model, e));
    if (!hits)
        snprintf(d->how, sizeof d->how,
                 "labels by the order of the folders (%.40s first): the model's own names (%s first) are others",
                 d->names[0], output_name(d, 0, label));
    for (int k = 0; k < d->classes; k++) d->head[k] = k;
    return VT_OK;
}

/* Sets d->head, ordered and how by the train split's class folders if these are as many as the outputs, with ordered
 * false if a class is none of them; otherwise no effect. */
static vt_status assign_by_train_folders(vt_dataset *d, int outputs, vt_err *e) {
    int hits = 0, lines = 0;
    for (const char *c = d->train; *c; c++) lines += *c == '\n';
    if (lines != outputs) return VT_OK;
    VT_TRY(match_classes_to_outputs(d, d->train, outputs, d->head, &hits, e));
    d->ordered = hits == d->classes;
    if (d->ordered)
        snprintf(d->how, sizeof d->how, "labels by the class folders of the train split, which has all of the model's");
    return VT_OK;
}

/* ---- the head ---- */

/* Returns the ImageNet class of a folder whose name begins with a wnid, "n02085620-Chihuahua"; -1: it does not. */
static int imagenet_index_of(const char *name) {
    char wnid[10];
    snprintf(wnid, sizeof wnid, "%s", name);
    return strlen(name) > 9 && isalnum((unsigned char)name[9]) ? -1 : vt_imagenet_index(wnid);
}

/* Returns whether every class folder is named by an ImageNet wnid. */
static bool has_wnids(const vt_dataset *d) {
    for (int k = 0; k < d->classes; k++)
        if (imagenet_index_of(d->names[k]) < 0) return false;
    return true;
}

/* Writes the path of the first class folder of `outputs` sub-folders, which may be the set that was meant, or "". */
static void find_nested_set(const vt_dataset *d, int outputs, char out[VT_PATH_MAX]) {
    bool found = false;
    *out = 0;
    for (int k = 0; d->root && !found && k < d->classes; k++) {
        vt_folders f;
        found = vt_path(out, d->root, d->names[k]) && vt_folders_list(&f, out, NULL) == VT_OK && f.n == outputs;
        vt_folders_free(&f);
    }
    if (!found) *out = 0;
}

/* Fails with VT_E_SHAPE: the number of classes differs from the model's, with a likely reason. */
static vt_status refuse_class_count(const vt_dataset *d, int outputs, const char *model, vt_err *e) {
    char why[700] = "", list[200], nested[VT_PATH_MAX];
    find_nested_set(d, outputs, nested);
    if (d->names && vt_corruptions_text(d->path, list, sizeof list))
        snprintf(why, sizeof why,
                 " (it holds corruptions: give " VT_OPTION "corruption, one of %s, and " VT_OPTION "severity)", list);
    else if (*nested)
        snprintf(why, sizeof why, " (is a folder in it meant, as " VT_OPTION "data %.300s, which has %d?)", nested,
                 outputs);
    else if (d->names && vt_dataset_inside(d->path, list, sizeof list))
        snprintf(why, sizeof why, " (is a folder in it meant: %s?)", list);
    else if (d->names && d->classes < outputs)
        snprintf(why, sizeof why,
                 " (%s" VT_OPTION "class-order FILE with the names of all outputs says which they are)",
                 outputs == VT_IMAGENET_CLASSES ? "and its folders are not named by ImageNet's wnids: " : "");
    else if (d->classes_open && d->classes == outputs + 1)
        snprintf(why, sizeof why, " (if its labels count from 1, save y - 1)");
    else if (!strcmp(d->def->name, "cifar"))
        snprintf(why, sizeof why, " (these are images of CIFAR-%d; " VT_CIFAR_URL " has both)", d->classes);
    return vt_fail(e, VT_E_SHAPE, "%s has %d classes, but the model %s has %d%s", d->path, d->classes, model, outputs,
                   why);
}

/* VT_E_USAGE for as many folders as outputs, ordered by nothing, that may be no classes, or are numbers of another
 * order as text. */
static vt_status check_folders(const vt_dataset *d, int outputs, vt_err *e) {
    char nested[VT_PATH_MAX];
    if (d->order || d->ordered || d->classes != outputs) return VT_OK;
    find_nested_set(d, outputs, nested);
    if (*nested && d->classes > 1)
        return vt_fail(e, VT_E_USAGE,
                       "%s: its folders (%.60s, %.60s) may be splits or versions of one data set, which have %d "
                       "folders each: name one, as @data %.300s, or give @class-order text if they are the classes",
                       d->path, d->names[0], d->names[1], outputs, nested);
    for (int k = 0; k < d->classes; k++)
        if (!is_number(d->names[k])) return VT_OK;
    for (int k = 1; k < d->classes; k++)
        if (compare_numbers(&(named){d->names[k - 1], 0}, &(named){d->names[k], 0}) > 0)
            return vt_fail(e, VT_E_USAGE,
                           "%s: its class folders are numbers, and %.20s stands before %.20s as text: give "
                           "@class-order text (torchvision's ImageFolder) or number, or FILE with one class a line in "
                           "the model's order",
                           d->path, d->names[k - 1], d->names[k]);
    return VT_OK;
}

/* Sets d->head to an output for every class, d->ordered and d->how. VT_E_SHAPE: a number of classes that does not fit;
 * VT_E_USAGE: the order is not certain, or names a class without folder. */
static vt_status assign_outputs(vt_dataset *d, int outputs, const char *model, vt_err *e) {
    bool by_id = outputs == VT_IMAGENET_CLASSES && has_wnids(d);
    for (int k = 0; k < d->classes; k++)
        d->head[k] = d->order ? d->order[k] : by_id ? imagenet_index_of(d->names[k]) : k;
    bool as_they_stand = d->order && !strcasecmp(d->asked, "text");
    if (d->order && !as_they_stand)
        snprintf(d->how, sizeof d->how, "class folders in the order of " VT_OPTION "class-order %s",
                 is_order_file(d->asked) ? "FILE" : "number");
    else if (!d->order && !by_id && d->labels)
        VT_TRY(assign_by_labels(d, outputs, model, e));
    d->ordered = d->ordered || by_id || (d->order && *d->extra);
    if (!d->order && !d->ordered && d->train && d->classes < outputs) VT_TRY(assign_by_train_folders(d, outputs, e));
    if (d->order && *d->extra && d->order_lines != outputs)
        return vt_fail(e, VT_E_USAGE,
                       "%s: names the class '%s', of which %s has no folder (nor are its %d names the %d of the model)",
                       d->asked, d->extra, d->path, d->order_lines, outputs);
    if (d->classes > outputs || (d->classes != outputs && !d->ordered)) return refuse_class_count(d, outputs, model, e);
    return check_folders(d, outputs, e);
}

vt_status vt_dataset_fit_head(vt_dataset *d, int outputs, bool restricted, const char *model, vt_err *e) {
    free(d->head);
    d->head = NULL, d->restricted = d->ordered = false, *d->how = 0;
    if (d->classes_open && d->classes < outputs) d->classes = outputs;
    if (!d->names) return d->classes == outputs ? VT_OK : refuse_class_count(d, outputs, model, e);
    if (!(d->head = calloc((size_t)d->classes, sizeof *d->head))) return no_memory(d, e);
    vt_status s = assign_outputs(d, outputs, model, e);
    bool few = d->classes != outputs;
    if (s == VT_OK && restricted && few && d->classes < 2)
        s = vt_fail(e, VT_E_USAGE, "%s has one class: restricted to it, every image would be right", d->path);
    d->restricted = s == VT_OK && restricted && few;
    if (s == VT_OK && (few || is_reordered(d))) return VT_OK;
    free(d->head);
    d->head = NULL;
    return s;
}
