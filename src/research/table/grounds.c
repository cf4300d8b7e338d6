/* SPDX-License-Identifier: MIT */
/* What a verdict cannot stand on: a penalty that moved nothing, a calibration whose best value lies at the end of its
 * grid, and one published difference where the paper has several. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/table/result.h"

/* ---- penalties that did nothing ---- */

/* Returns the recipe of a row's training on data set d, all keys set; NULL: a checkpoint. */
static const char *recipe_of(const vt_table *t, int row, int d) {
    for (int i = 0; i < t->plan->n; i++) {
        const vt_plan_cell *c = &t->plan->cells[i];
        if (c->train && c->row == row && c->data == d) return c->recipe;
    }
    return NULL;
}

/* Returns the next line of a recipe that is neither of its section msvp nor its name or seed; NULL: the end. *n: its
 * bytes. */
static const char *line_of_rest(const char *at, size_t *n) {
    for (bool inside = false; *at; at += *n + (at[*n] == '\n')) {
        *n = strcspn(at, "\n");
        if (*at != ' ') inside = !strncmp(at, "msvp:", 5);
        if (!inside && strncmp(at, "name:", 5) && strncmp(at, "seed:", 5)) return at;
    }
    return NULL;
}

/* Is row b row a without its penalty, on data set d? */
static bool without_penalty(const vt_table *t, int a, int b, int d) {
    const char *x = recipe_of(t, a, d), *y = recipe_of(t, b, d), *p = t->m->rows[a].init, *q = t->m->rows[b].init;
    size_t n = 0, k = 0;
    if (!x || !y || !strstr(x, "\nmsvp:") || strstr(y, "\nmsvp:") || (p && q ? strcmp(p, q) != 0 : p != q))
        return false;
    while ((x = line_of_rest(x, &n)) && (y = line_of_rest(y, &k)) && n == k && !memcmp(x, y, n))
        x += n + (x[n] == '\n'), y += k + (y[k] == '\n');
    return !x && !line_of_rest(y, &k);
}

/* Has the penalty of a recipe a weight for a branch (q, k or v)? */
static bool is_branch_penalised(const char *recipe, char branch) {
    double q = 0, k = 0, v = 0;
    sscanf(strstr(recipe, "\nmsvp:"), "\nmsvp: lambda: %lf,%lf,%lf", &q, &k, &v);
    return (branch == 'q' ? q : branch == 'k' ? k : v) > 0;
}

/* Sets with, without to the means of two rows' cells over their common seeds; false: there is none. */
static bool common_means(const vt_table *t, int a, int b, int d, int c, double *with, double *without) {
    const vt_table_cell *x = vt_table_at(t, a, d, c), *y = vt_table_at(t, b, d, c);
    int n = 0;
    *with = *without = 0;
    for (int i = 0; i < x->seeds && x->value; i++)
        for (int k = 0; k < y->seeds && y->value; k++)
            if (t->m->rows[a].seeds[i] == t->m->rows[b].seeds[k] && !isnan(x->value[i] + y->value[k]))
                *with += x->value[i], *without += y->value[k], n++;
    return n > 0;
}

enum { LEAST = 5 }; /* percent: below it a target counts as not moved */

typedef struct effect {
    int targets, still; /* of the penalty; those that moved by less than LEAST */
    double mean;        /* change of the targets, percent */
    char list[400];     /* of the still ones, ", sigma Q by -4.1 %" */
} effect;

/* Returns the effect of row a's penalty on its targets (sigma_max columns) on data set d, against row b without it,
 * over the seeds of both; targets 0: there are none. */
static effect measure_effect(const vt_table *t, int a, int b, int d) {
    const vt_manifest *m = t->m;
    effect x = {0};
    size_t used = 0;
    for (int c = 0; c < m->n_attacks; c++) {
        double with, without;
        if (!m->attacks[c].spectrum || !common_means(t, a, b, d, c, &with, &without)) continue;
        if (!is_branch_penalised(recipe_of(t, a, d), m->attacks[c].spectrum[0])) continue;
        double change = 100 * (with / without - 1);
        x.mean += (change - x.mean) / ++x.targets;
        if (fabs(change) >= LEAST || used >= sizeof x.list) continue;
        x.still++;
        used += (size_t)snprintf(x.list + used, sizeof x.list - used, ", %s by %+.1f %%", m->attacks[c].name, change);
    }
    return x;
}

/* Whether there are targets and their mean change is below LEAST percent. */
static bool is_idle(const effect *x) { return x->targets && fabs(x->mean) < LEAST; }

/* Whether row a's penalty is idle on data set d, against any row without it. */
static bool is_idle_row(const vt_table *t, int a, int d) {
    for (int b = 0; b < t->m->n_rows; b++) {
        effect x = {0};
        if (b != a && without_penalty(t, a, b, d)) x = measure_effect(t, a, b, d);
        if (is_idle(&x)) return true;
    }
    return false;
}

/* Writes the k-th sentence on a penalty that moved a target, or all in the mean, by less than LEAST percent. False:
 * there are fewer. */
static bool penalty_sentence(const vt_table *t, int k, char *buf, size_t size) {
    const vt_manifest *m = t->m;
    for (int a = 0; a < m->n_rows; a++)
        for (int b = 0; b < m->n_rows; b++)
            for (int d = 0; d < m->n_data && a != b; d++) {
                effect x = {0};
                if (without_penalty(t, a, b, d)) x = measure_effect(t, a, b, d);
                if ((!x.still && !is_idle(&x)) || k--) continue;
                if (!is_idle(&x))
                    snprintf(buf, size,
                             "Warning: the penalty of %s changed its targets by %+.1f %% in the mean from %s, but %s: "
                             "less than %d %%.",
                             m->rows[a].name, x.mean, m->rows[b].name, x.list + 2, LEAST);
                else
                    snprintf(buf, size,
                             "Warning: the penalty of %s changed its targets by %+.1f %% in the mean%s%s from %s: less "
                             "than %d %%.",
                             m->rows[a].name, x.mean, x.still ? ": " : "", x.still ? x.list + 2 : "", m->rows[b].name,
                             LEAST);
                return true;
            }
    return false;
}

/* ---- calibrations ---- */

/* Values in a calibration's grid. */
static int grid_size(const vt_manifest_calibration *c) { return c->points.n ? c->points.n : c->n_rows; }

/* Returns the score of a calibration's i-th value, from the manifest's points or a row's mean; NaN: cells lack. */
static double grid_value(const vt_table *t, const vt_manifest_calibration *c, int i) {
    return c->points.n ? strtod(c->points.pair[i].value, NULL) : vt_table_at(t, c->rows[i], c->data, c->column)->mean;
}

vt_best vt_table_best(const vt_table *t, int calibration) {
    const vt_manifest_calibration *c = &t->m->calibrations[calibration];
    int n = grid_size(c);
    vt_best b = {.value = -INFINITY};
    for (int i = 0; i < n; i++) {
        double v = grid_value(t, c, i);
        if (isnan(v)) return (vt_best){.value = NAN};
        const char *name = c->points.n ? c->points.pair[i].key : t->m->rows[c->rows[i]].name;
        if (v > b.value) b = (vt_best){name, v, i > 0};
    }
    b.inner = b.inner && b.value > grid_value(t, c, n - 1); /* nor a plateau that reaches the end */
    return b;
}

/* Whether the row belongs to a calibration whose best value is at an end of its grid. */
static bool at_an_edge(const vt_table *t, int row) {
    for (int k = 0; k < t->m->n_calibrations; k++)
        for (int i = 0; i < t->m->calibrations[k].n_rows; i++) {
            vt_best b = vt_table_best(t, k);
            if (t->m->calibrations[k].rows[i] == row && b.name && !b.inner) return true;
        }
    return false;
}

/* buf: calibration k's best value, and whether it is inside its grid. */
static void calibration_sentence(const vt_table *t, int k, char *buf, size_t size) {
    const vt_manifest_calibration *c = &t->m->calibrations[k];
    vt_best b = vt_table_best(t, k);
    if (!b.name)
        snprintf(buf, size, "Calibration, %s: its cells are not all there.", c->name);
    else if (b.inner)
        snprintf(buf, size, "Calibration, %s: best at %s (%.2f), inner maximum of %d values.", c->name, b.name, b.value,
                 grid_size(c));
    else
        snprintf(buf, size,
                 "Warning: calibration, %s: best value at the end of its grid (%.2f at %s, of %d): no calibration.",
                 c->name, b.value, b.name, grid_size(c));
}

bool vt_table_ground(const vt_table *t, int k, char *buf, size_t size) {
    int penalties = 0;
    if (penalty_sentence(t, k, buf, size)) return true;
    while (penalty_sentence(t, penalties, buf, size)) penalties++;
    if (k - penalties >= t->m->n_calibrations) return false;
    calibration_sentence(t, k - penalties, buf, size);
    return true;
}

const char *vt_table_untested(const vt_table *t, const vt_table_ordering *o) {
    const vt_manifest_primary *p = o->primary;
    const int *others = p ? p->rows : &o->below;
    bool still = is_idle_row(t, o->above, o->data), edge = at_an_edge(t, o->above);
    for (int i = 0; i < (p ? p->n_rows : 1); i++) {
        still = still || is_idle_row(t, others[i], o->data);
        edge = edge || at_an_edge(t, others[i]);
    }
    return still ? "the penalty did nothing" : edge ? "no calibration" : NULL;
}

/* ---- the paper's other cells of the same comparison ---- */

/* Adds a value to the range and counts it. */
static void widen_range(vt_published_range *r, double v) {
    if (!r->n++) r->least = r->most = v;
    r->least = fmin(r->least, v), r->most = fmax(r->most, v);
}

void vt_table_ranges(const vt_table *t, vt_table_ordering *o) {
    static const char *const place[] = {"table", "backbone", NULL}, *const method[] = {"method", NULL};
    const vt_published *p = t->published;
    int a = vt_table_at(t, o->above, o->data, o->attack)->published,
        b = vt_table_at(t, o->below, o->data, o->attack)->published;
    if (!o->published || a < 0 || b < 0) return;
    for (int i = 0; i < p->n; i++) {
        if (!vt_published_agree(p, i, a, place)) continue;
        for (int k = 0; k < p->n; k++) {
            if (!vt_published_agree(p, k, i, method) || !vt_published_agree(p, k, b, place)) continue;
            double gap = p->cells[i].value - p->cells[k].value;
            widen_range(&o->all, gap);
            if (!vt_words_have(&t->m->comparable, vt_published_at(p, i, "backbone"))) continue;
            widen_range(&o->comparable, gap);
            o->within = o->within || (o->d.low <= gap && gap <= o->d.high);
        }
    }
}
