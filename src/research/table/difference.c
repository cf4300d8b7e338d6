/* SPDX-License-Identifier: MIT */
/* How far apart two rows of a table are, and how certain that is. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "research/table/result.h"

enum { PAIRS = 64 };

typedef struct pairs {
    int a[PAIRS], b[PAIRS], n; /* numbers of the seeds in each row */
} pairs;

/* Whether two cells were evaluated on the same images in the same order. */
static bool same_images(const vt_table_cell *a, const vt_table_cell *b) {
    return a->total == b->total &&
           (a->images == b->images || !memcmp(a->images, b->images, (size_t)a->total * sizeof *a->images));
}

/* Pairs of common seeds that both cells have, by index, PAIRS at most; without one (a checkpoint has none of
 * training's) the first of each that is there. n 0: nothing is. */
static pairs match_seeds(const vt_table *t, int a, int b, const vt_table_cell *x, const vt_table_cell *y) {
    const vt_manifest_row *r = &t->m->rows[a], *s = &t->m->rows[b];
    pairs p = {.n = 0};
    for (int first = 0; first < 2 && !p.n; first++)
        for (int i = 0; i < r->n_seeds && x->right && y->right; i++)
            for (int k = 0; k < s->n_seeds && p.n < (first ? 1 : PAIRS); k++)
                if ((first || r->seeds[i] == s->seeds[k]) && x->right[i] && y->right[k]) p.a[p.n] = i, p.b[p.n++] = k;
    return p;
}

/* Sets the difference in points, interval and p from one training of each: the images are the sample (McNemar). */
static void difference_over_images(vt_difference *d) {
    double low, high;
    vt_paired_interval(d->other, d->for_it, d->images, VT_Z_TWO_SIDED, &low, &high);
    d->points = 100.0 * (double)(d->for_it - d->other) / (double)d->images;
    d->low = 100 * low, d->high = 100 * high, d->p = vt_mcnemar_exact(d->for_it, d->other).two_sided;
}

/* Sets the difference in points, interval and p over trainings: the seeds are the sample. Accuracies are multiples of
 * one image, so that a smaller spread is raised to one image. */
static void difference_over_seeds(vt_difference *d, const double *points) {
    vt_mean_interval(points, d->seeds, 100.0 / (double)d->images, &d->points, &d->low, &d->high, &d->p);
}

bool vt_table_fixed(const vt_table *t, int a, const int *rows, int n) {
    bool fixed = t->m->rows[a].checkpoint != NULL;
    for (int i = 0; i < n; i++) fixed = fixed && t->m->rows[rows[i]].checkpoint;
    return fixed;
}

vt_difference vt_table_difference(const vt_table *t, int a, int b, int data, int attack) {
    const vt_table_cell *x = vt_table_at(t, a, data, attack), *y = vt_table_at(t, b, data, attack);
    pairs p = match_seeds(t, a, b, x, y);
    double points[PAIRS];
    vt_difference d = {.points = NAN, .low = NAN, .high = NAN, .p = NAN};
    if (p.n && vt_table_fixed(t, a, &b, 1)) p.n = 1;
    if (!p.n || !same_images(x, y)) return d;
    d.seeds = p.n, d.images = x->total;
    for (int i = 0; i < p.n; i++) {
        const uint8_t *for_a = x->right[p.a[i]], *for_b = y->right[p.b[i]];
        for (int64_t k = 0; k < x->total; k++) d.for_it += for_a[k] && !for_b[k], d.other += for_b[k] && !for_a[k];
        points[i] = x->value[p.a[i]] - y->value[p.b[i]];
    }
    if (p.n == 1)
        difference_over_images(&d);
    else
        difference_over_seeds(&d, points);
    return d;
}

/* ---- at equal accuracy in another column ---- */

/* qsort order of points: ascending x. */
static int by_x(const void *a, const void *b) {
    double p = ((const vt_table_point *)a)->x, q = ((const vt_table_point *)b)->x;
    return (p > q) - (p < q);
}

double vt_table_on_lines(vt_table_point *p, int n, double x) {
    int i = 1;
    qsort(p, (size_t)n, sizeof *p, by_x);
    while (i < n - 1 && x > p[i].x) i++;
    double run = p[i].x - p[i - 1].x, all = p[n - 1].x - p[0].x;
    if (!(all > 0) || x < p[0].x - all || x > p[n - 1].x + all) return NAN;
    return run > 0 ? p[i - 1].y + (p[i].y - p[i - 1].y) * (x - p[i - 1].x) / run : (p[i - 1].y + p[i].y) / 2;
}

/* A cell's value of a seed; NaN: not there. */
static double value_of_seed(const vt_table *t, int row, int data, int attack, uint64_t seed) {
    const vt_table_cell *c = vt_table_at(t, row, data, attack);
    for (int i = 0; i < c->seeds && c->value; i++)
        if (t->m->rows[row].seeds[i] == seed) return c->value[i];
    return NAN;
}

vt_difference vt_table_frontier(const vt_table *t, int a, const int *rows, int n, int data, int attack, int at) {
    vt_difference d = {.points = NAN,
                       .low = NAN,
                       .high = NAN,
                       .p = NAN,
                       .images = vt_table_at(t, a, data, attack)->total};
    double points[PAIRS];
    vt_table_point *line = calloc((size_t)n, sizeof *line);
    int most = vt_table_fixed(t, a, rows, n) ? 1 : PAIRS;
    for (int s = 0; line && s < t->m->rows[a].n_seeds && d.seeds < most; s++) {
        uint64_t seed = t->m->rows[a].seeds[s];
        double x = value_of_seed(t, a, data, at, seed), y = value_of_seed(t, a, data, attack, seed);
        for (int i = 0; i < n; i++)
            line[i] = (vt_table_point){value_of_seed(t, rows[i], data, at, seed),
                                       value_of_seed(t, rows[i], data, attack, seed)};
        bool there = !isnan(x + y);
        for (int i = 0; i < n; i++) there = there && !isnan(line[i].x + line[i].y);
        double on_line = there ? vt_table_on_lines(line, n, x) : NAN;
        if (isnan(on_line)) continue;
        points[d.seeds++] = y - on_line;
        d.outside += x < line[0].x || x > line[n - 1].x;
    }
    free(line);
    if (d.seeds) difference_over_seeds(&d, points);
    return d;
}
