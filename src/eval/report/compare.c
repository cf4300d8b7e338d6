/* SPDX-License-Identifier: MIT */
#include "eval/report/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "base/json.h"
#include "base/stats.h"
#include "eval/result_index.h"
#include "eval/header.h"
#include "eval/report/curve.h"

/* What may differ between two runs that are compared: the model, and what it was run with. */
static bool may_differ(const char *key) {
    static const char *const keys[] = {"weights", "model",        "attacks", "surrogate",  "blas",
                                       "sources", "compiler",     "vitrine", "exhaustive", "gradient_cost",
                                       "notes",   "weights_name", "search",  "certify"};
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

/* Fails, saying how the data of two runs differ: another set, or the same set read otherwise. */
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

/* VT_E_USAGE, with key and both values, if a key of a's header has another value in b's and may not. */
static vt_status check_keys_agree(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    vt_header_gap gap;
    char text[300];
    if (!vt_header_gap_find(&gap, a->header, b->header, may_differ)) return VT_OK;
    if (!strcmp(gap.key, "data")) return other_data(a, b, e);
    describe_difference(gap.in_a, gap.in_b, text, sizeof text);
    return vt_fail(e, VT_E_USAGE, "%s and %s cannot be compared: %s is %s", a->dir, b->dir, gap.key, text);
}

/* VT_E_USAGE if the runs are of two kinds (curve, evaluation) or their headers disagree where they may not. */
static vt_status same_question(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    bool curve = a->header->curve;
    if (curve != b->header->curve)
        return vt_fail(e, VT_E_USAGE,
                       "%s and %s cannot be compared: %s is a curve over eps, the other an evaluation at one eps",
                       a->dir, b->dir, curve ? a->dir : b->dir);
    VT_TRY(check_keys_agree(a, b, e));
    return check_keys_agree(b, a, e);
}

/* ---- what both kinds share ---- */

/* What became of a run's images under one row. */
typedef struct side {
    const vt_ledger *ledger;
    const int32_t *images; /* [n] ascending */
    uint8_t *state;        /* [n] 0: not judged, 1: wrong or broken, 2: right */
    size_t n;
} side;

/* Moves *i and *k on to the next image, or leaves them at one, that both have; false: none is left. */
static bool next_common_image(const side *a, const side *b, size_t *i, size_t *k) {
    while (*i < a->n && *k < b->n && a->images[*i] != b->images[*k]) a->images[*i] < b->images[*k] ? ++*i : ++*k;
    return *i < a->n && *k < b->n;
}

/* Counts, test, interval and changed images of a row, from the states of its images in both. */
static void fill_pair(vt_pair *p, const side *a, const side *b) {
    for (size_t i = 0, k = 0; next_common_image(a, b, &i, &k); i++, k++) {
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
    for (size_t i = 0, k = 0; p->changed && next_common_image(a, b, &i, &k); i++, k++) {
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

/* VT_E_USAGE unless both judged the same images; no common image is the caller's to refuse. */
static vt_status check_same_images(const side *a, const side *b, vt_err *e) {
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

/* Returns whether a's attack i and b's attack k are the same, from the same source network. */
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

/* One of the two runs. */
typedef struct run {
    side side;
    vt_result_index results;
    vt_curve curve; /* of a curve's ledger alone */
} run;

/* Reads the results of a finished or unfinished run; of a curve, its distances too. VT_E_MEMORY. */
static vt_status run_open(run *r, const vt_ledger *l, vt_err *e) {
    VT_TRY(vt_result_index_read(&r->results, l, e));
    r->side = (side){.ledger = l, .images = r->results.images, .n = r->results.n};
    if (!(r->side.state = calloc(r->side.n + 1, 1)))
        return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu images", r->side.n);
    return l->header->curve ? vt_curve_make(&r->curve, l, e) : VT_OK;
}

/* Accepts a zeroed one. */
static void run_close(run *r) {
    vt_result_index_close(&r->results);
    vt_curve_free(&r->curve);
    free(r->side.state);
}

static vt_status fail_nothing_common(const run *a, const run *b, vt_err *e) {
    return vt_fail(e, VT_E_USAGE, "%s and %s have no image in common", a->side.ledger->dir, b->side.ledger->dir);
}

/* ---- two evaluations ---- */

/* Under an entry (0: clean). An image that it is not finished for (killed runs) is left out. */
static void fill_states(run *r, int entry) {
    for (size_t i = 0; i < r->side.n; i++)
        r->side.state[i] =
            vt_result_index_done(&r->results, entry, i) ? vt_result_index_right(&r->results, entry, i) ? 2 : 1 : 0;
}

/* Sets *row to the images' states under a's entry i and b's entry k, compared. */
static void one_row(vt_pair *row, const char *name, run *a, int i, run *b, int k) {
    fill_states(a, i), fill_states(b, k);
    *row = (vt_pair){0};
    snprintf(row->name, sizeof row->name, "%s", name);
    fill_pair(row, &a->side, &b->side);
}

/* Adds rows for clean, certified and every attack that both runs have. common: over the images that both have. */
static vt_status attack_rows(vt_pair *rows, int most, int *n, run *x, run *y, bool common, vt_err *e) {
    const vt_ledger *a = x->side.ledger, *b = y->side.ledger;
    one_row(&rows[(*n)++], "clean", x, 0, y, 0);
    if (!common) VT_TRY(check_same_images(&x->side, &y->side, e));
    if (a->header->certify.method && b->header->certify.method &&
        !strcmp(a->header->certify.method, b->header->certify.method))
        one_row(&rows[(*n)++], "certified", x, VT_ENTRY_CERTIFY, y, VT_ENTRY_CERTIFY);
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
    return rows[0].images ? VT_OK : fail_nothing_common(x, y, e);
}

/* ---- two curves: right and unbroken at each confirmed eps, and the minimum norms ---- */

/* Images that entry k has to try: the right ones, at a chosen eps those that no entry before it broke within that. */
static int64_t count_images_to_try(const vt_curve *c, int k) {
    int64_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        bool stands = c->images[i].right;
        for (int j = 0; j < k && isfinite(c->entries[k].eps); j++)
            stands = stands && c->norms[i * (size_t)c->n_entries + (size_t)j] > c->entries[k].eps;
        n += stands;
    }
    return n;
}

/* VT_E_USAGE if some entry of a curve lacks results. */
static vt_status check_finished(const vt_curve *c, const char *dir, vt_err *e) {
    for (int k = 0; k < c->n_entries; k++) {
        long long want = (long long)count_images_to_try(c, k), have = (long long)c->entries[k].tried;
        if (have < want)
            return vt_fail(e, VT_E_USAGE, "%s is not finished: %s has results for %lld of %lld images", dir,
                           c->entries[k].name, have, want);
    }
    return c->n ? VT_OK : vt_fail(e, VT_E_USAGE, "%s is not finished: it has no image yet", dir);
}

/* Sets each image of a curve to 2 (right and not broken within eps) or 1. */
static void fill_states_at_eps(run *r, double eps) {
    for (size_t i = 0; i < r->side.n; i++)
        r->side.state[i] = r->curve.images[i].right && r->curve.images[i].distance > eps ? 2 : 1;
}

/* Sets *row to two curves compared at one eps. */
static void radius_row(vt_pair *row, run *a, run *b, double eps) {
    fill_states_at_eps(a, eps), fill_states_at_eps(b, eps);
    fill_pair(row, &a->side, &b->side);
}

/* Did the same attacks run, in the same order, at this eps (INFINITY: those of minimum norm)? */
static bool same_attacks(const vt_curve *a, const vt_curve *b, double eps) {
    int i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a->n_entries && a->entries[i].eps != eps) i++;
        while (k < b->n_entries && b->entries[k].eps != eps) k++;
        if (i == a->n_entries || k == b->n_entries) return i == a->n_entries && k == b->n_entries;
        if (strcmp(a->entries[i].id, b->entries[k].id)) return false;
    }
}

/* Returns a curve's entry of this eps; NULL: it has none. */
static const vt_curve_entry *entry_at(const vt_curve *c, double eps) {
    for (int k = 0; k < c->n_entries; k++)
        if (c->entries[k].eps == eps) return &c->entries[k];
    return NULL;
}

/* The smallest confirmed eps above `last` of either; INFINITY: no more. */
static double next_eps(const vt_curve *a, const vt_curve *b, double last) {
    double eps = INFINITY;
    for (int k = 0; k < a->n_entries; k++)
        if (a->entries[k].eps > last) eps = fmin(eps, a->entries[k].eps);
    for (int k = 0; k < b->n_entries; k++)
        if (b->entries[k].eps > last) eps = fmin(eps, b->entries[k].eps);
    return eps;
}

/* Sets the name of a row of two curves to its eps, and a remark if the attacks of that eps differ. */
static void name_radius(vt_pair *row, const vt_curve *x, const vt_curve *y, double eps) {
    const vt_curve_entry *a = entry_at(x, eps), *b = entry_at(y, eps);
    snprintf(row->name, sizeof row->name, "%s", a ? a->eps_text : b->eps_text);
    row->remark = !b                         ? "attacks of this eps ran in A alone, which can only lower A"
                  : !a                       ? "attacks of this eps ran in B alone, which can only lower B"
                  : !same_attacks(x, y, eps) ? "attacks of this eps are not the same in A and B"
                                             : NULL;
}

/* By the minimum-norm attacks alone: what attacks of a chosen eps found says nothing below that eps. */
static vt_status norms_row(vt_pair *row, const run *x, const run *y, vt_err *e) {
    size_t most = x->side.n + 1, n = 0;
    double *a = calloc(2 * most, sizeof *a), *b = a + most;
    if (!a) return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu norms", x->side.n);
    *row = (vt_pair){.name = "norms", .norms = true};
    for (size_t i = 0, k = 0; next_common_image(&x->side, &y->side, &i, &k); i++, k++, n++) {
        a[n] = x->curve.images[i].unconfirmed, b[n] = y->curve.images[k].unconfirmed;
        row->only_a += a[n] > b[n], row->only_b += b[n] > a[n];
    }
    row->images = (int64_t)n;
    row->test = vt_mcnemar_exact(row->only_a, row->only_b); /* the sign test: ties say nothing */
    vt_paired_interval(row->only_a, row->only_b, row->images, VT_Z_TWO_SIDED, &row->low, &row->high);
    if (n) row->median_a = vt_median(a, n), row->median_b = vt_median(b, n);
    free(a);
    return VT_OK;
}

/* Adds a row for clean accuracy and one for each eps that either curve has. */
static vt_status curve_rows(vt_pair *rows, int most, int *n, run *x, run *y, bool common, vt_err *e) {
    const vt_curve *a = &x->curve, *b = &y->curve;
    VT_TRY(check_finished(a, x->side.ledger->dir, e));
    VT_TRY(check_finished(b, y->side.ledger->dir, e));
    rows[0] = (vt_pair){.name = "clean"};
    radius_row(&rows[(*n)++], x, y, 0); /* a point at distance 0 would be the image itself, which is right */
    if (!rows[0].images) return fail_nothing_common(x, y, e);
    if (!common) VT_TRY(check_same_images(&x->side, &y->side, e));
    for (double eps = next_eps(a, b, 0); isfinite(eps) && *n < most - 1; eps = next_eps(a, b, eps)) {
        rows[*n] = (vt_pair){0};
        name_radius(&rows[*n], a, b, eps);
        radius_row(&rows[(*n)++], x, y, eps);
    }
    if (same_attacks(a, b, INFINITY)) return norms_row(&rows[(*n)++], x, y, e);
    rows[0].remark = "the minimum-norm attacks are not the same in A and B, so that norms are not compared";
    return VT_OK;
}

/* ---- either ---- */

vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e) {
    run x = {0}, y = {0};
    *n = 0;
    VT_TRY(same_question(a, b, e));
    vt_status s = run_open(&x, a, e);
    if (s == VT_OK) s = run_open(&y, b, e);
    if (s == VT_OK) s = (a->header->curve ? curve_rows : attack_rows)(rows, most, n, &x, &y, common, e);
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
