/* SPDX-License-Identifier: MIT */
/* Laws of files whose numbers are no accuracies: scores of text (higher is better), errors, and sizes of tensors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "research/table/consistency.h"

/* A cell's value of a key, "" if there is none. */
static const char *key_text(const vt_published *p, int i, const char *key) { return vt_published_at(p, i, key); }
/* Whether a cell's value of a key is `value`. */
static bool has_value(const vt_published *p, int i, const char *key, const char *value) {
    return !strcmp(key_text(p, i, key), value);
}

static const char *const column_keys[] = {"table", "dataset", "metric", NULL};
#define PLAIN "Transformer" /* the row that all others are measured by */

/* The cell of a method in cell i's column, or the best of all but the plain one for NULL; -1: none. */
static int in_column(const vt_published *p, const int *column, int i, const char *method) {
    int best = -1;
    for (int k = 0; k < p->n; k++) {
        if (column[k] != column[i] || (method ? !has_value(p, k, "method", method) : has_value(p, k, "method", PLAIN)))
            continue;
        if (best < 0 || p->cells[k].value > p->cells[best].value) best = k;
    }
    return best;
}

/* Adds a finding for each variant below the plain row of its column ("all variants boost"). False: no memory. */
static bool below_plain(vt_oddities *f, const vt_published *p, const int *column) {
    char where[160];
    for (int i = 0; i < p->n; i++) {
        int plain = in_column(p, column, i, PLAIN);
        if (plain < 0 || p->cells[i].value >= p->cells[plain].value) continue;
        vt_oddity *found = vt_oddity_add(f, "variants", false);
        if (!found || !vt_oddity_cell(found, i)) return false;
        snprintf(found->text, sizeof found->text, "%s: %s has %s, the plain " PLAIN " %s, so not all variants boost",
                 vt_published_place(p, i, column_keys, where, sizeof where), key_text(p, i, "method"),
                 p->cells[i].shown, p->cells[plain].shown);
    }
    return true;
}

/* Gain of cell i over cell plain, in percent. */
static double gain_percent(const vt_published *p, int i, int plain) {
    return 100 * (p->cells[i].value / p->cells[plain].value - 1);
}

/* The cell in i's column whose gain, as printed with one decimal, is the stated number; -1: none. */
static int cell_with_gain(const vt_published *p, const int *column, int i, int plain, double stated) {
    for (int k = 0; k < p->n; k++)
        if (column[k] == column[i] && k != plain && fabs(round(10 * gain_percent(p, k, plain)) / 10 - stated) < 1e-9)
            return k;
    return -1;
}

/* Adds a finding on claim's gain, in percent, in its column: a note if it is the best cell's; nothing if the file has
 * no such column or it has no plain row. False: no memory. */
static bool check_stated_gain(vt_oddities *f, const vt_published *p, const int *column, const vt_published *c,
                              int claim) {
    char where[160], other[160] = "";
    int i = 0, j = 0;
    for (; i < p->n; i++) {
        for (j = 0; column_keys[j] && !strcmp(key_text(p, i, column_keys[j]), key_text(c, claim, column_keys[j])); j++)
            continue;
        if (!column_keys[j]) break;
    }
    if (i == p->n) return true; /* no such column */
    int plain = in_column(p, column, i, PLAIN), best = in_column(p, column, i, NULL);
    if (plain < 0 || best < 0) return true;
    double stated = c->cells[claim].value;
    int who = cell_with_gain(p, column, i, plain, stated);
    vt_oddity *found = vt_oddity_add(f, "gain", who == best);
    if (!found || !vt_oddity_cell(found, best)) return false;
    if (who >= 0 && who != best)
        snprintf(other, sizeof other, " (%s is %s's)", c->cells[claim].shown, key_text(p, who, "method"));
    snprintf(found->text, sizeof found->text, "%s: the text's gain is %s %%; from the cells the best, %s, has %.2f%s",
             vt_published_place(p, i, column_keys, where, sizeof where), c->cells[claim].shown,
             key_text(p, best, "method"), gain_percent(p, best, plain), other);
    return true;
}

bool vt_check_scores(vt_oddities *f, const vt_published *p, const vt_published *claims) {
    int n;
    int *column = vt_published_group(p, column_keys, false, &n);
    bool ok = column && below_plain(f, p, column);
    for (int i = 0; ok && claims && i < claims->n; i++) ok = check_stated_gain(f, p, column, claims, i);
    free(column);
    return ok;
}

/* ---- errors ---- */

/* A file of errors lists its methods from the worst to the best, as the text ranks them: one below its predecessor in
 * rank that errs more, all other keys being the same. */
bool vt_check_errors(vt_oddities *f, const vt_published *p) {
    static const char *const method[] = {"method", NULL};
    int n, *column = vt_published_group(p, method, true, &n);
    bool ok = column != NULL;
    for (int i = 0; ok && i < p->n; i++)
        for (int k = 0; ok && k < i; k++) {
            if (column[k] != column[i] || p->cells[i].value <= p->cells[k].value) continue;
            vt_oddity *found = vt_oddity_add(f, "ranks", false);
            ok = found && vt_oddity_cell(found, i) && vt_oddity_cell(found, k);
            if (ok)
                snprintf(found->text, sizeof found->text,
                         "Table %s, n = %s: %s has %s, %s %s, though it is ranked above", key_text(p, i, "table"),
                         key_text(p, i, "n"), key_text(p, i, "method"), p->cells[i].shown, key_text(p, k, "method"),
                         p->cells[k].shown);
        }
    free(column);
    return ok;
}

/* ---- parameters ---- */

static const char *const network_keys[] = {"table", "model", NULL};

/* Returns the tensor of network g that explains a sum `over` too large: as a square of its rows it would fit; -1:
 * none. */
static int square_fits(const vt_published *p, const int *network, int g, double over) {
    for (int i = 0; i < p->n; i++) {
        double rows = strtod(key_text(p, i, "rows"), NULL);
        if (network[i] == g && rows > 0 && fabs(p->cells[i].value - over - rows * rows) < 0.5) return i;
    }
    return -1;
}

/* Adds a finding on network g: the sum of its tensors against the number under `all`, a note if they agree; nothing
 * without that number. False: no memory. */
static bool check_network(vt_oddities *f, const vt_published *p, const int *network, int g) {
    char where[160], why[160] = "";
    double sum = 0;
    int all = -1;
    for (int i = 0; i < p->n; i++) {
        if (network[i] != g) continue;
        if (has_value(p, i, "tensor", "all"))
            all = i;
        else
            sum += p->cells[i].value;
    }
    if (all < 0) return true;
    double over = sum - p->cells[all].value;
    int odd = fabs(over) < 0.5 ? -1 : square_fits(p, network, g, over);
    vt_oddity *found = vt_oddity_add(f, "parameters", fabs(over) < 0.5);
    if (!found || !vt_oddity_cell(found, all) || (odd >= 0 && !vt_oddity_cell(found, odd))) return false;
    if (odd >= 0)
        snprintf(why, sizeof why, "; %s of %s x %s, not %s x %s, gives the printed number", key_text(p, odd, "tensor"),
                 key_text(p, odd, "rows"), key_text(p, odd, "rows"), key_text(p, odd, "rows"),
                 key_text(p, odd, "columns"));
    snprintf(found->text, sizeof found->text,
             "%s: tensors of the printed shapes have %.0f parameters, printed are %s%s",
             vt_published_place(p, all, network_keys, where, sizeof where), sum, p->cells[all].shown, why);
    return true;
}

bool vt_check_parameters(vt_oddities *f, const vt_published *p) {
    int n;
    int *network = vt_published_group(p, network_keys, false, &n);
    bool ok = network != NULL;
    for (int g = 0; ok && g < n; g++) ok = check_network(f, p, network, g);
    free(network);
    return ok;
}
