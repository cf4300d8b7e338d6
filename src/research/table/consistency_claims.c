/* SPDX-License-Identifier: MIT */
/* A paper's text against its tables, and laws across tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "research/table/consistency.h"

/* A cell's value of a key, "" if there is none. */
static const char *key_text(const vt_published *p, int i, const char *key) { return vt_published_at(p, i, key); }
/* Whether the cell belongs to a sweep of penalties. */
static bool is_swept(const vt_published *p, int i) {
    return *key_text(p, i, "lambda_q") || *key_text(p, i, "lambda_k") || *key_text(p, i, "lambda_v");
}

/* Whether two cells agree in these keys, which end at NULL. */
static bool agree_in(const vt_published *p, int i, int k, const char *const *keys) {
    while (*keys && !strcmp(key_text(p, i, *keys), key_text(p, k, *keys))) keys++;
    return !*keys;
}

/* The best value of the other methods in cell i's column; NaN: there is none. */
static double best_other(const vt_published *p, int i) {
    static const char *const column[] = {"table", "training", "backbone", "dataset", "attack", NULL};
    double best = NAN;
    for (int k = 0; k < p->n; k++)
        if (k != i && agree_in(p, i, k, column) && strcmp(key_text(p, i, "method"), key_text(p, k, "method")))
            best = fmax(best, p->cells[k].value);
    return best;
}

/* Whether `table` is one of a list "2+3". */
static bool in_list(const char *list, const char *table) {
    size_t n = strlen(table);
    for (const char *s = list; *s; s += strcspn(s, "+"), s += *s == '+')
        if (strcspn(s, "+") == n && !strncmp(s, table, n)) return true;
    return false;
}

typedef struct mean {
    double sum;
    int n;
} mean;

/* Adds to m the method's leads over the best competitor, in points, in the columns of the tables ("2+3") and an attack;
 * columns without a competitor and swept cells are left out. */
static void add_leads(mean *m, const vt_published *p, const char *method, const char *training, const char *table,
                      const char *attack) {
    for (int i = 0; i < p->n; i++) {
        if (strcmp(key_text(p, i, "method"), method) || strcmp(key_text(p, i, "attack"), attack) ||
            strcmp(key_text(p, i, "training"), training))
            continue;
        if (!in_list(table, key_text(p, i, "table")) || is_swept(p, i)) continue;
        double other = best_other(p, i);
        if (!isnan(other)) m->sum += p->cells[i].value - other, m->n++;
    }
}

/* Is claim i's number the mean over its two tables if another attack's column is taken in one? Then text says how. */
static bool mixed_up(const vt_published *p, const vt_published *c, int i, char *text, size_t size) {
    const char *tables = key_text(c, i, "tables"), *plus = strchr(tables, '+'), *own = key_text(c, i, "attack");
    char first[16], second[16];
    if (!plus || strchr(plus + 1, '+')) return false;
    snprintf(first, sizeof first, "%.*s", (int)(plus - tables < 15 ? plus - tables : 15), tables);
    snprintf(second, sizeof second, "%.15s", plus + 1);
    for (int k = 0; k < c->n; k++) {
        const char *attack = key_text(c, k, "attack");
        if (k == i || strcmp(key_text(c, k, "tables"), tables) || !strcmp(attack, "clean") ||
            !strcmp(attack, "AutoAttack"))
            continue;
        for (int turn = 0; turn < 2; turn++) {
            const char *here = turn ? second : first, *there = turn ? first : second;
            mean m = {0};
            add_leads(&m, p, key_text(c, i, "method"), key_text(c, i, "training"), here, own);
            int half = m.n;
            add_leads(&m, p, key_text(c, i, "method"), key_text(c, i, "training"), there, attack);
            if (!half || m.n == half || !(fabs(m.sum / m.n - c->cells[i].value) < 0.0055)) continue;
            snprintf(text, size, "; %s comes out when Table %s's %s column is averaged with Table %s's %s column",
                     c->cells[i].shown, here, own, there, attack);
            return true;
        }
    }
    return false;
}

vt_status vt_claims_known(const vt_published *p, const vt_published *c, vt_err *e) {
    for (int i = 0; i < c->n; i++) {
        mean m = {0};
        add_leads(&m, p, key_text(c, i, "method"), key_text(c, i, "training"), key_text(c, i, "tables"),
                  key_text(c, i, "attack"));
        if (!m.n)
            return vt_fail(e, VT_E_USAGE, "%s:%d: %s has no number of its method, training, tables and attack", c->path,
                           c->cells[i].line, p->path);
    }
    return VT_OK;
}

/* Adds a finding on claim i, the mean lead of a method: a note if it holds. False: no memory. */
static bool check_headline(vt_oddities *f, const vt_published *p, const vt_published *c, int i) {
    mean m = {0};
    char more[200] = "";
    add_leads(&m, p, key_text(c, i, "method"), key_text(c, i, "training"), key_text(c, i, "tables"),
              key_text(c, i, "attack"));
    double got = m.n ? m.sum / m.n : NAN;
    bool holds = fabs(got - c->cells[i].value) < 0.0055; /* as printed, two decimals */
    vt_oddity *found = vt_oddity_add(f, "headline", holds);
    if (!found) return false;
    if (!holds) mixed_up(p, c, i, more, sizeof more);
    snprintf(found->text, sizeof found->text,
             "the text's mean lead of %s under %s (%s training, Tables %s) is %s points; from %d columns it is %.2f%s",
             key_text(c, i, "method"), key_text(c, i, "attack"), key_text(c, i, "training"), key_text(c, i, "tables"),
             c->cells[i].shown, m.n, got, more);
    return true;
}

/* Adds a finding on "best among all competitors": in how many columns the method is best or equal; a note if in all,
 * none if it has no competitor. False: no memory. */
static bool check_best(vt_oddities *f, const vt_published *p, const char *method) {
    int all = 0, first = 0;
    for (int i = 0; i < p->n; i++) {
        if (strcmp(key_text(p, i, "method"), method) || is_swept(p, i)) continue;
        double other = best_other(p, i);
        if (isnan(other)) continue;
        all++, first += p->cells[i].value >= other;
    }
    if (!all) return true;
    vt_oddity *found = vt_oddity_add(f, "best", first == all);
    if (found) snprintf(found->text, sizeof found->text, "%s is best or equal in %d of %d columns", method, first, all);
    return found != NULL;
}

bool vt_check_claims(vt_oddities *f, const vt_published *p, const vt_published *claims) {
    bool ok = true;
    for (int i = 0; ok && i < claims->n; i++) ok = check_headline(f, p, claims, i);
    if (ok && claims->n) ok = check_best(f, p, key_text(claims, 0, "method"));
    return ok;
}

/* ---- sweeps of penalties ---- */

/* Returns the first cell outside the sweep with i's training, backbone, data set and attack, of a method (NULL: any);
 * -1: none. */
static int main_cell(const vt_published *p, int i, const char *method) {
    static const char *const keys[] = {"training", "backbone", "dataset", "attack", NULL};
    for (int k = 0; k < p->n; k++)
        if (!is_swept(p, k) && (!method || !strcmp(key_text(p, k, "method"), method)) && agree_in(p, i, k, keys))
            return k;
    return -1;
}

/* Whether the cell is not a clean one. */
static bool is_attacked(const vt_published *p, int i) { return strcmp(key_text(p, i, "attack"), "clean") != 0; }

/* Adds a finding if all attacked swept cells of group g, two or more, are below the main tables' row without penalty.
 * False: no memory. */
static bool below_none(vt_oddities *f, const vt_published *p, int *group, int g) {
    int first = -1, n = 0, below = 0, none = -1;
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        if (group[i] != g || !is_swept(p, i) || !is_attacked(p, i)) continue;
        if (first < 0) first = i, none = main_cell(p, i, "TransFormer");
        if (none < 0) return true;
        double v = p->cells[i].value;
        n++, below += v < p->cells[none].value;
        least = fmin(least, v), most = fmax(most, v);
    }
    if (n < 2 || below < n) return true;
    vt_oddity *found = vt_oddity_add(f, "sweep", false);
    bool ok = found != NULL;
    for (int i = 0; ok && i < p->n; i++)
        if (group[i] == g && is_swept(p, i)) ok = vt_oddity_cell(found, i);
    if (ok)
        snprintf(found->text, sizeof found->text,
                 "Table %s, %s training, %s: all %d triples (%g to %g) lie below the row without penalty of Table %s "
                 "(%s)",
                 key_text(p, first, "table"), key_text(p, first, "training"), key_text(p, first, "attack"), n, least,
                 most, key_text(p, none, "table"), p->cells[none].shown);
    return ok;
}

/* Adds a note on which swept row the main table shows for a training, by equal cells, or a finding that none is;
 * nothing for fewer than two swept rows or without the main row. False: no memory. */
static bool which_triple(vt_oddities *f, const vt_published *p, const char *training) {
    static const char *const triple[] = {"lambda_q", "lambda_k", "lambda_v", "table", "training", NULL};
    int triples = 0, found = -1, any = -1;
    for (int i = 0; i < p->n; i++) {
        if (!is_swept(p, i) || strcmp(key_text(p, i, "training"), training) ||
            strcmp(key_text(p, i, "attack"), "clean"))
            continue;
        int same = 0, all = 0;
        triples++, any = i;
        for (int k = 0; k < p->n; k++) {
            int m = is_swept(p, k) && agree_in(p, i, k, triple) ? main_cell(p, k, key_text(p, k, "method")) : -1;
            if (m >= 0) all++, same += fabs(p->cells[m].value - p->cells[k].value) < 1e-9;
        }
        if (all && same == all) found = i;
    }
    if (triples < 2 || main_cell(p, any, key_text(p, any, "method")) < 0) return true;
    vt_oddity *note = vt_oddity_add(f, "sweep", found >= 0);
    if (!note) return false;
    const char *table = key_text(p, any, "table"),
               *m = key_text(p, main_cell(p, any, key_text(p, any, "method")), "table");
    if (found >= 0)
        snprintf(note->text, sizeof note->text, "%s training: Table %s's row of %s is Table %s's triple (%s, %s, %s)",
                 training, m, key_text(p, found, "method"), table, key_text(p, found, "lambda_q"),
                 key_text(p, found, "lambda_k"), key_text(p, found, "lambda_v"));
    else
        snprintf(note->text, sizeof note->text, "%s training: Table %s's row of %s is none of Table %s's %d triples",
                 training, m, key_text(p, any, "method"), table, triples);
    return true;
}

bool vt_check_sweep(vt_oddities *f, const vt_published *p) {
    static const char *const keys[] = {"table", "training", "dataset", "attack", NULL};
    if (vt_published_key(p, "lambda_q") < 0) return true;
    int n;
    int *group = vt_published_group(p, keys, false, &n);
    bool ok = group != NULL;
    for (int g = 0; ok && g < n; g++) ok = below_none(f, p, group, g);
    free(group);
    return ok && which_triple(f, p, "standard") && which_triple(f, p, "adversarial");
}

/* ---- running times ---- */

/* The cell of i's method and table under adversarial training; -1: none. */
static int adversarial_cell(const vt_published *p, int i) {
    static const char *const keys[] = {"method", "table", NULL};
    for (int k = 0; k < p->n; k++)
        if (!strcmp(key_text(p, k, "training"), "adversarial") && agree_in(p, i, k, keys)) return k;
    return -1;
}

/* A penalty is computed once for each step, whatever the step's attack: relative to a longer step it weighs less. */
bool vt_check_times(vt_oddities *f, const vt_published *p) {
    char text[300] = "";
    int cells[64], n = 0, all = 0;
    for (int i = 0; i < p->n; i++) {
        int k = strcmp(key_text(p, i, "training"), "standard") ? -1 : adversarial_cell(p, i);
        if (k < 0 || fabs(p->cells[i].value - 1) < 1e-12) continue; /* 1: what the others are measured by */
        all++;
        if (p->cells[k].value <= p->cells[i].value || n > 62) continue;
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %s to %s", used ? ", " : "", key_text(p, i, "method"),
                 p->cells[i].shown, p->cells[k].shown);
        cells[n++] = i, cells[n++] = k;
    }
    if (!n) return true;
    vt_oddity *found = vt_oddity_add(f, "times", false);
    bool ok = found != NULL;
    for (int i = 0; ok && i < n; i++) ok = vt_oddity_cell(found, cells[i]);
    if (ok)
        snprintf(found->text, sizeof found->text,
                 "%d of %d factors are larger under adversarial training (%s), though what is computed once for each "
                 "step weighs less there",
                 n / 2, all, text);
    return ok;
}
