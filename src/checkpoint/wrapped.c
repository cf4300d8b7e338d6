/* SPDX-License-Identifier: MIT */
/* Words and prefixes of wrappers around tensor names. */
#include "checkpoint/steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "tensors/tensors.h"
#include "models/detect.h"

enum { LEAST = 6 /* tensors with a prefix: those of a block */, PREFIX = 120, MOST = 64 };

static vt_status no_memory(const vt_tensors *st, vt_err *e) {
    return vt_fail(e, VT_E_MEMORY, "%s: no memory", st->path);
}

/* ---- words ---- */

/* torch.compile, FSDP, activation checkpointing, DeepSpeed and Lightning, DataParallel. */
static const char *const words[] = {"_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.",
                                    "_forward_module.", "module."};

/* Takes a word out of a name where it is a whole part of it; false: it is not there. */
static bool remove_word(char *name, const char *word) {
    bool found = false;
    size_t n = strlen(word);
    for (char *at = name; (at = strstr(at, word));) {
        if (at > name && at[-1] != '.')
            at++;
        else
            memmove(at, at + n, strlen(at + n) + 1), found = true;
    }
    return found;
}

/* Takes a wrapper's word out of all names of st and notes how many; names of 600 bytes or more stay. */
static vt_status cut_word(vt_tensors *st, const char *word, vt_err *e) {
    char name[600], text[60];
    int with = 0;
    for (int i = 0; i < st->count; i++) {
        if (!strstr(st->t[i].name, word) || strlen(st->t[i].name) >= sizeof name) continue;
        strcpy(name, st->t[i].name);
        if (!remove_word(name, word)) continue;
        if (!(st->t[i].name = vt_tensors_text(st, e, "%s", name))) return no_memory(st, e);
        with++;
    }
    snprintf(text, sizeof text, "taken out of %d names", with);
    return with ? vt_tensors_add_note(st, VT_NOTE_RENAMED, word, text, e) : VT_OK;
}

/* Is it a state of torchmetrics, which Lightning saves beside a model: a number or vector of such a name? */
static bool is_metric_state(const vt_tensors *st, const vt_tensor *t) {
    static const char *const names[] = {"tp",         "fp",      "tn",        "fn",        "confmat",  "total",
                                        "mean_value", "correct", "sum_value", "max_value", "min_value"};
    const char *dot = strrchr(t->name, '.');
    if (!dot || t->ndim > 2) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(dot + 1, names[i])) return true;
    char mean[300];
    snprintf(mean, sizeof mean, "%.*s.mean_value", (int)(dot - t->name), t->name); /* a MeanMetric has a weight too */
    return t->ndim == 0 && !strcmp(dot + 1, "weight") && vt_tensors_find(st, mean);
}

vt_status vt_unwrap_words(vt_tensors *st, vt_err *e) {
    bool *gone = calloc((size_t)st->count + 1, sizeof *gone);
    vt_status s = gone ? VT_OK : no_memory(st, e);
    for (size_t i = 0; i < sizeof words / sizeof *words && s == VT_OK; i++) s = cut_word(st, words[i], e);
    if (s == VT_OK) s = vt_tensors_index(st, e);
    for (int i = 0; i < st->count && s == VT_OK; i++)
        if ((gone[i] = is_metric_state(st, &st->t[i])))
            s = vt_tensors_add_note(st, VT_NOTE_IGNORED, st->origin[i], "the state of a metric", e);
    if (s == VT_OK) vt_tensors_drop(st, gone);
    free(gone);
    return s == VT_OK ? vt_tensors_index(st, e) : s;
}

/* ---- a prefix ---- */

typedef struct search {
    vt_tensors *st;
    vt_tensor *all; /* its tensors as they were */
    const char **origin;
    int n;
    char found[PREFIX], other[PREFIX]; /* the prefixes that leave names that are known; other: a second one */
    vt_fit fit;
    bool beside;         /* some names without the prefix are of one classifier */
    char head[PREFIX];   /* what these begin with */
    const char *foreign; /* a name without the prefix that is of no classifier, or NULL */
    vt_err *e;
} search;

/* Does the name begin with the prefix and go on after it? */
static bool has_prefix(const char *name, const char *prefix) {
    size_t n = strlen(prefix);
    return !strncmp(name, prefix, n) && name[n];
}

/* Leaves the state dict the tensors of s->all with the prefix alone, without it. VT_E_FORMAT: a name twice. */
static vt_status select_by_prefix(search *s, const char *prefix) {
    vt_tensors *st = s->st;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (!has_prefix(s->all[i].name, prefix)) continue;
        st->t[n] = s->all[i], st->origin[n] = s->origin[i];
        st->t[n++].name += strlen(prefix);
    }
    st->count = n;
    return vt_tensors_index(st, s->e);
}

/* Is it a usual name of a classifier? head: its beginning up to the first dot. */
static bool is_of_classifier(const char *name, char head[PREFIX]) {
    static const char *const of_one[] = {"head", "fc", "classif", "cls", "linear", "logit", "out", "last_layer", NULL};
    static const char *const of_other[] = {"proj", "decod",    "neck", "bn",  "norm",   "token",
                                           "aux",  "contrast", "box",  "seg", "domain", NULL};
    size_t n = strcspn(name, ".");
    if (!name[n] || n + 2 > PREFIX) return false;
    memcpy(head, name, n + 1), head[n + 1] = 0;
    bool yes = false;
    for (int i = 0; of_one[i]; i++) yes = yes || strcasestr(head, of_one[i]);
    for (int i = 0; of_other[i]; i++) yes = yes && !strcasestr(head, of_other[i]);
    return yes;
}

/* Sets beside, head and foreign by the names without the prefix. */
static void look_beside(search *s, const char *prefix) {
    char head[PREFIX];
    s->beside = false, s->foreign = NULL;
    for (int i = 0; i < s->n; i++) {
        const char *name = s->all[i].name;
        if (has_prefix(name, prefix)) continue;
        if (is_of_classifier(name, head) && (!s->beside || !strcmp(head, s->head)))
            s->beside = true, strcpy(s->head, head);
        else if (!s->foreign)
            s->foreign = name;
    }
}

/* Sets s->found, s->fit and s->other if the names without this prefix are known; s->st is left so cut. A longer one
 * adds nothing to a shorter one that does as well: vit. of model.vit. is a library's own. */
static vt_status try_prefix(search *s, const char *prefix) {
    int with = 0;
    vt_fit fit = VT_FIT_NONE;
    for (int i = 0; i < s->n; i++) with += has_prefix(s->all[i].name, prefix);
    if (with < LEAST) return VT_OK;
    look_beside(s, prefix);
    vt_status status = select_by_prefix(s, prefix);
    if (status == VT_OK) status = vt_names_fit(&fit, s->st, s->beside, s->e);
    if (status == VT_E_FORMAT) return VT_OK; /* a name twice */
    if (status != VT_OK || fit == VT_FIT_NONE || fit < s->fit) return status;
    if (fit > s->fit)
        strcpy(s->found, prefix), *s->other = 0;
    else if (!has_prefix(prefix, s->found) && !*s->other)
        strcpy(s->other, prefix);
    s->fit = fit;
    return VT_OK;
}

/* Tries every beginning of a name up to a dot, once, short ones first. */
static vt_status try_all_prefixes(search *s) {
    char seen[MOST][PREFIX];
    int n = 0;
    for (int depth = 1; depth <= 5; depth++)
        for (int i = 0; i < s->n && n < MOST; i++) {
            const char *name = s->all[i].name, *end = name;
            for (int d = 0; d < depth && end; d++) end = (end = strchr(end, '.')) ? end + 1 : NULL;
            size_t len = end ? (size_t)(end - name) : 0;
            int k = 0;
            while (k < n && (strncmp(seen[k], name, len) || seen[k][len])) k++;
            if (!len || len >= PREFIX || k < n) continue;
            memcpy(seen[n], name, len), seen[n++][len] = 0;
            VT_TRY(try_prefix(s, seen[n - 1]));
        }
    return VT_OK;
}

/* Strips s->found from the names of s->st, with a note; *head: the beginning of a classifier beside it. VT_E_FORMAT:
 * two networks, two classifiers, or a tensor beside it that is none's. */
static vt_status check_and_strip_prefix(search *s, const char **head) {
    const char *path = s->st->path, *inside = s->st->inside;
    look_beside(s, s->found);
    for (int i = 0; s->beside && i < s->n; i++)
        if (has_prefix(s->all[i].name, s->found) && has_prefix(s->all[i].name + strlen(s->found), s->head))
            return vt_fail(s->e, VT_E_FORMAT,
                           "%s: has a classifier behind %.100s (" VT_NAME
                           ") and one beside it (%.100s): which of them gives the logits, no name tells; save the "
                           "state_dict of the model that does",
                           path, s->found, s->all[i].name, s->head);
    if (*s->other)
        return vt_fail(s->e, VT_E_FORMAT,
                       "%s: holds two networks, %.100s* and %.100s*: save the state_dict of the one that "
                       "classifies%s%s%s%s",
                       path, s->found, s->other, *inside ? ", or " : "", *inside ? vt_argument("part") : "",
                       *inside ? " NAME reads one of its parts: " : "", inside);
    const bool base = s->fit == VT_FIT_BASE;
    if (s->foreign)
        return vt_fail(s->e, VT_E_FORMAT,
                       "%s: %sthe names behind %.100s are known, %s " VT_NAME
                       " beside them is no classifier's%s" VT_WAY,
                       path, base ? "is a base model without classifier: " : "", s->found, base ? "and" : "but",
                       s->foreign,
                       base ? "; " : ": if it takes no part in the logits, save the state_dict without it; else ");
    char text[200];
    snprintf(text, sizeof text, "stripped from all %d names%s%s", s->n, s->beside ? " but the classifier's, " : "",
             s->beside ? s->head : "");
    VT_TRY(vt_tensors_add_note(s->st, VT_NOTE_RENAMED, s->found, text, s->e));
    for (int i = 0; i < s->n; i++) {
        s->st->t[i] = s->all[i], s->st->origin[i] = s->origin[i];
        if (has_prefix(s->all[i].name, s->found)) s->st->t[i].name += strlen(s->found);
    }
    s->st->count = s->n;
    if (s->beside && !(*head = vt_tensors_text(s->st, s->e, "%s", s->head))) return no_memory(s->st, s->e);
    return vt_tensors_index(s->st, s->e);
}

/* Finds the one usual name of a classifier beside known names without one ("vit." and "fc."); *head is left alone if
 * there is none, or two. */
static vt_status find_beside(vt_tensors *st, const char **head, vt_err *e) {
    char one[PREFIX], found[PREFIX] = "";
    for (int i = 0; i < st->count; i++) {
        if (!is_of_classifier(st->t[i].name, one) || !strcmp(one, found)) continue;
        if (*found) return VT_OK;
        strcpy(found, one);
    }
    if (*found && !(*head = vt_tensors_text(st, e, "%s", found))) return no_memory(st, e);
    return VT_OK;
}

vt_status vt_unwrap_prefix(vt_tensors *st, const char **head, vt_err *e) {
    search s = {.st = st, .n = st->count, .e = e};
    vt_fit fit;
    *head = NULL;
    VT_TRY(vt_names_fit(&fit, st, false, e));
    if (fit == VT_FIT_BASE) return find_beside(st, head, e);
    if (fit != VT_FIT_NONE) return VT_OK;
    s.all = calloc((size_t)st->count + 1, sizeof *s.all);
    s.origin = calloc((size_t)st->count + 1, sizeof *s.origin);
    vt_status status = s.all && s.origin ? VT_OK : no_memory(st, e);
    if (status == VT_OK) {
        memcpy(s.all, st->t, (size_t)s.n * sizeof *s.all);
        memcpy(s.origin, st->origin, (size_t)s.n * sizeof *s.origin);
        status = try_all_prefixes(&s);
        vt_status back = select_by_prefix(&s, "");
        if (status == VT_OK) status = back;
    }
    if (status == VT_OK && s.fit != VT_FIT_NONE) status = check_and_strip_prefix(&s, head);
    free(s.all), free(s.origin);
    return status;
}
