/* SPDX-License-Identifier: MIT */
/* A table's JSON checked by what it holds of every seed: values, intervals and p computed anew. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "base/stats.h"
#include "research/table/report.h"

enum { SEEDS = 64, ROWS = 16 };
#define TOLERANCE 1e-9 /* numbers have the fewest digits that read back; sums may be formed in another order */

typedef struct check {
    const json_t *cells;
    FILE *out;
    const char *path;
    int numbers, wrong;
} check;

/* What a cell holds of its seeds: percent right, or a singular value. */
typedef struct seeds {
    int n;
    int64_t images, id[SEEDS];
    double value[SEEDS];
} seeds;

/* The string under key, "" if there is none. */
static const char *text_field(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The integer under key, 0 if there is none. */
static int64_t integer_field(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

/* What a cell holds of its seeds that are finished, at most SEEDS. */
static seeds read_seeds(const json_t *cell) {
    seeds s = {.images = integer_field(cell, "images")};
    const json_t *list = json_object_get(cell, "seeds"), *item;
    for (size_t i = 0; (item = json_array_get(list, i)) && s.n < SEEDS; i++) {
        const json_t *right = json_object_get(item, "right"), *sigma = json_object_get(item, "sigma_max");
        if (!json_is_number(right) && !json_is_number(sigma)) continue; /* not there yet */
        s.id[s.n] = integer_field(item, "seed");
        s.value[s.n++] = right ? 100 * json_number_value(right) / (double)s.images : json_number_value(sigma);
    }
    return s;
}

/* The cell of a row, data set and attack; NULL: none. */
static const json_t *cell_at(const check *c, const char *row, const char *data, const char *attack) {
    const json_t *cell;
    for (size_t i = 0; (cell = json_array_get(c->cells, i)); i++)
        if (!strcmp(text_field(cell, "row"), row) && !strcmp(text_field(cell, "data"), data) &&
            !strcmp(text_field(cell, "attack"), attack))
            return cell;
    return NULL;
}

/* Compares o's number under key (null: none) with `want` (NaN: none) and counts it in c->numbers; if they differ,
 * counts it in c->wrong and prints a line that names `what`. */
static void check_number(check *c, const json_t *o, const char *key, double want, const char *what) {
    const json_t *stored = json_object_get(o, key);
    double got = json_is_number(stored) ? json_number_value(stored) : NAN;
    c->numbers++;
    if ((!isfinite(want) && isnan(got)) || fabs(got - want) <= TOLERANCE * fmax(1, fabs(want))) return;
    c->wrong++;
    fprintf(c->out, "%s: %s of %s is %.10g, the seeds give %.10g\n", c->path, key, what, got, want);
}

/* Checks value and interval of a cell; a cell of times holds no seeds and is skipped. */
static void check_cell(check *c, const json_t *cell) {
    char what[300];
    seeds s = read_seeds(cell);
    double mean = s.n ? 0 : NAN, low = NAN, high = NAN, p;
    if (!strcmp(text_field(cell, "kind"), "time")) return; /* it holds no seeds */
    for (int i = 0; i < s.n; i++) mean += s.value[i] / s.n;
    if (!strcmp(text_field(cell, "kind"), "accuracy") && s.n)
        vt_wilson(llround(mean / 100 * (double)s.images), s.images, &low, &high);
    if (!strcmp(text_field(cell, "kind"), "sigma_max") && s.n > 1)
        vt_mean_interval(s.value, s.n, 0, &mean, &low, &high, &p);
    snprintf(what, sizeof what, "%s, %s, %s", text_field(cell, "row"), text_field(cell, "data"),
             text_field(cell, "attack"));
    check_number(c, cell, "value", mean, what), check_number(c, cell, "low", low, what),
        check_number(c, cell, "high", high, what);
}

/* The value of seed `id`; NULL: none. */
static const double *seed_value(const seeds *s, int64_t id) {
    for (int i = 0; i < s->n; i++)
        if (s->id[i] == id) return &s->value[i];
    return NULL;
}

/* Seeds of a row in the data set of ordering o, under an attack. */
static seeds seeds_of_row(const check *c, const json_t *o, const char *row, const char *attack) {
    return read_seeds(cell_at(c, row, text_field(o, "data"), attack));
}

/* points [SEEDS]: differences of the ordering's rows, seed by seed; returns how many seeds are common. */
static int seed_differences(const check *c, const json_t *o, double *points) {
    seeds a = seeds_of_row(c, o, text_field(o, "above"), text_field(o, "attack")),
          b = seeds_of_row(c, o, text_field(o, "below"), text_field(o, "attack"));
    int n = 0;
    for (int i = 0; i < a.n; i++)
        if (seed_value(&b, a.id[i])) points[n++] = a.value[i] - *seed_value(&b, a.id[i]);
    return n;
}

/* Sets points [SEEDS] to row above minus the lines through `rows`, at its own value in column `at`, for each seed that
 * all of them have; returns how many. 0 for more than ROWS rows. */
static int frontier_differences(const check *c, const json_t *o, const json_t *rows, double *points) {
    const char *attack = text_field(o, "attack"), *at = text_field(o, "at");
    seeds x = seeds_of_row(c, o, text_field(o, "above"), at), y = seeds_of_row(c, o, text_field(o, "above"), attack);
    int n = 0, count = (int)json_array_size(rows);
    for (int s = 0; s < x.n && count <= ROWS; s++) {
        vt_table_point line[ROWS];
        bool there = seed_value(&y, x.id[s]) != NULL;
        for (int i = 0; i < count && there; i++) {
            const char *row = json_string_value(json_array_get(rows, (size_t)i));
            seeds u = seeds_of_row(c, o, row ? row : "", at), v = seeds_of_row(c, o, row ? row : "", attack);
            there = seed_value(&u, x.id[s]) && seed_value(&v, x.id[s]);
            if (there) line[i] = (vt_table_point){*seed_value(&u, x.id[s]), *seed_value(&v, x.id[s])};
        }
        if (there) points[n++] = *seed_value(&y, x.id[s]) - vt_table_on_lines(line, count, x.value[s]);
    }
    return n;
}

/* Computes one comparison anew and checks its numbers; returns p for Holm's correction, NaN: none. */
static double check_ordering(check *c, const json_t *o) {
    char what[400];
    double points[SEEDS], mean = NAN, low = NAN, high = NAN, p = NAN;
    const json_t *frontier = json_object_get(o, "frontier");
    int64_t images = integer_field(o, "images");
    int n = json_array_size(frontier) ? frontier_differences(c, o, frontier, points) : seed_differences(c, o, points);
    if (n > 1 || (n && json_array_size(frontier))) {
        vt_mean_interval(points, n, 100.0 / (double)images, &mean, &low, &high, &p);
    } else if (integer_field(o, "seeds")) { /* two networks: what is right under one of them alone decides */
        int64_t a = integer_field(o, "for"), b = integer_field(o, "against");
        vt_paired_interval(b, a, images, VT_Z_TWO_SIDED, &low, &high);
        mean = 100.0 * (double)(a - b) / (double)images, low *= 100, high *= 100;
        p = vt_mcnemar_exact(a, b).two_sided;
        n = 1;
    }
    snprintf(what, sizeof what, "%s above %s, %s, %s", text_field(o, "above"),
             json_array_size(frontier) ? "the frontier" : text_field(o, "below"), text_field(o, "data"),
             text_field(o, "attack"));
    check_number(c, o, "seeds", n, what);
    check_number(c, o, "points", mean, what), check_number(c, o, "low", low, what),
        check_number(c, o, "high", high, what);
    check_number(c, o, "p", p, what);
    return p;
}

/* Checks p_holm of the primary comparisons, which stand first (all, if none is marked), by Holm's correction of p (of
 * each ordering); others must have none. Checks held and contradicted by the sign of points and that p, or their own.
 * Counts as check_number does; false: no memory. */
static bool check_family(check *c, const json_t *orderings, const double *p) {
    size_t n = json_array_size(orderings), family = 0;
    double *adjusted = calloc(2 * n + 1, sizeof *adjusted), *own;
    bool any = false;
    if (!adjusted) return false;
    own = adjusted + n;
    for (size_t i = 0; i < n; i++) any = any || json_is_true(json_object_get(json_array_get(orderings, i), "primary"));
    while (family < n && (!any || json_is_true(json_object_get(json_array_get(orderings, family), "primary"))))
        family++;
    for (size_t i = 0; i < family; i++) own[i] = p[i];
    vt_holm(adjusted, own, (int)family);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(orderings, i);
        double q = isnan(p[i]) ? NAN : i < family ? adjusted[i] : p[i];
        bool held = !strcmp(text_field(o, "verdict"), "held"),
             against = !strcmp(text_field(o, "verdict"), "contradicted");
        double points = json_number_value(json_object_get(o, "points"));
        check_number(c, o, "p_holm", i < family ? q : NAN, text_field(o, "above"));
        c->numbers++;
        if ((!held && !against) || (q <= VT_TABLE_ALPHA && (points > 0) == held)) continue;
        c->wrong++;
        fprintf(c->out, "%s: %s above %s, %s, is called %s at p %.3g\n", c->path, text_field(o, "above"),
                text_field(o, "below"), text_field(o, "attack"), text_field(o, "verdict"), q);
    }
    free(adjusted);
    return true;
}

vt_status vt_table_check(const char *path, FILE *out, vt_err *e) {
    json_t *o;
    VT_TRY(vt_json_file(&o, path, (size_t)256 << 20, NULL, e));
    const json_t *orderings = json_object_get(o, "orderings"), *item;
    check c = {.cells = json_object_get(o, "cells"), .out = out, .path = path};
    size_t n = json_array_size(orderings);
    double *p = calloc(n + 1, sizeof *p);
    if (!json_is_array(c.cells) || !json_is_array(orderings) || !json_array_size(c.cells)) {
        json_decref(o), free(p);
        return vt_fail(e, VT_E_FORMAT, "%s: is no table of vitrine (NAME.json below table's --out)", path);
    }
    for (size_t i = 0; (item = json_array_get(c.cells, i)); i++) check_cell(&c, item);
    for (size_t i = 0; p && (item = json_array_get(orderings, i)); i++) p[i] = check_ordering(&c, item);
    const bool whole = p && check_family(&c, orderings, p);
    vt_status s = whole ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    if (s == VT_OK && c.wrong)
        s = vt_fail(e, VT_E_FORMAT, "%s: %d of %d numbers are not what its seeds give", path, c.wrong, c.numbers);
    if (s == VT_OK)
        fprintf(out, "%s: %zu cells and %zu comparisons: all %d numbers are what the seeds give\n", path,
                json_array_size(c.cells), n, c.numbers);
    json_decref(o), free(p);
    return s;
}
