/* SPDX-License-Identifier: MIT */
/* A map at work: tensors renamed, joined, split, reshaped, left out. Nothing is copied but texts and the rare matrix
 * whose columns change order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/text.h"
#include "tensors/tensors.h"
#include "checkpoint/rename.h"
#include "models/detect.h"

/* Which line fits a tensor, and which of its names. */
typedef struct fit {
    const vt_rename_rule *rule; /* NULL: none */
    int item;
    vt_binding b;
} fit;

typedef struct work {
    const vt_rename *m;
    vt_tensors *st;
    vt_names_row *rows;
    struct made {
        vt_tensor t;
        const char *origin;
        int line;
    } * made;
    size_t count;
    bool linear; /* the patch embedding is one */
    vt_err *e;
} work;

static vt_status no_memory(const work *w) { return vt_fail(w->e, VT_E_MEMORY, "%s: no memory", w->st->path); }

/* Returns the error of vt_tensors_take. */
static vt_status allocation_error(const work *w) { return w->e ? w->e->code : VT_E_MEMORY; }

/* Finds the first line, and which of its names, that fits tensor t, with or without the prefix that all names of the
 * file have ("net."). false: none. */
static bool find_fit(const vt_rename *m, const vt_tensors *st, int t, fit *f) {
    for (int i = 0; i < m->count; i++)
        for (int k = 0; k < m->rules[i].from; k++)
            if (!vt_rename_zero(&m->rules[i], k) && (vt_pattern_match(m->rules[i].theirs[k], st->t[t].name, &f->b) ||
                                                     vt_pattern_match(m->rules[i].theirs[k], st->origin[t], &f->b))) {
                f->rule = &m->rules[i], f->item = k;
                return true;
            }
    f->rule = NULL;
    return false;
}

/* Returns tensor k of those that a line joins with this one; NULL: it is missing, its name in `missing`. */
static const vt_tensor *find_joined_part(const vt_tensors *st, const fit *f, int k, char missing[VT_NAME_MAX + 1]) {
    if (!vt_pattern_expand(f->rule->theirs[k], &f->b, missing)) return NULL;
    const vt_tensor *t = vt_tensors_find(st, missing);
    for (int i = 0; !t && i < st->count; i++)
        if (!strcmp(st->origin[i], missing)) t = &st->t[i];
    return t;
}

bool vt_rename_covers(const vt_rename *m, const vt_tensors *st) {
    bool *used = calloc((size_t)m->count + 1, sizeof *used), all = used != NULL;
    for (int i = 0; all && i < vt_tensors_count(st); i++) {
        char name[VT_NAME_MAX + 1];
        fit f;
        all = find_fit(m, st, i, &f);
        if (all) used[f.rule - m->rules] = true;
        for (int k = 0; all && f.rule->from > 1 && k < f.rule->from; k++)
            all = vt_rename_zero(f.rule, k) || find_joined_part(st, &f, k, name) != NULL;
    }
    for (int i = 0; all && i < m->count; i++) all = used[i] || !m->rules[i].line || m->rules[i].maybe;
    free(used);
    return all;
}

/* ---- shapes that tell canonical tensors apart ---- */

/* Makes a tensor three-dimensional by leading sides of 1: [D] and [1,D] of a class token, [N,D] of positions. */
static void to_three(vt_tensor *t) {
    while (t->ndim > 3 && t->shape[0] == 1) memmove(t->shape, t->shape + 1, (size_t)--t->ndim * sizeof *t->shape);
    for (; t->ndim < 3; t->ndim++) {
        memmove(t->shape + 1, t->shape, (size_t)t->ndim * sizeof *t->shape);
        t->shape[0] = 1;
    }
}

/* Reorders rows of p p 3 numbers (row by row, pixel by pixel, channels last) to [3, p, p]. */
static vt_status channels_first(work *w, vt_tensor *t, size_t rows, size_t pixels) {
    size_t item = vt_dtype_size(t->dtype);
    const char *from = t->data;
    char *to = vt_tensors_take(w->st, vt_tensor_bytes(t), w->e);
    if (!to) return allocation_error(w);
    for (size_t d = 0; d < rows; d++)
        for (size_t c = 0; c < 3; c++)
            for (size_t i = 0; i < pixels; i++)
                memcpy(to + ((d * 3 + c) * pixels + i) * item, from + ((d * pixels + i) * 3 + c) * item, item);
    t->data = to;
    return VT_OK;
}

/* Puts the columns of flattened patches in our order, channels outermost; *side: of a patch. No shape tells how a patch
 * was flattened: einops' way is the default, marked as a guess later. VT_E_SHAPE: not 3 side^2 columns. */
static vt_status order_patch(work *w, vt_tensor *t, size_t rows, int64_t columns, int64_t *side) {
    const char *order = w->m->patch_order ? w->m->patch_order : vt_rename_value(w->m, "patch_order");
    *side = llround(sqrt((double)columns / 3));
    if (t->n_parts || *side < 1 || 3 * *side * *side != columns)
        return vt_fail(w->e, VT_E_SHAPE,
                       "%s: tensor " VT_NAME
                       " has shape %s: as a Linear patch embedding it needs 3 * patch * patch columns",
                       w->st->path, t->name, VT_SHAPE(t));
    return order && !strcmp(order, "chw") ? VT_OK : channels_first(w, t, rows, (size_t)(columns / 3));
}

/* Makes a Linear over the flattened patch the convolution that timm has, and notes that in w->linear. */
static vt_status to_convolution(work *w, vt_tensor *t) {
    int64_t side;
    VT_TRY(order_patch(w, t, (size_t)t->shape[0], t->shape[1], &side));
    w->linear = true;
    t->ndim = 4, t->shape[1] = 3, t->shape[2] = t->shape[3] = side;
    return VT_OK;
}

/* Reorders the numbers of a norm before a Linear patch embedding as its columns; nothing if that was a convolution or
 * patch_order is chw. VT_E_SHAPE: not 3 side^2 numbers. */
static vt_status order_norms(work *w) {
    int64_t side;
    for (size_t i = 0; w->linear && i < w->count; i++) {
        vt_tensor *t = &w->made[i].t;
        if (!strncmp(t->name, "patch_embed.norm_in.", 20) && t->ndim == 1)
            VT_TRY(order_patch(w, t, 1, t->shape[0], &side));
    }
    return VT_OK;
}

/* Gives tokens, positions and patch embedding the shape that timm has; leaves other tensors. */
static vt_status to_canonical_shape(work *w, vt_tensor *t) {
    static const char *const three[] = {"cls_token", "dist_token", "reg_token", "pos_embed"};
    for (size_t i = 0; i < sizeof three / sizeof *three; i++)
        if (!strcmp(t->name, three[i])) {
            to_three(t);
            return VT_OK;
        }
    return !strcmp(t->name, "patch_embed.proj.weight") && t->ndim == 2 ? to_convolution(w, t) : VT_OK;
}

/* ---- one tensor ---- */

/* A text that lives as long as the handle, into out. */
#define TEXT(out, ...)                                                                                                 \
    do {                                                                                                               \
        if (!((out) = vt_tensors_text(w->st, w->e, __VA_ARGS__))) return allocation_error(w);                          \
    } while (0)

/* Appends t to w->made, under name `item` of a line's right side and in timm's shape. VT_E_FORMAT: the line makes no
 * name of it. */
static vt_status add_renamed_tensor(work *w, vt_tensor *t, const fit *f, int item, const char *origin) {
    char name[VT_NAME_MAX + 1];
    if (!vt_pattern_expand(f->rule->ours[item], &f->b, name) || !*name)
        return vt_fail(w->e, VT_E_FORMAT, "%s: line %d makes no name of %s's tensor " VT_NAME, w->m->who, f->rule->line,
                       w->st->path, origin);
    TEXT(t->name, "%s", name);
    VT_TRY(to_canonical_shape(w, t));
    if (!vt_grow(&w->made, w->count, sizeof *w->made)) return no_memory(w);
    w->made[w->count++] = (struct made){*t, origin, f->rule->line};
    return VT_OK;
}

/* Have both the same type and the same sides but the first? */
static bool same_columns(const vt_tensor *a, const vt_tensor *b) {
    return a->dtype == b->dtype && a->ndim >= 1 && a->ndim == b->ndim &&
           !memcmp(a->shape + 1, b->shape + 1, (size_t)(a->ndim - 1) * sizeof *a->shape);
}

/* Makes *out a tensor of zeros of the same type and shape. */
static vt_status zeros_like(work *w, const vt_tensor *t, vt_tensor *out) {
    void *data = vt_tensors_take(w->st, vt_tensor_bytes(t), w->e);
    if (!data) return allocation_error(w);
    memset(data, 0, vt_tensor_bytes(t));
    *out = *t;
    out->data = data;
    return VT_OK;
}

/* Joins the rows of several tensors and sets row->became. The first of them stands for all; the others only find it.
 * VT_E_FORMAT: one is missing; VT_E_SHAPE: other types or columns. */
static vt_status join_tensors(work *w, const fit *f, vt_names_row *row) {
    char name[VT_NAME_MAX + 1], origin[600] = "";
    vt_tensor whole = {0}, *parts = NULL;
    if (!f->item) {
        parts = vt_tensors_take(w->st, (size_t)f->rule->from * sizeof *parts, w->e);
        if (!parts) return allocation_error(w);
    }
    for (int k = 0; k < f->rule->from; k++) {
        const bool zero = vt_rename_zero(f->rule, k);
        if (zero && f->item) continue;
        const vt_tensor *t = zero ? &parts[k] : find_joined_part(w->st, f, k, name);
        if (zero) VT_TRY(zeros_like(w, &row->was, &parts[k]));
        if (!t)
            return vt_fail(w->e, VT_E_FORMAT, "%s: tensor %.160s is missing: %s: line %d joins it with " VT_NAME,
                           w->st->path, name, w->m->who, f->rule->line, row->was.name);
        if (!same_columns(&row->was, t))
            return vt_fail(w->e, VT_E_SHAPE, "%s: tensors %.100s %s %s and %.100s %s %s cannot be joined by rows",
                           w->st->path, row->was.name, vt_dtype_name(row->was.dtype), VT_SHAPE(&row->was), t->name,
                           vt_dtype_name(t->dtype), VT_SHAPE(t));
        if (f->item) continue;
        if (!k) whole = *t, whole.numel = 0, whole.shape[0] = 0;
        whole.numel += t->numel; /* each within the file's size; sides of empty tensors are not */
        if (__builtin_add_overflow(whole.shape[0], t->shape[0], &whole.shape[0]))
            return vt_fail(w->e, VT_E_SHAPE,
                           "%s: tensors %.100s %s %s and those joined with it have more rows together than %lld",
                           w->st->path, row->was.name, vt_dtype_name(row->was.dtype), VT_SHAPE(&row->was),
                           (long long)INT64_MAX);
        parts[k] = *t;
        vt_text_item(origin, sizeof origin, " + ", "%.180s", zero ? "0" : w->st->origin[t - w->st->t]);
    }
    if (!vt_pattern_expand(f->rule->ours[0], &f->b, name)) *name = 0; /* add says so */
    TEXT(row->became, "%s (part %d of %d)", name, f->item + 1, f->rule->from);
    if (f->item) return VT_OK;
    whole.data = NULL, whole.parts = parts, whole.n_parts = f->rule->from;
    const char *text;
    TEXT(text, "%s", origin);
    return add_renamed_tensor(w, &whole, f, 0, text);
}

/* Renames a tensor, or splits its rows into equal parts, and sets row->became; an empty one is left out with row->why.
 * VT_E_SHAPE: no equal parts. */
static vt_status split_tensor(work *w, const fit *f, vt_names_row *row) {
    int n = f->rule->to;
    vt_tensor t = row->was;
    if (!t.numel) { /* vit-pytorch's class token [0, dim] of a model that pools a mean */
        TEXT(row->why, "%s", "holds no numbers");
        return VT_OK;
    }
    if (n > 1 && (t.ndim < 1 || t.shape[0] % n))
        return vt_fail(w->e, VT_E_SHAPE, "%s: tensor " VT_NAME " %s has no %d equal parts (%s: line %d)", w->st->path,
                       t.name, VT_SHAPE(&t), n, w->m->who, f->rule->line);
    if (n > 1) t.shape[0] /= n, t.numel /= (size_t)n;
    char names[600] = "";
    for (int k = 0; k < n; k++) {
        vt_tensor one = t;
        one.data = (const char *)t.data + (size_t)k * vt_tensor_bytes(&t);
        VT_TRY(add_renamed_tensor(w, &one, f, k, row->origin));
        vt_text_item(names, sizeof names, " + ", "%.180s", w->made[w->count - 1].t.name);
    }
    TEXT(row->became, "%s", names);
    return VT_OK;
}

/* ---- all of them ---- */

/* Orders new tensors for qsort by name, then by place. */
static int by_name(const void *pa, const void *pb) {
    const struct made *const *a = pa, *const *b = pb;
    int c = strcmp((*a)->t.name, (*b)->t.name);
    return c ? c : *a < *b ? -1 : *a > *b;
}

/* Fails with VT_E_FORMAT if two tensors become one name. */
static vt_status find_twins(const work *w) {
    const struct made **order = calloc(w->count + 1, sizeof *order);
    if (!order) return no_memory(w);
    for (size_t i = 0; i < w->count; i++) order[i] = &w->made[i];
    qsort(order, w->count, sizeof *order, by_name);
    vt_status s = VT_OK;
    for (size_t i = 1; i < w->count && s == VT_OK; i++) {
        const struct made *a = order[i - 1], *b = order[i];
        if (!strcmp(a->t.name, b->t.name))
            s = vt_fail(w->e, VT_E_FORMAT,
                        "%s: %.140s and %.140s both become %.100s (%s: lines %d and %d); of a network that has "
                        "both, " VT_WAY,
                        w->st->path, a->origin, b->origin, a->t.name, w->m->who, a->line, b->line);
    }
    free(order);
    return s;
}

/* Puts the tensors of w->made in place of those of w->st. */
static vt_status replace_tensors(work *w) {
    w->st->count = 0;
    for (size_t i = 0; i < w->count; i++) {
        VT_TRY(vt_tensors_add(w->st, &w->made[i].t, w->e));
        w->st->origin[i] = w->made[i].origin;
    }
    return vt_tensors_index(w->st, w->e);
}

/* Fails with VT_E_FORMAT for a line of the map that fits no tensor: a typing error. */
static vt_status find_idle(const work *w, const bool *used) {
    for (int i = 0; i < w->m->count; i++) {
        const vt_rename_rule *r = &w->m->rules[i];
        if (r->line && !r->maybe && !used[i])
            return vt_fail(w->e, VT_E_FORMAT,
                           "%s: line %d: no tensor of %s fits '%.100s' (or a line before takes them all)", w->m->who,
                           r->line, w->st->path, r->theirs[0]);
    }
    return VT_OK;
}

/* Renames all tensors into w->made; used [lines]: which lines fit one. *unmatched: the first that no line fits,
 * *unmatched_count: how many; explain shows all, the error names one. */
static vt_status rename_each_tensor(work *w, bool *used, const char **unmatched, int *unmatched_count) {
    for (int i = 0; i < w->st->count; i++) {
        vt_names_row *row = &w->rows[i];
        fit f;
        if (!find_fit(w->m, w->st, i, &f)) {
            row->why = "NO LINE FITS IT";
            if (!(*unmatched_count)++) *unmatched = row->origin;
            continue;
        }
        used[f.rule - w->m->rules] = true;
        if (!f.rule->to)
            TEXT(row->why, "%s", f.rule->why);
        else
            VT_TRY(f.rule->from > 1 ? join_tensors(w, &f, row) : split_tensor(w, &f, row));
    }
    return VT_OK;
}

/* Applies all lines to w->st; all_lines: each must fit a tensor. VT_E_FORMAT: a tensor that no line fits, or two of one
 * name. */
static vt_status apply_rules(work *w, bool *used, bool all_lines) {
    const char *unmatched = NULL;
    char more[40] = "";
    int unmatched_count = 0;
    VT_TRY(rename_each_tensor(w, used, &unmatched, &unmatched_count));
    if (unmatched_count > 1) snprintf(more, sizeof more, " and %d more", unmatched_count - 1);
    if (unmatched_count)
        return vt_fail(w->e, VT_E_FORMAT,
                       "%s: tensor " VT_NAME "%s: no line of %s fits (vitrine info @explain lists all)%s", w->st->path,
                       unmatched, more, w->m->who, all_lines ? "" : "; if the logits need it, " VT_WAY);
    if (all_lines) VT_TRY(find_idle(w, used));
    VT_TRY(find_twins(w));
    VT_TRY(order_norms(w));
    return replace_tensors(w);
}

vt_status vt_rename_apply(const vt_rename *m, vt_tensors *st, bool all_lines, vt_names_row **rows, int *n_rows,
                          vt_err *e) {
    size_t n = (size_t)st->count;
    work w = {.m = m, .st = st, .e = e};
    *n_rows = 0;
    *rows = w.rows = vt_tensors_take(st, (n + 1) * sizeof **rows, e);
    bool *used = calloc((size_t)m->count + 1, sizeof *used);
    if (!w.rows) {
        free(used);
        return allocation_error(&w);
    }
    if (!used) return no_memory(&w);
    for (size_t i = 0; i < n; i++) w.rows[i] = (vt_names_row){.was = st->t[i], .origin = st->origin[i]};
    *n_rows = (int)n;
    vt_status s = apply_rules(&w, used, all_lines);
    free(used), free(w.made);
    return s;
}

bool vt_rename_theirs(const vt_rename *m, const char *canonical, char *buf, size_t size) {
    for (int i = 0; i < m->count; i++) {
        const vt_rename_rule *r = &m->rules[i];
        char name[VT_NAME_MAX + 1];
        vt_binding b;
        bool fits = false;
        for (int k = 0; k < r->to && !fits; k++) fits = vt_pattern_match(r->ours[k], canonical, &b);
        if (!fits) continue;
        buf[0] = 0;
        for (int k = 0; k < r->from; k++) {
            if (!vt_pattern_expand(r->theirs[k], &b, name)) return false;
            vt_text_item(buf, size, " + ", "%s", name);
        }
        return strcmp(buf, canonical) != 0;
    }
    return false;
}
