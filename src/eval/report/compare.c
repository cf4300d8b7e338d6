/* SPDX-License-Identifier: MIT */
#include "eval/report/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "core/json.h"
#include "eval/result_index.h"
#include "eval/header.h"

/* What may differ between two runs that are compared: the model, and what it was run with. */
static bool may_differ(const char *key) {
    static const char *const keys[] = {"weights", "model",        "attacks", "surrogate",  "blas",
                                       "sources", "compiler",     "vitrine", "exhaustive", "gradient_cost",
                                       "notes",   "weights_name", "search"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return true;
    return false;
}

/* Values of the header that a sentence can name: text as it is, of an object the keys that differ. */
static void describe_difference(const json_t *a, const json_t *b, char *text, size_t size) {
    char names[200];
    if (json_is_object(a) && json_is_object(b) && vt_header_difference(a, b, false, names, sizeof names))
        snprintf(text, size, "not the same (%s)", names);
    else if (!a || !b)
        snprintf(text, size, "stated in one of them alone");
    else {
        char *x = vt_json_text(a, JSON_COMPACT | JSON_ENCODE_ANY), *y = vt_json_text(b, JSON_COMPACT | JSON_ENCODE_ANY);
        snprintf(text, size, "%.80s in the one and %.80s in the other", x ? x : "?", y ? y : "?");
        free(x), free(y);
    }
}

static vt_status other_data(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    const vt_header *x = a->header, *y = b->header;
    char names[200] = "";
    bool same = !strcmp(x->data.sha256, y->data.sha256);
    if (same) vt_header_difference(x->data.document, y->data.document, false, names, sizeof names);
    return vt_fail(e, VT_E_USAGE,
                   "%s and %s cannot be compared: %s%s (%.20s, %.10s split, SHA-256 %.12s... and %.20s, %.10s split, "
                   "%.12s...)",
                   a->dir, b->dir, same ? "they took the same data otherwise: " : "they are over different data sets",
                   names, x->data.format, x->data.split, x->data.sha256, y->data.format, y->data.split, y->data.sha256);
}

static vt_status check_keys_agree(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    vt_header_gap gap;
    char text[300];
    if (!vt_header_gap_find(&gap, a->header, b->header, may_differ)) return VT_OK;
    if (!strcmp(gap.key, "data")) return other_data(a, b, e);
    describe_difference(gap.in_a, gap.in_b, text, sizeof text);
    return vt_fail(e, VT_E_USAGE, "%s and %s cannot be compared: %s is %s", a->dir, b->dir, gap.key, text);
}

static vt_status same_question(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    bool curve = a->header->curve;
    if (curve != b->header->curve)
        return vt_fail(e, VT_E_USAGE,
                       "%s and %s cannot be compared: %s is a curve over eps, the other an evaluation at one eps",
                       a->dir, b->dir, curve ? a->dir : b->dir);
    VT_TRY(check_keys_agree(a, b, e));
    return check_keys_agree(b, a, e);
}

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

vt_status vt_compared_open(vt_compared *c, const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    size_t all = 0;
    *c = (vt_compared){.images = calloc(a->count + b->count + 1, sizeof *c->images)};
    if (!c->images) return vt_fail(e, VT_E_MEMORY, "no memory to compare %s and %s", a->dir, b->dir);
    all = vt_result_index_images(a, c->images);
    all += vt_result_index_images(b, c->images + all);
    qsort(c->images, all, sizeof *c->images, by_number);
    for (size_t i = 0; i < all; i++)
        if (!c->n || c->images[i] != c->images[c->n - 1]) c->images[c->n++] = c->images[i];
    return VT_OK;
}

void vt_compared_close(vt_compared *c) {
    free(c->images);
    *c = (vt_compared){0};
}

size_t vt_compared_place(const vt_compared *c, int32_t image, size_t from) {
    while (c->images[from] != image) from++;
    return from;
}

/* Per image of a run: 0 not judged, 1 wrong or broken, 2 right under entry (0: clean). An entry that is not finished
 * for an image (killed runs) leaves it out. */
static void fill_states_for_entry(uint8_t *state, const vt_compared *c, const vt_result_index *b, int entry) {
    memset(state, 0, c->n);
    for (size_t i = 0, at = 0; i < b->n; i++) {
        at = vt_compared_place(c, b->images[i], at);
        if (vt_result_index_done(b, entry, i)) state[at] = vt_result_index_right(b, entry, i) ? 2 : 1;
    }
}

void vt_pair_count(vt_pair *p, const uint8_t *a, const uint8_t *b, const vt_compared *c) {
    for (size_t i = 0; i < c->n; i++) {
        if (!a[i] || !b[i]) continue;
        p->images++;
        p->right_a += a[i] == 2, p->right_b += b[i] == 2;
        p->only_a += a[i] == 2 && b[i] == 1, p->only_b += a[i] == 1 && b[i] == 2;
    }
    p->test = vt_mcnemar_exact(p->only_a, p->only_b);
    vt_paired_interval(p->only_a, p->only_b, p->images, VT_Z_TWO_SIDED, &p->low, &p->high);
    p->changed = calloc((size_t)(p->only_a + p->only_b) + 1, sizeof *p->changed);
    for (size_t i = 0, at_a = 0, at_b = (size_t)p->only_a; p->changed && i < c->n; i++) {
        if (a[i] == 2 && b[i] == 1) p->changed[at_a++] = c->images[i];
        if (a[i] == 1 && b[i] == 2) p->changed[at_b++] = c->images[i];
    }
}

void vt_pairs_free(vt_pair *rows, int n) {
    for (int i = 0; i < n; i++) {
        free(rows[i].changed);
        rows[i].changed = NULL;
    }
}

/* Both looked at the same images. */
vt_status vt_compare_images(const vt_ledger *a, const vt_ledger *b, const uint8_t *x, const uint8_t *y,
                            const vt_compared *c, vt_err *e) {
    size_t both = 0, in_a = 0, in_b = 0, first = c->n;
    for (size_t i = c->n; i-- > 0;) {
        both += x[i] && y[i], in_a += x[i] != 0, in_b += y[i] != 0;
        if (!x[i] != !y[i]) first = i;
    }
    if (!both || first == c->n) return VT_OK; /* nothing in common is said by the caller */
    return vt_fail(e, VT_E_USAGE,
                   "%s and %s are over different images: %zu and %zu, of which %zu are in both (image %d is not); "
                   "@common compares those",
                   a->dir, b->dir, in_a, in_b, both, c->images[first]);
}

bool vt_compare_same(const vt_header_attack *a, const vt_header_attack *b) {
    return !strcmp(a->id, b->id) && a->scoring == b->scoring;
}

/* The same id is the same attack only if it follows the same surrogate, where it follows one. */
static bool same_source(const vt_ledger *a, const vt_ledger *b, const vt_header_attack *attack) {
    if (vt_header_agree(a->header, b->header, "surrogate")) return true;
    for (int k = 0; k < attack->n_stages; k++) {
        const vt_attack_def *d = vt_attack_find(attack->stages[k].name);
        if (d && d->surrogate) return false;
    }
    return true;
}

static bool same_entry(const vt_ledger *a, int i, const vt_ledger *b, int k) {
    const vt_header_attack *p = vt_header_entry(a->header, i);
    return vt_compare_same(p, vt_header_entry(b->header, k)) && same_source(a, b, p);
}

int vt_compare_alone(char *text, size_t size, const vt_ledger *a, const vt_ledger *b) {
    int n = 0;
    size_t at = 0;
    *text = 0;
    for (int i = 1; !a->header->curve && i <= a->header->n_attacks; i++) {
        const vt_header_attack *p = vt_header_entry(a->header, i);
        bool same = false, called = false;
        char name[56];
        for (int k = 1; k <= b->header->n_attacks && !same; k++) {
            const vt_header_attack *q = vt_header_entry(b->header, k);
            same = same_entry(a, i, b, k), called = called || (!strcmp(p->name, q->name) && p->scoring == q->scoring);
        }
        if (same) continue;
        if (at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s%s", n ? ", " : "", vt_attack_label(p, name, sizeof name),
                                   called ? " (with other options)" : "");
        n++;
    }
    return n;
}

/* Two runs and the states of their images. */
typedef struct side {
    const vt_ledger *ledger;
    vt_result_index results;
    int32_t *images;
    uint8_t *state;
} side;

static vt_status side_open(side *s, const vt_ledger *l, const vt_compared *c, vt_err *e) {
    s->ledger = l;
    s->state = calloc(c->n + 1, 1);
    s->images = calloc(l->count + 1, sizeof *s->images);
    if (!s->state || !s->images) return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu images", c->n);
    VT_TRY(vt_result_index_open(&s->results, l->header, s->images, vt_result_index_images(l, s->images), e));
    return vt_result_index_note(&s->results, l, 0, e);
}

static void side_close(side *s) {
    vt_result_index_close(&s->results);
    free(s->images), free(s->state);
}

static void one_row(vt_pair *row, const char *name, side *a, int i, side *b, int k, const vt_compared *c) {
    fill_states_for_entry(a->state, c, &a->results, i);
    fill_states_for_entry(b->state, c, &b->results, k);
    *row = (vt_pair){0};
    snprintf(row->name, sizeof row->name, "%s", name);
    vt_pair_count(row, a->state, b->state, c);
}

static vt_status all_rows(vt_pair *rows, int most, int *n, side *a, side *b, const vt_compared *c, bool common,
                          vt_err *e) {
    fill_states_for_entry(a->state, c, &a->results, 0);
    fill_states_for_entry(b->state, c, &b->results, 0);
    if (!common) VT_TRY(vt_compare_images(a->ledger, b->ledger, a->state, b->state, c, e));
    one_row(&rows[(*n)++], "clean", a, 0, b, 0, c);
    for (int i = 0; i < a->results.n_entries; i++)
        for (int k = 0; k < b->results.n_entries && *n < most; k++) {
            const vt_header_attack *p = vt_header_entry(a->ledger->header, i + 1);
            if (!same_entry(a->ledger, i + 1, b->ledger, k + 1)) continue;
            vt_pair *row = &rows[(*n)++];
            char name[56];
            one_row(row, vt_attack_label(p, name, sizeof name), a, i + 1, b, k + 1, c);
            if (row->images < rows[0].images)
                return vt_fail(e, VT_E_USAGE, "%s or %s is not finished: %s has results for %lld of %lld images",
                               a->ledger->dir, b->ledger->dir, row->name, (long long)row->images,
                               (long long)rows[0].images);
            break;
        }
    if (rows[0].images) return VT_OK;
    return vt_fail(e, VT_E_USAGE, "%s and %s have no image in common", a->ledger->dir, b->ledger->dir);
}

vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e) {
    side x = {0}, y = {0};
    vt_compared c = {0};
    *n = 0;
    VT_TRY(same_question(a, b, e));
    if (a->header->curve) return vt_compare_curves(rows, most, n, a, b, common, e);
    vt_status s = vt_compared_open(&c, a, b, e);
    if (s == VT_OK) s = side_open(&x, a, &c, e);
    if (s == VT_OK) s = side_open(&y, b, &c, e);
    if (s == VT_OK) s = all_rows(rows, most, n, &x, &y, &c, common, e);
    side_close(&x), side_close(&y);
    vt_compared_close(&c);
    return s;
}

void vt_compare_adjust(vt_pair *rows, int n, double alpha) {
    double *p = calloc(3 * (size_t)n + 1, sizeof *p), *q = p + n, *both = q + n;
    for (int i = 0; p && i < n; i++) both[i] = rows[i].test.two_sided;
    if (p) vt_holm(p, both, n);
    for (int i = 0; i < n; i++) {
        rows[i].adjusted = p ? p[i] : 1;
        /* the two-sided test says that they differ, the counts say which way */
        bool b_ahead = rows[i].only_b > rows[i].only_a;
        rows[i].b_better = vt_claim(b_ahead ? rows[i].adjusted : 1, b_ahead ? 1 : rows[i].adjusted, alpha);
    }
    free(p);
}
