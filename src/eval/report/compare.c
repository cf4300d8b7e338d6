/* SPDX-License-Identifier: MIT */
#include "eval/report/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "base/json.h"
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

bool vt_sides_meet(const vt_side *a, const vt_side *b, size_t *i, size_t *k) {
    while (*i < a->n && *k < b->n && a->images[*i] != b->images[*k]) a->images[*i] < b->images[*k] ? ++*i : ++*k;
    return *i < a->n && *k < b->n;
}

void vt_pair_count(vt_pair *p, const vt_side *a, const vt_side *b) {
    for (size_t i = 0, k = 0; vt_sides_meet(a, b, &i, &k); i++, k++) {
        uint8_t x = a->state[i], y = b->state[k];
        if (!x || !y) continue;
        p->images++;
        p->right_a += x == 2, p->right_b += y == 2;
        p->only_a += x > y, p->only_b += y > x;
    }
    p->test = vt_mcnemar_exact(p->only_a, p->only_b);
    vt_paired_interval(p->only_a, p->only_b, p->images, VT_Z_TWO_SIDED, &p->low, &p->high);
    p->changed = calloc((size_t)(p->only_a + p->only_b) + 1, sizeof *p->changed);
    size_t at_a = 0, at_b = (size_t)p->only_a;
    for (size_t i = 0, k = 0; p->changed && vt_sides_meet(a, b, &i, &k); i++, k++) {
        uint8_t x = a->state[i], y = b->state[k];
        if (x && y && x != y) p->changed[x > y ? at_a++ : at_b++] = a->images[i];
    }
}

void vt_pairs_free(vt_pair *rows, int n) {
    for (int i = 0; i < n; i++) {
        free(rows[i].changed);
        rows[i].changed = NULL;
    }
}

vt_status vt_sides_agree(const vt_side *a, const vt_side *b, vt_err *e) {
    size_t both = 0, in_a = 0, in_b = 0;
    int32_t first = -1; /* judged in one of them alone */
    for (size_t i = 0, k = 0; i < a->n || k < b->n;) {
        bool has_a = i < a->n && (k == b->n || a->images[i] <= b->images[k]);
        bool has_b = k < b->n && (i == a->n || b->images[k] <= a->images[i]);
        int32_t image = has_a ? a->images[i] : b->images[k];
        bool x = has_a && a->state[i], y = has_b && b->state[k];
        both += x && y, in_a += x, in_b += y;
        if (x != y && first < 0) first = image;
        i += has_a, k += has_b;
    }
    if (!both || first < 0) return VT_OK;
    return vt_fail(e, VT_E_USAGE,
                   "%s and %s are over different images: %zu and %zu, of which %zu are in both (image %d is not); "
                   "@common compares those",
                   a->ledger->dir, b->ledger->dir, in_a, in_b, both, first);
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

/* One run. */
typedef struct run {
    vt_side side;
    vt_result_index results;
} run;

static vt_status run_open(run *r, const vt_ledger *l, vt_err *e) {
    VT_TRY(vt_result_index_read(&r->results, l, e));
    r->side = (vt_side){.ledger = l, .images = r->results.images, .n = r->results.n};
    if ((r->side.state = calloc(r->side.n + 1, 1))) return VT_OK;
    return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu images", r->side.n);
}

static void run_close(run *r) {
    vt_result_index_close(&r->results);
    free(r->side.state);
}

/* Under an entry (0: clean). An image that it is not finished for (killed runs) is left out. */
static void fill_states(run *r, int entry) {
    for (size_t i = 0; i < r->side.n; i++)
        r->side.state[i] =
            vt_result_index_done(&r->results, entry, i) ? vt_result_index_right(&r->results, entry, i) ? 2 : 1 : 0;
}

static void one_row(vt_pair *row, const char *name, run *a, int i, run *b, int k) {
    fill_states(a, i), fill_states(b, k);
    *row = (vt_pair){0};
    snprintf(row->name, sizeof row->name, "%s", name);
    vt_pair_count(row, &a->side, &b->side);
}

static vt_status all_rows(vt_pair *rows, int most, int *n, run *x, run *y, bool common, vt_err *e) {
    const vt_ledger *a = x->side.ledger, *b = y->side.ledger;
    one_row(&rows[(*n)++], "clean", x, 0, y, 0);
    if (!common) VT_TRY(vt_sides_agree(&x->side, &y->side, e));
    for (int i = 1; i <= a->header->n_attacks; i++)
        for (int k = 1; k <= b->header->n_attacks && *n < most; k++) {
            if (!same_entry(a, i, b, k)) continue;
            vt_pair *row = &rows[(*n)++];
            char name[56];
            one_row(row, vt_attack_label(vt_header_entry(a->header, i), name, sizeof name), x, i, y, k);
            if (row->images < rows[0].images)
                return vt_fail(e, VT_E_USAGE, "%s or %s is not finished: %s has results for %lld of %lld images",
                               a->dir, b->dir, row->name, (long long)row->images, (long long)rows[0].images);
            break;
        }
    return rows[0].images ? VT_OK : vt_fail(e, VT_E_USAGE, "%s and %s have no image in common", a->dir, b->dir);
}

vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e) {
    run x = {0}, y = {0};
    *n = 0;
    VT_TRY(same_question(a, b, e));
    if (a->header->curve) return vt_compare_curves(rows, most, n, a, b, common, e);
    vt_status s = run_open(&x, a, e);
    if (s == VT_OK) s = run_open(&y, b, e);
    if (s == VT_OK) s = all_rows(rows, most, n, &x, &y, common, e);
    run_close(&x), run_close(&y);
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
