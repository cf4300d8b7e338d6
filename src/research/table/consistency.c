/* SPDX-License-Identifier: MIT */
/* Laws within a row, a column or between two rows of a table. */
#include "research/table/consistency.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int *vt_published_group(const vt_published *p, const char *const *keys, bool except, int *count) {
    int *group = calloc((size_t)p->n + 1, sizeof *group), *first = calloc((size_t)p->n + 1, sizeof *first);
    *count = 0;
    for (int i = 0; group && first && i < p->n; i++) {
        int g = *count;
        while (g-- > 0) { /* from the newest: files are sorted */
            int k = 0;
            for (; k < p->n_keys; k++)
                if (vt_published_listed(keys, p->keys[k]) != except &&
                    strcmp(p->cells[i].at[k], p->cells[first[g]].at[k]))
                    break;
            if (k == p->n_keys) break;
        }
        if (g < 0) first[g = (*count)++] = i;
        group[i] = g;
    }
    free(first);
    if (first) return group;
    free(group);
    return NULL;
}

vt_oddity *vt_oddity_add(vt_oddities *f, const char *check, bool note) {
    if (!vt_grow(&f->items, (size_t)f->n, sizeof *f->items)) return NULL;
    f->items[f->n] = (vt_oddity){.check = check, .note = note};
    return &f->items[f->n++];
}

bool vt_oddity_cell(vt_oddity *f, int cell) {
    int at = f->n;
    if (!vt_grow(&f->cells, (size_t)f->n, sizeof *f->cells)) return false;
    for (; at > 0 && f->cells[at - 1] > cell; at--) f->cells[at] = f->cells[at - 1];
    f->cells[at] = cell;
    f->n++;
    return true;
}

bool vt_oddity_has(const vt_oddity *f, int cell) {
    for (int i = 0; i < f->n; i++)
        if (f->cells[i] == cell) return true;
    return false;
}

void vt_oddities_free(vt_oddities *f) {
    for (int i = 0; i < f->n; i++) free(f->items[i].cells);
    free(f->items);
    *f = (vt_oddities){0};
}

const char *vt_published_place(const vt_published *p, int i, const char *const *keys, char *buf, size_t size) {
    size_t used = 0;
    *buf = 0;
    for (; *keys && used + 1 < size; keys++) {
        const char *v = vt_published_at(p, i, *keys);
        if (*v)
            used += (size_t)snprintf(buf + used, size - used, "%s%s%s", used ? ", " : "",
                                     strcmp(*keys, "table") ? "" : "Table ", v);
    }
    return buf;
}

static const char *const whole[] = {"table", "training", "backbone", NULL};
static const char *const row_keys[] = {"table", "backbone", "method", "dataset", NULL};

/* ---- an attack that contains or prolongs another leaves no more images right ---- */

/* Whether cell i is under that attack. */
static bool is_attack(const vt_published *p, int i, const char *attack) {
    return !strcmp(vt_published_at(p, i, "attack"), attack);
}

/* weaker "*": the lowest of the other attacks; "clean": what is right without any. stronger "*": every attack. */
typedef struct order {
    const char *check, *stronger, *weaker;
    double slack; /* points that other starting points of the same attack may make */
    const char *words;
} order;
static const order orders[] = {
    {"autoattack", "AutoAttack", "*", 0.3,
     "AutoAttack accuracy is above the lowest of the other attacks by more than 0.3 points, though AutoAttack contains "
     "stronger ones"},
    {"pgd2", "PGD-2", "FGSM", 0, "PGD-2 accuracy is above FGSM's: two steps do less than one"},
    {"steps", "PGD-100", "PGD-20", 0.3, "PGD-100 accuracy is above PGD-20's by more than 0.3 points"},
    {"clean", "*", "clean", 0, "accuracy under an attack is above the clean one"},
};

/* Whether cell i is one of the order's weaker attack. */
static bool weaker_cell(const vt_published *p, const order *o, int i) {
    if (strcmp(o->weaker, "*")) return is_attack(p, i, o->weaker);
    return !is_attack(p, i, "clean") && !is_attack(p, i, o->stronger);
}
/* Whether cell i is one of the order's stronger attack. */
static bool stronger_cell(const vt_published *p, const order *o, int i) {
    return strcmp(o->stronger, "*") ? is_attack(p, i, o->stronger) : !is_attack(p, i, "clean");
}

/* Whether cell i exceeds the lowest weaker cell of its row by more than the order's slack, in points. */
static bool too_high(const vt_published *p, const order *o, const int *row, int i) {
    double low = INFINITY;
    for (int k = 0; k < p->n; k++)
        if (row[k] == row[i] && weaker_cell(p, o, k)) low = fmin(low, p->cells[k].value);
    return p->cells[i].value > low + o->slack + 1e-9;
}

/* Adds a finding for each block (table, training, backbone) in which the order's stronger attack leaves more accuracy
 * than the weaker, with the cells that do. False: no memory. */
static bool check_attack_order(vt_oddities *f, const vt_published *p, const order *o) {
    static const char *const attack[] = {"attack", NULL};
    int rows, blocks;
    char where[160];
    int *row = vt_published_group(p, attack, true, &rows), *block = vt_published_group(p, whole, false, &blocks);
    bool ok = row && block;
    for (int b = 0; ok && b < blocks; b++) {
        vt_oddity *found = NULL;
        int had = 0, broke = 0, last = -1, first = -1;
        for (int i = 0; ok && i < p->n; i++) {
            if (block[i] != b || !stronger_cell(p, o, i)) continue;
            had += row[i] != last, last = row[i];
            if (!too_high(p, o, row, i)) continue;
            if (!found) ok = (found = vt_oddity_add(f, o->check, false)) != NULL, first = i;
            broke++;
            ok = ok && vt_oddity_cell(found, i);
        }
        if (found)
            snprintf(found->text, sizeof found->text, "%s: in %d of %d rows %s",
                     vt_published_place(p, first, whole, where, sizeof where), broke, had, o->words);
    }
    free(row), free(block);
    return ok;
}

/* Whether a percentage, as printed with two decimals, is a share of that many images. */
static bool is_grain(double percent, int images) {
    double k = round(percent * images / 100);
    return fabs(round(1e4 * k / images) / 100 - percent) < 1e-6; /* as printed, two decimals */
}

/* Adds a finding for each column of which all cells but one at most are multiples of 1/128: one batch of 128 images (by
 * chance one number in 78 is). LEAST, SURE: cells that it needs. False: no memory. */
static bool check_batches(vt_oddities *f, const vt_published *p) {
    static const char *const column[] = {"table", "training", "backbone", "dataset", "attack", NULL};
    enum { LEAST = 4, SURE = 3 }; /* multiples of 1/128; those that are no multiples of 1/500 */
    int n;
    char where[160];
    int *group = vt_published_group(p, column, false, &n);
    bool ok = group != NULL;
    for (int g = 0; ok && g < n; g++) {
        int all = 0, of128 = 0, sure = 0, first = -1;
        for (int i = 0; i < p->n; i++) {
            if (group[i] != g) continue;
            bool yes = is_grain(p->cells[i].value, 128);
            all++, of128 += yes, sure += yes && !is_grain(p->cells[i].value, 500);
            if (first < 0) first = i;
        }
        if (of128 < LEAST || sure < SURE || of128 + 1 < all) continue;
        vt_oddity *found = vt_oddity_add(f, "batch", false);
        ok = found != NULL;
        for (int i = 0; ok && i < p->n; i++)
            if (group[i] == g && is_grain(p->cells[i].value, 128)) ok = vt_oddity_cell(found, i);
        if (ok)
            snprintf(found->text, sizeof found->text,
                     "%s: %d of %d cells are multiples of 1/128: probably one batch of 128 images",
                     vt_published_place(p, first, column, where, sizeof where), of128, all);
    }
    free(group);
    return ok;
}

/* Adds a finding for cell i, which is no multiple of 0.2 % though its data set's others are. False: no memory. */
static bool add_odd_grain(vt_oddities *f, const vt_published *p, int i) {
    static const char *const keys[] = {"table", "backbone", "method", "dataset", "attack", NULL};
    char where[160], other[80] = "no multiple of 1/128 either";
    double v = p->cells[i].value;
    vt_oddity *found = vt_oddity_add(f, "grain", false);
    if (!found || !vt_oddity_cell(found, i)) return false;
    if (is_grain(v, 128)) snprintf(other, sizeof other, "%.0f/128: one batch of 128 images", round(v * 128 / 100));
    snprintf(found->text, sizeof found->text,
             "%s: %s is no multiple of 0.2 %% as the data set's other cells are, %s %s",
             vt_published_place(p, i, keys, where, sizeof where), p->cells[i].shown, is_grain(v, 128) ? "but" : "and",
             other);
    return true;
}

/* Adds a note for each data set of 20 cells or more of which nine tenths are multiples of 0.2 % (500 images), and a
 * finding for each other cell. False: no memory. */
static bool check_granularity(vt_oddities *f, const vt_published *p) {
    static const char *const set[] = {"dataset", NULL};
    int n;
    int *group = vt_published_group(p, set, false, &n);
    bool ok = group != NULL;
    for (int g = 0; ok && g < n; g++) {
        int all = 0, of500 = 0, first = -1;
        for (int i = 0; i < p->n; i++)
            if (group[i] == g) all++, of500 += is_grain(p->cells[i].value, 500), first = first < 0 ? i : first;
        if (all < 20 || of500 < 0.9 * all) continue;
        vt_oddity *found = vt_oddity_add(f, "grain", true);
        ok = found != NULL;
        const char *name = ok ? vt_published_at(p, first, "dataset") : "";
        if (ok)
            snprintf(found->text, sizeof found->text, "%d of %d cells of %s are multiples of 0.2 %%: 500 images%s",
                     of500, all, name,
                     !strcmp(name, "Imagenette") ? ", which is version 1's validation set (version 2 has 3,925)" : "");
        for (int i = 0; ok && i < p->n; i++)
            if (group[i] == g && !is_grain(p->cells[i].value, 500)) ok = add_odd_grain(f, p, i);
    }
    free(group);
    return ok;
}

typedef struct row_facts {
    int *cells, n; /* ascending; into one array */
    bool constant;
} row_facts;

/* The *n rows of a file: cells that differ in the attack alone. NULL: no memory; free r[0].cells, then r. */
static row_facts *collect_rows(const vt_published *p, int *n) {
    static const char *const attack[] = {"attack", NULL};
    int *row = vt_published_group(p, attack, true, n), *cells = malloc((size_t)(p->n + 1) * sizeof *cells), at = 0;
    row_facts *r = calloc((size_t)p->n + 1, sizeof *r);
    for (int g = 0; row && cells && r && g < *n; g++) {
        r[g] = (row_facts){.cells = cells + at, .constant = true};
        for (int i = 0; i < p->n; i++)
            if (row[i] == g) {
                cells[at++] = i, r[g].n++;
                r[g].constant = r[g].constant && !strcmp(p->cells[i].shown, p->cells[r[g].cells[0]].shown);
            }
    }
    bool ok = row && cells && r;
    free(row);
    if (ok) return r;
    free(cells), free(r);
    return NULL;
}

/* Returns how many numbers of two rows are equal under a common attack. same [2 of each], or NULL: their cells, a's and
 * b's in turn; *all: how many attacks are common. */
static int same_cells(const vt_published *p, const row_facts *a, const row_facts *b, int *all, int *same) {
    int n = 0;
    *all = 0;
    for (int i = 0; i < a->n; i++)
        for (int k = 0; k < b->n; k++) {
            int x = a->cells[i], y = b->cells[k];
            if (strcmp(vt_published_at(p, x, "attack"), vt_published_at(p, y, "attack"))) continue;
            ++*all;
            if (p->cells[x].value < p->cells[y].value || p->cells[x].value > p->cells[y].value) continue;
            if (same) same[2 * n] = x, same[2 * n + 1] = y;
            n++;
        }
    return n;
}

/* Adds a finding for a row whose cells are all equal. False: no memory. */
static bool add_collapsed_row(vt_oddities *f, const vt_published *p, const row_facts *r) {
    char where[160];
    vt_oddity *found = vt_oddity_add(f, "collapsed", false);
    bool ok = found != NULL;
    for (int i = 0; ok && i < r->n; i++) ok = vt_oddity_cell(found, r->cells[i]);
    if (ok)
        snprintf(found->text, sizeof found->text, "%s: %s in all %d cells, a run that collapsed",
                 vt_published_place(p, r->cells[0], row_keys, where, sizeof where), p->cells[r->cells[0]].shown, r->n);
    return ok;
}

/* Adds a finding if two rows of other methods or backbones have LEAST equal numbers or more under common attacks; none
 * for a constant row or one of more than MOST cells. False: no memory. */
static bool check_equal_rows(vt_oddities *f, const vt_published *p, const row_facts *a, const row_facts *b) {
    enum { LEAST = 3, MOST = 32 };
    char one[160], other[160];
    int all, same[2 * MOST], i = a->cells[0], k = b->cells[0];
    if (!strcmp(vt_published_at(p, i, "method"), vt_published_at(p, k, "method")) &&
        !strcmp(vt_published_at(p, i, "backbone"), vt_published_at(p, k, "backbone")))
        return true;
    if (a->constant || b->constant || a->n > MOST) return true;
    int n = same_cells(p, a, b, &all, same);
    if (n < LEAST) return true;
    vt_oddity *found = vt_oddity_add(f, "equal", false);
    bool ok = found != NULL;
    for (int x = 0; ok && x < 2 * n; x++) ok = vt_oddity_cell(found, same[x]);
    if (ok)
        snprintf(found->text, sizeof found->text, "%d of %d cells are the same in two rows: %s and %s", n, all,
                 vt_published_place(p, i, row_keys, one, sizeof one),
                 vt_published_place(p, k, row_keys, other, sizeof other));
    return ok;
}

/* Adds findings for rows of three cells or more that are constant and for pairs of rows that are equal. False: no
 * memory. */
static bool check_rows(vt_oddities *f, const vt_published *p) {
    int n;
    row_facts *r = collect_rows(p, &n);
    bool ok = r != NULL;
    for (int g = 0; ok && g < n; g++)
        if (r[g].n >= 3 && r[g].constant) ok = add_collapsed_row(f, p, &r[g]);
    for (int b = 0; ok && b < n; b++)
        for (int a = 0; ok && a < b; a++) ok = check_equal_rows(f, p, &r[a], &r[b]);
    if (r) free(r[0].cells);
    free(r);
    return ok;
}

vt_status vt_published_check(vt_oddities *f, const vt_published *p, const vt_published *claims, vt_err *e) {
    bool ok = true, cells = p->unit == VT_PERCENT && vt_published_key(p, "attack") >= 0;
    *f = (vt_oddities){0};
    if (cells && claims) VT_TRY(vt_claims_known(p, claims, e));
    for (size_t k = 0; ok && cells && k < sizeof orders / sizeof *orders; k++)
        ok = check_attack_order(f, p, &orders[k]);
    if (cells) ok = ok && check_batches(f, p) && check_granularity(f, p) && check_rows(f, p) && vt_check_sweep(f, p);
    if (cells && claims) ok = ok && vt_check_claims(f, p, claims);
    if (p->unit == VT_SCORE) ok = ok && vt_check_scores(f, p, claims);
    if (p->unit == VT_ERROR) ok = ok && vt_check_errors(f, p);
    if (p->unit == VT_COUNT) ok = ok && vt_check_parameters(f, p);
    if (p->unit == VT_FACTOR) ok = ok && vt_check_times(f, p);
    if (ok) return VT_OK;
    vt_oddities_free(f);
    return vt_fail(e, VT_E_MEMORY, "%s: no memory to check it", p->path);
}
