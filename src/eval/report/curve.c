/* SPDX-License-Identifier: MIT */
#include "eval/report/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "base/markup.h"
#include "base/stats.h"
#include "eval/result_index.h"
#include "eval/header.h"

/* ---- from the ledger ---- */

/* Allocates c->entries with names and radii from the header. VT_E_MEMORY. */
static vt_status read_entries(vt_curve *c, vt_err *e) {
    c->n_entries = c->header->n_attacks;
    c->entries = calloc((size_t)c->n_entries + 1, sizeof *c->entries);
    if (!c->entries) return vt_fail(e, VT_E_MEMORY, "no memory for %d attacks", c->n_entries);
    for (int k = 0; k < c->n_entries; k++) {
        const vt_header_attack *a = &c->header->attacks[k];
        c->entries[k] = (vt_curve_entry){.name = a->name, .id = a->id, .eps_text = a->radius_text, .eps = a->radius};
    }
    return VT_OK;
}

/* Orders images for qsort and bsearch, ascending. */
static int by_number(const void *a, const void *b) {
    int32_t x = ((const vt_curve_image *)a)->image, y = ((const vt_curve_image *)b)->image;
    return (x > y) - (x < y);
}

/* Adds an attack's line to its entry and to image place i: costs; of a line that ends the image its distance, and of a
 * broken one its norm. */
static void add_attack_line(vt_curve *c, size_t i, const vt_record *r) {
    vt_curve_image *im = &c->images[i];
    vt_curve_entry *entry = &c->entries[r->entry - 1];
    double *norm = &c->norms[i * (size_t)c->n_entries + (size_t)r->entry - 1];
    entry->tried += r->stage == 0, entry->gradients += r->gradients, entry->forwards += r->forwards;
    entry->vanished += r->vanished > 0, entry->not_finite += r->status == VT_RECORD_NOT_FINITE;
    if (!vt_record_ends(r->status)) return;
    double d = vt_record_norm(r, c->norm);
    if (r->status == VT_RECORD_BROKEN) *norm = d, entry->found++;
    if (isinf(entry->eps)) im->unconfirmed = fmin(im->unconfirmed, d);
    /* of equal norms the earlier entry's, whatever the order of lines */
    if (d < im->distance || (d == im->distance && r->entry - 1 < im->entry))
        im->distance = d, im->entry = r->entry - 1, im->borderline = r->borderline;
}

/* Allocates c->images, of all clean lines in ascending order, and c->norms with what attacks found on them.
 * VT_E_MEMORY. */
static vt_status read_images(vt_curve *c, const vt_ledger *l, vt_err *e) {
    c->images = calloc(l->count + 1, sizeof *c->images);
    if (!c->images) return vt_fail(e, VT_E_MEMORY, "no memory for %zu lines", l->count);
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (r->entry) continue;
        bool right = r->status == VT_RECORD_CORRECT;
        double none = right ? INFINITY : 0;
        c->images[c->n++] = (vt_curve_image){r->image, r->label, r->pred, right, false, none, none, -1};
        c->right += right;
    }
    qsort(c->images, c->n, sizeof *c->images, by_number);
    size_t cells = c->n * (size_t)c->n_entries;
    c->norms = calloc(cells + 1, sizeof *c->norms);
    if (!c->norms) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", c->n);
    for (size_t i = 0; i < cells; i++) c->norms[i] = INFINITY;
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        vt_curve_image key = {.image = r->image};
        const vt_curve_image *im = bsearch(&key, c->images, c->n, sizeof key, by_number);
        if (r->entry > VT_ENTRY_CLEAN && r->entry <= c->n_entries && im)
            add_attack_line(c, (size_t)(im - c->images), r);
    }
    return VT_OK;
}

/* ---- questions ---- */

int64_t vt_curve_robust(const vt_curve *c, double eps) {
    int64_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->images[i].right && c->images[i].distance > eps;
    return n;
}

int64_t vt_curve_unconfirmed(const vt_curve *c, double eps) {
    int64_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->images[i].right && c->images[i].unconfirmed > eps;
    return n;
}

double vt_curve_median(const vt_curve *c, int k) {
    double *d = malloc((c->n + 1) * sizeof *d);
    size_t n = 0;
    for (size_t i = 0; d && i < c->n; i++)
        if (c->images[i].right) d[n++] = c->norms[i * (size_t)c->n_entries + (size_t)k];
    double median = vt_median(d, n);
    free(d);
    return median;
}

/* ---- points ---- */

/* Returns the curve's point at eps; before: robust images at the point before it. Its attack is that of the first image
 * which falls there. */
static vt_curve_point point_at(const vt_curve *c, double eps, int64_t before) {
    vt_curve_point p = {.eps = eps, .robust = vt_curve_robust(c, eps), .entry = -1};
    p.broken = before - p.robust;
    for (size_t i = 0; i < c->n && p.entry < 0; i++)
        if (c->images[i].right && c->images[i].distance == eps) p.entry = c->images[i].entry;
    for (int k = 0; k < c->n_entries; k++) p.confirmed = p.confirmed || c->entries[k].eps == eps;
    vt_wilson(p.robust, (int64_t)c->n, &p.low, &p.high);
    return p;
}

/* Makes the points: at 0, at each distance and at each confirmed eps, ascending, equal ones once. VT_E_MEMORY. */
static vt_status make_points(vt_curve *c, vt_err *e) {
    size_t most = 1 + c->n + (size_t)c->n_entries, n = 0;
    double *eps = malloc(most * sizeof *eps);
    c->points = calloc(most, sizeof *c->points);
    if (eps && c->points) {
        eps[n++] = 0;
        for (size_t i = 0; i < c->n; i++)
            if (isfinite(c->images[i].distance)) eps[n++] = c->images[i].distance;
        for (int k = 0; k < c->n_entries; k++)
            if (isfinite(c->entries[k].eps)) eps[n++] = c->entries[k].eps;
        vt_sort(eps, n);
        for (size_t i = 0; i < n; i++) {
            if (i && eps[i] == eps[i - 1]) continue;
            int64_t before = c->n_points ? c->points[c->n_points - 1].robust : (int64_t)c->n;
            c->points[c->n_points++] = point_at(c, eps[i], before);
        }
    }
    bool good = eps && c->points;
    free(eps);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %zu images", c->n);
}

vt_status vt_curve_make(vt_curve *c, const vt_ledger *l, vt_err *e) {
    *c = (vt_curve){.header = l->header, .norm = l->header->norm};
    vt_status s = read_entries(c, e);
    if (s == VT_OK) s = read_images(c, l, e);
    if (s == VT_OK) s = make_points(c, e);
    if (s != VT_OK) vt_curve_free(c);
    return s;
}

void vt_curve_free(vt_curve *c) {
    free(c->images), free(c->norms), free(c->entries), free(c->points);
    memset(c, 0, sizeof *c);
}

/* ---- files ---- */

/* Returns n in percent of the images; 0 if there are none. */
static double percent_of_images(const vt_curve *c, int64_t n) { return c->n ? 100 * (double)n / (double)c->n : 0; }

/* Returns the attack that broke images at this point; "clean" at 0; "" if none did. */
static const char *breaking_attack_name(const vt_curve *c, const vt_curve_point *p) {
    return p->entry >= 0 ? c->entries[p->entry].name : p->broken && p->eps == 0 ? "clean" : "";
}

/* Writes the points as CSV: a head and a line for each. A write error is left in f. */
static void write_csv(FILE *f, const vt_curve *c) {
    fprintf(f, "eps,robust,images,percent,low95,high95,broken,attack,confirmed\n");
    for (size_t i = 0; i < c->n_points; i++) {
        const vt_curve_point *p = &c->points[i];
        fprintf(f, "%.17g,%lld,%zu,%.4f,%.4f,%.4f,%lld,", p->eps, (long long)p->robust, c->n,
                percent_of_images(c, p->robust), p->low, p->high, (long long)p->broken);
        vt_csv(f, breaking_attack_name(c, p));
        fprintf(f, ",%d\n", p->confirmed);
    }
}

/* Returns entry k as an object; vanished and not_finite only where they are not 0. */
static json_t *entry_json(const vt_curve *c, int k) {
    const vt_curve_entry *a = &c->entries[k];
    json_t *o = json_pack("{s:s,s:s,s:o,s:I,s:I,s:o,s:I,s:I}", "name", a->name, "id", a->id, "eps",
                          vt_json_real(a->eps), "tried", (json_int_t)a->tried, "found", (json_int_t)a->found, "median",
                          vt_json_real(vt_curve_median(c, k)), "gradients", (json_int_t)a->gradients, "forwards",
                          (json_int_t)a->forwards);
    if (a->vanished) json_object_set_new(o, "vanished", json_integer((json_int_t)a->vanished));
    if (a->not_finite) json_object_set_new(o, "not_finite", json_integer((json_int_t)a->not_finite));
    return o;
}

/* Returns image place i as an object; norms that were not found are null. */
static json_t *image_json(const vt_curve *c, size_t i) {
    const vt_curve_image *im = &c->images[i];
    json_t *norms = json_array(), *o;
    for (int k = 0; k < c->n_entries; k++)
        json_array_append_new(norms, vt_json_real(c->norms[i * (size_t)c->n_entries + (size_t)k]));
    o = json_pack("{s:i,s:i,s:i,s:b,s:o,s:b,s:o}", "image", im->image, "label", im->label, "pred", im->pred, "right",
                  im->right, "distance", vt_json_real(im->distance), "borderline", im->borderline, "norms", norms);
    json_object_set_new(o, "attack", im->entry < 0 ? json_null() : json_integer(im->entry));
    return o;
}

json_t *vt_curve_json(const vt_curve *c) {
    size_t before = vt_json_refused();
    json_t *attacks = json_array(), *points = json_array(), *images = json_array(), *o;
    for (int k = 0; k < c->n_entries; k++) json_array_append_new(attacks, entry_json(c, k));
    for (size_t i = 0; i < c->n_points; i++) {
        const vt_curve_point *p = &c->points[i];
        json_array_append_new(points, json_pack("{s:f,s:I,s:f,s:[f,f],s:I,s:s,s:b}", "eps", p->eps, "robust",
                                                (json_int_t)p->robust, "percent", percent_of_images(c, p->robust),
                                                "interval95", p->low, p->high, "broken", (json_int_t)p->broken,
                                                "attack", breaking_attack_name(c, p), "confirmed", p->confirmed));
    }
    for (size_t i = 0; i < c->n; i++) json_array_append_new(images, image_json(c, i));
    o = json_pack("{s:s,s:O,s:I,s:I,s:o,s:o,s:o}", "format", "vitrine curve 1", "run", c->header->document, "total",
                  (json_int_t)c->n, "right", (json_int_t)c->right, "attacks", attacks, "points", points, "images",
                  images);
    return vt_json_whole(o, before);
}

vt_status vt_curve_write(const vt_curve *c, const char *dir, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, dir, "curve.csv", e));
    write_csv(f.stream, c);
    VT_TRY(vt_file_commit(&f, e));
    json_t *o = vt_curve_json(c);
    vt_status s = vt_json_save(dir, "curve.json", o, JSON_INDENT(1), e);
    json_decref(o);
    return s;
}
