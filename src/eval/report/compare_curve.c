/* SPDX-License-Identifier: MIT */
/* Two curves of the same images, paired: right and unbroken at each confirmed eps, and the minimum norms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "eval/report/compare.h"
#include "base/stats.h"
#include "eval/report/curve.h"

typedef struct two {
    vt_curve a, b;
    vt_side x, y;
} two;

/* ---- is it all there? ---- */

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

static vt_status check_finished(const vt_curve *c, const char *dir, vt_err *e) {
    for (int k = 0; k < c->n_entries; k++) {
        long long want = (long long)count_images_to_try(c, k), have = (long long)c->entries[k].tried;
        if (have < want)
            return vt_fail(e, VT_E_USAGE, "%s is not finished: %s has results for %lld of %lld images", dir,
                           c->entries[k].name, have, want);
    }
    return c->n ? VT_OK : vt_fail(e, VT_E_USAGE, "%s is not finished: it has no image yet", dir);
}

/* ---- rows ---- */

static vt_status open_side(vt_side *s, const vt_curve *c, const vt_ledger *l, vt_err *e) {
    int32_t *images = calloc(c->n + 1, sizeof *images);
    *s = (vt_side){.ledger = l, .images = images, .state = calloc(c->n + 1, 1), .n = c->n};
    if (!images || !s->state) return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu images", c->n);
    for (size_t i = 0; i < c->n; i++) images[i] = c->images[i].image;
    return VT_OK;
}

static void close_side(vt_side *s) { free((void *)(uintptr_t)s->images), free(s->state); }

static void fill_states_at_eps(vt_side *s, const vt_curve *c, double eps) {
    for (size_t i = 0; i < c->n; i++) s->state[i] = c->images[i].right && c->images[i].distance > eps ? 2 : 1;
}

static void radius_row(vt_pair *row, two *t, double eps) {
    fill_states_at_eps(&t->x, &t->a, eps);
    fill_states_at_eps(&t->y, &t->b, eps);
    vt_pair_count(row, &t->x, &t->y);
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

static const vt_curve_entry *entry_at(const vt_curve *c, double eps) {
    for (int k = 0; k < c->n_entries; k++)
        if (c->entries[k].eps == eps) return &c->entries[k];
    return NULL;
}

/* The smallest confirmed eps above `last` of either; INFINITY: no more. */
static double next_eps(const two *t, double last) {
    double eps = INFINITY;
    for (int side = 0; side < 2; side++) {
        const vt_curve *c = side ? &t->b : &t->a;
        for (int k = 0; k < c->n_entries; k++)
            if (c->entries[k].eps > last) eps = fmin(eps, c->entries[k].eps);
    }
    return eps;
}

static void name_radius(vt_pair *row, const two *t, double eps) {
    const vt_curve_entry *a = entry_at(&t->a, eps), *b = entry_at(&t->b, eps);
    snprintf(row->name, sizeof row->name, "%s", a ? a->eps_text : b->eps_text);
    row->remark = !b                                 ? "attacks of this eps ran in A alone, which can only lower A"
                  : !a                               ? "attacks of this eps ran in B alone, which can only lower B"
                  : !same_attacks(&t->a, &t->b, eps) ? "attacks of this eps are not the same in A and B"
                                                     : NULL;
}

/* By the minimum-norm attacks alone: what attacks of a chosen eps found says nothing below that eps. */
static vt_status norms_row(vt_pair *row, const two *t, vt_err *e) {
    double *a = malloc((t->a.n + 1) * sizeof *a), *b = malloc((t->a.n + 1) * sizeof *b);
    size_t n = 0;
    *row = (vt_pair){.name = "norms", .norms = true};
    for (size_t i = 0, k = 0; a && b && vt_sides_meet(&t->x, &t->y, &i, &k); i++, k++) {
        a[n] = t->a.images[i].unconfirmed, b[n] = t->b.images[k].unconfirmed;
        row->only_a += a[n] > b[n], row->only_b += b[n] > a[n];
        n++;
    }
    row->images = (int64_t)n;
    row->test = vt_mcnemar_exact(row->only_a, row->only_b); /* the sign test: ties say nothing */
    vt_paired_interval(row->only_a, row->only_b, row->images, VT_Z_TWO_SIDED, &row->low, &row->high);
    bool good = a && b;
    if (good && n) row->median_a = vt_median(a, n), row->median_b = vt_median(b, n);
    free(a), free(b);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory to compare %zu norms", t->a.n);
}

static vt_status fill_comparison_rows(two *t, vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b,
                                      bool common, vt_err *e) {
    VT_TRY(check_finished(&t->a, a->dir, e));
    VT_TRY(check_finished(&t->b, b->dir, e));
    VT_TRY(open_side(&t->x, &t->a, a, e));
    VT_TRY(open_side(&t->y, &t->b, b, e));
    rows[0] = (vt_pair){.name = "clean"};
    radius_row(&rows[(*n)++], t, 0); /* a point at distance 0 would be the image itself, which is right */
    if (!rows[0].images) return vt_fail(e, VT_E_USAGE, "%s and %s have no image in common", a->dir, b->dir);
    if (!common) VT_TRY(vt_sides_agree(&t->x, &t->y, e));
    for (double eps = next_eps(t, 0); isfinite(eps) && *n < most - 1; eps = next_eps(t, eps)) {
        rows[*n] = (vt_pair){0};
        name_radius(&rows[*n], t, eps);
        radius_row(&rows[(*n)++], t, eps);
    }
    if (same_attacks(&t->a, &t->b, INFINITY))
        VT_TRY(norms_row(&rows[(*n)++], t, e));
    else
        rows[0].remark = "the minimum-norm attacks are not the same in A and B, so that norms are not compared";
    return VT_OK;
}

vt_status vt_compare_curves(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common,
                            vt_err *e) {
    two t = {0};
    vt_status s = vt_curve_make(&t.a, a, e);
    if (s == VT_OK) s = vt_curve_make(&t.b, b, e);
    if (s == VT_OK) s = fill_comparison_rows(&t, rows, most, n, a, b, common, e);
    vt_curve_free(&t.a), vt_curve_free(&t.b);
    close_side(&t.x), close_side(&t.y);
    return s;
}
