/* SPDX-License-Identifier: MIT */
/* A table's JSON checked by what it holds of every seed: values, intervals and p computed anew. */
#include <math.h>
#include <stdarg.h>
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

/* What a cell holds of its seeds: percent right, or a singular value; and images that are right. */
typedef struct seeds {
    int n, wanted; /* that are there; all */
    int64_t images, id[SEEDS], right[SEEDS], all[SEEDS];
    double value[SEEDS];
} seeds;

/* The string under key, "" if there is none. */
static const char *text_field(const json_t *o, const char *key) {
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* The integer under key, 0 if there is none; at most 2^40 to either side, so that sums of them do not overflow. */
static int64_t integer_field(const json_t *o, const char *key) {
    const int64_t v = json_integer_value(json_object_get(o, key)), most = (int64_t)1 << 40;
    return v < -most ? -most : v > most ? most : v;
}

/* What a cell holds of its seeds that are finished, at most SEEDS. */
static seeds read_seeds(const json_t *cell) {
    seeds s = {.images = integer_field(cell, "images")};
    const json_t *list = json_object_get(cell, "seeds"), *item;
    for (size_t i = 0; (item = json_array_get(list, i)) && s.n < SEEDS; i++) {
        const json_t *right = json_object_get(item, "right"), *sigma = json_object_get(item, "sigma_max");
        if (s.wanted < SEEDS) s.all[s.wanted++] = integer_field(item, "seed");
        if (!json_is_number(right) && !json_is_number(sigma)) continue; /* not there yet */
        s.id[s.n] = integer_field(item, "seed"), s.right[s.n] = integer_field(item, "right");
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

/* Counts one more statement; if it is wrong, counts that and prints a printf'ed line. */
__attribute__((format(printf, 3, 4))) static void judge(check *c, bool right, const char *format, ...) {
    va_list ap;
    c->numbers++;
    if (right) return;
    c->wrong++;
    fprintf(c->out, "%s: ", c->path);
    va_start(ap, format);
    vfprintf(c->out, format, ap);
    va_end(ap);
    fputc('\n', c->out);
}

/* Compares o's number under key (null: none) with `want` (NaN: none); what: of what it is. */
static void check_number(check *c, const json_t *o, const char *key, double want, const char *what) {
    const json_t *stored = json_object_get(o, key);
    double got = json_is_number(stored) ? json_number_value(stored) : NAN;
    bool right = (!isfinite(want) && isnan(got)) || fabs(got - want) <= TOLERANCE * fmax(1, fabs(want));
    judge(c, right, "%s of %s is %.10g, the seeds give %.10g", key, what, got, want);
}

/* Checks counts, value, interval and difference of a cell, and that it is the only one of its place; a cell of times
 * holds no seeds and is skipped. */
static void check_cell(check *c, const json_t *cell) {
    char what[300];
    seeds s = read_seeds(cell);
    bool counts = !strcmp(text_field(cell, "kind"), "accuracy");
    const json_t *published = json_object_get(cell, "published");
    double mean = s.n ? 0 : NAN, low = NAN, high = NAN, p;
    snprintf(what, sizeof what, "%s, %s, %s", text_field(cell, "row"), text_field(cell, "data"),
             text_field(cell, "attack"));
    judge(c, cell_at(c, text_field(cell, "row"), text_field(cell, "data"), text_field(cell, "attack")) == cell,
          "%s is there twice", what);
    if (!strcmp(text_field(cell, "kind"), "time")) return; /* it holds no seeds */
    for (int i = 0; i < s.n && counts; i++) {
        bool possible =
            s.right[i] >= 0 && s.right[i] <= s.images && s.value[i] == 100.0 * (double)s.right[i] / (double)s.images;
        judge(c, possible, "%s, seed %lld: no such number of %lld images can be right", what, (long long)s.id[i],
              (long long)s.images);
        if (!possible) return;
    }
    bool twice = false;
    for (int i = 0; i < s.wanted; i++)
        for (int k = 0; k < i; k++) twice = twice || s.all[i] == s.all[k];
    judge(c, !twice, "%s has a seed twice", what);
    for (int i = 0; i < s.n; i++) mean += s.value[i] / s.n;
    if (counts && s.n) vt_wilson(llround(mean / 100 * (double)s.images), s.images, &low, &high);
    if (!strcmp(text_field(cell, "kind"), "sigma_max") && s.n > 1)
        vt_mean_interval(s.value, s.n, 0, &mean, &low, &high, &p);
    check_number(c, cell, "value", mean, what), check_number(c, cell, "low", low, what),
        check_number(c, cell, "high", high, what);
    check_number(c, cell, "difference", mean - (json_is_number(published) ? json_number_value(published) : NAN), what);
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

/* What an ordering's rows have in common. */
typedef struct gaps {
    int n, wanted; /* common seeds that are there; all */
    int64_t lead;  /* images that more are right above, over the seeds that count */
    double points[SEEDS];
} gaps;

/* Compares an ordering's rows seed by seed. The lead: over all common seeds; of networks that are `one` pair, of the
 * first, or without a common seed of the first of each, which n then counts. */
static gaps seed_gaps(const check *c, const json_t *o, bool one) {
    seeds a = seeds_of_row(c, o, text_field(o, "above"), text_field(o, "attack")),
          b = seeds_of_row(c, o, text_field(o, "below"), text_field(o, "attack"));
    gaps g = {0};
    for (int i = 0; i < a.wanted; i++)
        for (int k = 0; k < b.wanted; k++) g.wanted += a.all[i] == b.all[k];
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < b.n; k++) {
            if (a.id[i] != b.id[k] || g.n == SEEDS) continue;
            if (!g.n || !one) g.lead += a.right[i] - b.right[k];
            g.points[g.n++] = a.value[i] - b.value[k];
        }
    if (!g.n && a.n && b.n) g.lead = a.right[0] - b.right[0], g.points[g.n++] = a.value[0] - b.value[0];
    if (one && g.n) g.n = g.wanted = 1;
    return g;
}

/* Sets the points of g to row above minus the lines through `rows`, at its own value in column `at`, for each seed that
 * all of them have and the lines reach; n 0 for more than ROWS rows. */
static gaps line_gaps(const check *c, const json_t *o, const json_t *rows, bool one) {
    const char *attack = text_field(o, "attack"), *at = text_field(o, "at");
    seeds x = seeds_of_row(c, o, text_field(o, "above"), at), y = seeds_of_row(c, o, text_field(o, "above"), attack);
    const int count = (int)json_array_size(rows);
    gaps g = {.wanted = one};
    for (int s = 0; s < y.wanted && count <= ROWS && !(one && g.n); s++) {
        const double *to = seed_value(&x, y.all[s]), *from = seed_value(&y, y.all[s]);
        vt_table_point line[ROWS];
        bool there = to && from, wanted = !one;
        for (int i = 0; i < count; i++) {
            const char *row = json_string_value(json_array_get(rows, (size_t)i));
            seeds u = seeds_of_row(c, o, row ? row : "", at), v = seeds_of_row(c, o, row ? row : "", attack);
            const double *px = seed_value(&u, y.all[s]), *py = seed_value(&v, y.all[s]);
            bool listed = false;
            for (int k = 0; k < v.wanted; k++) listed = listed || v.all[k] == y.all[s];
            wanted = wanted && listed, there = there && px && py;
            if (there) line[i] = (vt_table_point){*px, *py};
        }
        g.wanted += wanted;
        double on_line = there ? vt_table_on_lines(line, count, *to) : NAN;
        if (!isnan(on_line)) g.points[g.n++] = *from - on_line;
    }
    return g;
}

/* Computes one comparison anew and checks its numbers; returns p for Holm's correction, NaN: none. *whole: a primary
 * comparison has all its seeds. */
static double check_ordering(check *c, const json_t *o, bool *whole) {
    char what[400];
    double mean = NAN, low = NAN, high = NAN, p = NAN;
    const json_t *frontier = json_object_get(o, "frontier");
    const bool lines = json_array_size(frontier) > 0, one = json_is_true(json_object_get(o, "fixed"));
    const char *rows[] = {text_field(o, "above"), text_field(o, "below")};
    const int64_t images = integer_field(o, "images"), a = integer_field(o, "for"), b = integer_field(o, "against");
    const bool possible = a >= 0 && b >= 0 && a + b <= images;
    gaps g = lines ? line_gaps(c, o, frontier, one) : seed_gaps(c, o, one);
    *whole = g.n >= g.wanted || !json_is_true(json_object_get(o, "primary"));
    snprintf(what, sizeof what, "%s above %s, %s, %s", rows[0], lines ? "the frontier" : rows[1], text_field(o, "data"),
             text_field(o, "attack"));
    for (int i = 0; i < 2; i++)
        judge(c, cell_at(c, rows[i], text_field(o, "data"), text_field(o, "attack")) != NULL, "%s: row %s has no cell",
              what, rows[i]);
    if (g.n > 1 || (g.n && lines)) {
        vt_mean_interval(g.points, g.n, 100.0 / (double)images, &mean, &low, &high, &p);
    } else if (g.n && possible) { /* two networks: what is right under one of them alone decides */
        vt_paired_interval(b, a, images, VT_Z_TWO_SIDED, &low, &high);
        mean = 100.0 * (double)(a - b) / (double)images, low *= 100, high *= 100;
        p = vt_mcnemar_exact(a, b).two_sided;
    }
    if (g.n && !lines)
        judge(c, (possible || g.n > 1) && a - b == g.lead,
              "for - against of %s is %lld - %lld, the seeds give %lld more", what, (long long)a, (long long)b,
              (long long)g.lead);
    check_number(c, o, "seeds", g.n, what);
    check_number(c, o, "points", mean, what), check_number(c, o, "low", low, what),
        check_number(c, o, "high", high, what);
    check_number(c, o, "p", p, what);
    return p;
}

/* [low, high] of an ordering's published range under key; NaN: it has none. */
static void range_field(const json_t *o, const char *key, double *low, double *high) {
    const json_t *r = json_object_get(o, key);
    *low = json_array_size(r) ? json_number_value(json_array_get(r, 0)) : NAN;
    *high = json_array_size(r) ? json_number_value(json_array_get(r, 1)) : NAN;
}

/* Checks an ordering's verdict by its corrected p, as orderings.c decides. Which published differences lie inside of
 * the interval the file does not hold, only their range: "within" needs that the two overlap. */
static void check_verdict(check *c, const json_t *o, double p, bool whole) {
    const char *is = text_field(o, "verdict"), *must;
    const bool lines = json_array_size(json_object_get(o, "frontier")) > 0;
    double points = json_number_value(json_object_get(o, "points")), low = json_number_value(json_object_get(o, "low")),
           high = json_number_value(json_object_get(o, "high")), least, most;
    const json_t *gap = json_object_get(o, "published_gap");
    range_field(o, "published_comparable", &least, &most);
    bool smaller = json_is_number(json_object_get(o, "high")) && json_number_value(gap) > 0 &&
                   high < (isnan(least) ? json_number_value(gap) : least),
         within = !strcmp(is, "within the published range") && low <= most && high >= least;
    if (isnan(p) || !whole)
        must = vt_table_verdict_name(VT_TABLE_ABSENT);
    else if (*text_field(o, "untested"))
        must = vt_table_verdict_name(VT_TABLE_UNTESTED);
    else if (!lines && !integer_field(o, "for") && !integer_field(o, "against"))
        must = vt_table_verdict_name(VT_TABLE_IDENTICAL);
    else if (p <= VT_TABLE_ALPHA && points != 0)
        must = vt_table_verdict_name(points > 0 ? VT_TABLE_HELD : VT_TABLE_CONTRADICTED);
    else
        must = smaller  ? vt_table_verdict_name(VT_TABLE_SMALLER)
               : within ? is
                        : vt_table_verdict_name(VT_TABLE_UNDECIDED);
    judge(c, !strcmp(is, must), "%s above %s, %s, is called '%s' at p %.3g, must be '%s'", text_field(o, "above"),
          lines ? "the frontier" : text_field(o, "below"), text_field(o, "attack"), is, p, must);
    judge(c, json_is_true(json_object_get(o, "smaller_than_published")) == smaller,
          "smaller_than_published of %s above %s, %s, must be %s", text_field(o, "above"), text_field(o, "below"),
          text_field(o, "attack"), smaller ? "true" : "false");
}

/* Checks p_holm of the primary comparisons, which stand first (all, if none is marked), by Holm's correction of p (of
 * each ordering); others must have none. Checks the verdicts by that p, or their own; whole: check_ordering's. False:
 * no memory. */
static bool check_family(check *c, const json_t *orderings, const double *p, const bool *whole) {
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
        check_number(c, o, "p_holm", i < family ? q : NAN, text_field(o, "above"));
        check_verdict(c, o, q, whole[i]);
    }
    free(adjusted);
    return true;
}

vt_status vt_table_check_json(const json_t *o, const char *path, FILE *out, vt_err *e) {
    const json_t *orderings = json_object_get(o, "orderings"), *item;
    check c = {.cells = json_object_get(o, "cells"), .out = out, .path = path};
    if (!json_is_array(c.cells) || !json_is_array(orderings) || !json_array_size(c.cells))
        return vt_fail(e, VT_E_FORMAT, "%s: is no table of vitrine (NAME.json below table's --out)", path);
    size_t n = json_array_size(orderings);
    double *p = calloc(n + 1, sizeof *p);
    bool *all = calloc(n + 1, sizeof *all);
    for (size_t i = 0; (item = json_array_get(c.cells, i)); i++) check_cell(&c, item);
    for (size_t i = 0; p && all && (item = json_array_get(orderings, i)); i++) p[i] = check_ordering(&c, item, &all[i]);
    const bool room = p && all && check_family(&c, orderings, p, all);
    free(p), free(all);
    if (!room) return vt_fail(e, VT_E_MEMORY, "%s: no memory", path);
    if (c.wrong)
        return vt_fail(e, VT_E_FORMAT, "%s: %d of %d numbers are not what its seeds give", path, c.wrong, c.numbers);
    fprintf(out, "%s: %zu cells and %zu comparisons: all %d numbers are what the seeds give\n", path,
            json_array_size(c.cells), n, c.numbers);
    return VT_OK;
}

vt_status vt_table_check(const char *path, FILE *out, vt_err *e) {
    json_t *o;
    vt_err why = {0};
    VT_TRY(vt_json_file(&o, path, (size_t)256 << 20, &why, e));
    if (!o) return vt_fail(e, VT_E_FORMAT, "%s", why.text);
    vt_status s = vt_table_check_json(o, path, out, e);
    json_decref(o);
    return s;
}
