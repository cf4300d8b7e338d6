/* SPDX-License-Identifier: MIT */
/* Which row is above which: the orderings of the paper and of the manifest, and the cells' verdicts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/table/result.h"
#include "base/mem.h"

bool vt_ordering_cut(const char *text, char above[80], char below[80]) {
    const char *cut = strstr(text, " > ");
    if (!cut || cut == text || !cut[3] || cut - text > 79 || strlen(cut + 3) > 79) return false;
    snprintf(above, 80, "%.*s", (int)(cut - text), text);
    snprintf(below, 80, "%s", cut + 3);
    return true;
}

/* Whether row r has the highest mean of its group and is better than each other row by the paired test with Holm's
 * correction. p, adjusted: scratch [rows]. */
static bool ahead_of_all(const vt_table *t, int r, int data, int attack, double *p, double *adjusted) {
    int n = 0;
    for (int k = 0; k < t->m->n_rows; k++) {
        double mean = vt_table_at(t, k, data, attack)->mean;
        if (k == r || !vt_table_same_group(t->m, k, r) || isnan(mean)) continue;
        if (mean >= vt_table_at(t, r, data, attack)->mean) return false;
        vt_difference x = vt_table_difference(t, r, k, data, attack);
        if (!x.seeds || !(x.points > 0)) return false;
        p[n++] = x.p;
    }
    vt_holm(adjusted, p, n);
    for (int i = 0; i < n; i++)
        if (!(adjusted[i] <= VT_TABLE_ALPHA)) return false;
    return n > 0;
}

/* Sets `best` of each row's cell in a column; VT_E_MEMORY. */
static vt_status mark_best(vt_table *t, int data, int attack, vt_err *e) {
    double *p = calloc(2 * (size_t)t->m->n_rows, sizeof *p);
    if (!p) return vt_manifest_no_memory(t->m, e);
    for (int r = 0; r < t->m->n_rows; r++) {
        vt_table_cell *c = vt_table_at(t, r, data, attack);
        c->best = !isnan(c->mean) && ahead_of_all(t, r, data, attack, p, p + t->m->n_rows);
    }
    free(p);
    return VT_OK;
}

/* Whether this comparison is there already, in either direction: two subjects of one block have the same one. */
static bool is_there(const vt_table *t, const vt_table_ordering *o) {
    for (int i = 0; i < t->n_orderings; i++) {
        const vt_table_ordering *p = &t->orderings[i];
        if (!(p->primary && p->primary->frontier_names.n) && p->data == o->data && p->attack == o->attack &&
            ((p->above == o->above && p->below == o->below) || (p->above == o->below && p->below == o->above)))
            return true;
    }
    return false;
}

/* Appends a comparison, unless a cell of it is not wanted or it is there already; VT_E_MEMORY. */
static vt_status add_ordering(vt_table *t, vt_table_ordering o, vt_err *e) {
    if (!vt_table_at(t, o.above, o.data, o.attack)->wanted || !vt_table_at(t, o.below, o.data, o.attack)->wanted)
        return VT_OK;
    if (!o.primary && is_there(t, &o)) return VT_OK;
    if (!vt_grow(&t->orderings, (size_t)t->n_orderings, sizeof o)) return vt_manifest_no_memory(t->m, e);
    t->orderings[t->n_orderings++] = o;
    return VT_OK;
}

/* Whether published cells differ only in the method and its lambdas: they are of one block. */
static bool are_comparable(const vt_published *p, int a, int b) {
    static const char *const own[] = {"method", "lambda_q", "lambda_k", "lambda_v", NULL};
    return vt_published_agree(p, a, b, own);
}

/* Adds an ordering of the row `name` against each row that has another published number in the same block, the higher
 * one above, in one column; none without a published file. */
static vt_status add_published(vt_table *t, int data, int attack, const char *name, vt_err *e) {
    int subject;
    if (!t->published) return VT_OK;
    VT_TRY(vt_manifest_named(t->m, VT_MANIFEST_ROW, name, t->m->path, &subject, e));
    const vt_table_cell *s = vt_table_at(t, subject, data, attack);
    for (int r = 0; r < t->m->n_rows; r++) {
        const vt_table_cell *c = vt_table_at(t, r, data, attack);
        if (r == subject || s->published < 0 || c->published < 0) continue;
        if (!are_comparable(t->published, s->published, c->published)) continue;
        double gap = t->published->cells[s->published].value - t->published->cells[c->published].value;
        if (fabs(gap) < 1e-9) continue; /* the paper orders nothing */
        vt_table_ordering o = {.above = gap > 0 ? subject : r,
                               .below = gap > 0 ? r : subject,
                               .data = data,
                               .attack = attack,
                               .published = true,
                               .gap = fabs(gap)};
        VT_TRY(add_ordering(t, o, e));
    }
    return VT_OK;
}

/* Adds the manifest's own orderings in one column, without those that add_ordering leaves out. */
static vt_status add_requested(vt_table *t, int data, int attack, vt_err *e) {
    char above[80], below[80];
    for (int i = 0; i < t->m->orderings.n; i++) {
        vt_table_ordering o = {.data = data, .attack = attack, .gap = NAN};
        vt_ordering_cut(t->m->orderings.word[i], above, below);
        VT_TRY(vt_manifest_named(t->m, VT_MANIFEST_ROW, above, t->m->path, &o.above, e));
        VT_TRY(vt_manifest_named(t->m, VT_MANIFEST_ROW, below, t->m->path, &o.below, e));
        VT_TRY(add_ordering(t, o, e));
    }
    return VT_OK;
}

/* Published points that row `above` has more than `below`; NaN: the paper has no such cells in one block. */
static double published_gap(const vt_table *t, int above, int below, int data, int attack) {
    int a = vt_table_at(t, above, data, attack)->published, b = vt_table_at(t, below, data, attack)->published;
    if (a < 0 || b < 0 || !are_comparable(t->published, a, b)) return NAN;
    return t->published->cells[a].value - t->published->cells[b].value;
}

/* Adds the primary comparisons; against a frontier, below is its last row and gap the published one to the last row
 * that has one. */
static vt_status add_primary(vt_table *t, vt_err *e) {
    for (int i = 0; i < t->m->n_primary; i++) {
        const vt_manifest_primary *p = &t->m->primary[i];
        vt_table_ordering o = {.primary = p,
                               .above = p->above,
                               .below = p->rows[p->n_rows - 1],
                               .data = p->data,
                               .attack = p->column,
                               .gap = NAN};
        for (int k = 0; k < p->n_rows; k++) {
            double gap = published_gap(t, p->above, p->rows[k], p->data, p->column);
            if (!isnan(gap)) o.gap = gap, o.published = true;
        }
        VT_TRY(add_ordering(t, o, e));
    }
    return VT_OK;
}

/* Whether a primary comparison has fewer seeds than the manifest names: then it is not decided. Secondary: false. */
static bool lacks_seeds(const vt_table *t, const vt_table_ordering *o) {
    const vt_manifest_primary *p = o->primary;
    int wanted = 0;
    for (int s = 0; p && s < t->m->rows[p->above].n_seeds; s++) {
        bool all = vt_manifest_seeded(t->m, p->above, p->column, t->m->rows[p->above].seeds[s]);
        for (int i = 0; i < p->n_rows; i++)
            all = all && vt_manifest_seeded(t->m, p->rows[i], p->column, t->m->rows[p->above].seeds[s]);
        wanted += all;
    }
    if (p && wanted && vt_table_fixed(t, p->above, p->rows, p->n_rows)) wanted = 1;
    return o->d.seeds < wanted;
}

/* The verdict by corrected p, direction and published range; lacking: seeds are missing. */
static vt_table_verdict decide_verdict(const vt_table_ordering *o, bool lacking) {
    bool frontier = o->primary && o->primary->at >= 0, decided = o->adjusted <= VT_TABLE_ALPHA;
    if (!o->d.seeds || lacking) return VT_TABLE_ABSENT;
    if (o->untested) return VT_TABLE_UNTESTED;
    if (!frontier && !o->d.for_it && !o->d.other) return VT_TABLE_IDENTICAL;
    if (decided && o->d.points > 0) return VT_TABLE_HELD;
    if (decided && o->d.points < 0) return VT_TABLE_CONTRADICTED;
    return o->smaller ? VT_TABLE_SMALLER : o->within ? VT_TABLE_WITHIN : VT_TABLE_UNDECIDED;
}

const char *vt_table_verdict_name(vt_table_verdict v) {
    static const char *const names[VT_TABLE_VERDICTS] = {[VT_TABLE_UNDECIDED] = "undecided",
                                                         [VT_TABLE_HELD] = "held",
                                                         [VT_TABLE_CONTRADICTED] = "contradicted",
                                                         [VT_TABLE_SMALLER] = "smaller than published",
                                                         [VT_TABLE_WITHIN] = "within the published range",
                                                         [VT_TABLE_UNTESTED] = "not tested",
                                                         [VT_TABLE_IDENTICAL] = "identical",
                                                         [VT_TABLE_ABSENT] = "not there"};
    return names[v];
}

/* Sets d, adjusted, corrected, untested, ranges, smaller and verdict of each ordering: the primary family with Holm's
 * correction, the others without; without a primary family all are one. VT_E_MEMORY. */
static vt_status decide_verdicts(vt_table *t, vt_err *e) {
    double *p = calloc(2 * (size_t)t->n_orderings + 1, sizeof *p), *adjusted = p + t->n_orderings;
    if (!p) return vt_manifest_no_memory(t->m, e);
    int family = t->m->n_primary ? 0 : t->n_orderings;
    for (int i = 0; i < t->n_orderings; i++) {
        vt_table_ordering *o = &t->orderings[i];
        const vt_manifest_primary *q = o->primary;
        o->d = q && q->at >= 0 ? vt_table_frontier(t, q->above, q->rows, q->n_rows, q->data, q->column, q->at)
                               : vt_table_difference(t, o->above, o->below, o->data, o->attack);
        if (q) family = i + 1; /* they stand first */
    }
    for (int i = 0; i < family; i++) p[i] = t->orderings[i].d.p;
    vt_holm(adjusted, p, family);
    for (int i = 0; i < t->n_orderings; i++) {
        vt_table_ordering *o = &t->orderings[i];
        o->corrected = i < family;
        o->adjusted = !o->d.seeds ? NAN : o->corrected ? adjusted[i] : o->d.p;
        o->untested = vt_table_untested(t, o);
        vt_table_ranges(t, o);
        o->smaller = o->gap > 0 && o->d.high < (o->comparable.n ? o->comparable.least : o->gap);
        o->verdict = decide_verdict(o, lacks_seeds(t, o));
    }
    free(p);
    return VT_OK;
}

vt_status vt_table_decide(vt_table *t, vt_err *e) {
    const vt_manifest *m = t->m;
    VT_TRY(add_primary(t, e));
    for (int d = 0; d < m->n_data; d++)
        for (int a = 0; a < m->n_attacks; a++) {
            if (!vt_manifest_accuracy(m, a)) continue; /* nothing was right or wrong */
            VT_TRY(mark_best(t, d, a, e));
            if (m->attacks[a].orderings) continue;
            for (int i = 0; i < m->subjects.n; i++) VT_TRY(add_published(t, d, a, m->subjects.word[i], e));
            VT_TRY(add_requested(t, d, a, e));
        }
    return decide_verdicts(t, e);
}
