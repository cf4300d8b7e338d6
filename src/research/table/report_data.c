/* SPDX-License-Identifier: MIT */
/* CSV and JSON: every number, for other programs. */
#include <math.h>
#include <string.h>
#include "base/json.h"
#include "base/markup.h"
#include "research/table/report.h"

/* Writes a comma and v with four decimals, nothing for NaN. */
static void write_number(FILE *f, double v) {
    fputc(',', f);
    if (!isnan(v)) fprintf(f, "%.4f", v);
}

static const char *const kinds[] =
    {[VT_CELL_ACCURACY] = "accuracy", [VT_CELL_TIME] = "time", [VT_CELL_SIGMA] = "sigma_max"};

void vt_table_csv(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char marks[40];
    const vt_manifest *m = t->m;
    fputs("row,data,attack,kind,seeds,images,value,low,high,least,most,best,published,difference,footnotes\n", f);
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++) {
                const vt_table_cell *c = vt_table_at(t, r, d, a);
                if (!c->wanted) continue;
                vt_csv(f, m->rows[r].name), fputc(',', f), vt_csv(f, m->data[d].name), fputc(',', f),
                    vt_csv(f, m->attacks[a].name);
                fprintf(f, ",%s,%d,%lld", kinds[c->kind], c->done, (long long)c->total);
                write_number(f, c->mean), write_number(f, c->low), write_number(f, c->high), write_number(f, c->least),
                    write_number(f, c->most);
                fprintf(f, ",%d", c->best);
                write_number(f, c->published >= 0 ? t->published->cells[c->published].value : NAN);
                write_number(f, c->difference);
                fputc(',', f), vt_csv(f, vt_table_marks(t, notes, c->published, marks, sizeof marks)), fputc('\n', f);
            }
}

/* A seed's number of images that are right, or its singular value; null if it is not there. */
static json_t *seed_json(const vt_table_cell *c, int seed) {
    int64_t right = 0;
    if (c->kind == VT_CELL_SIGMA) return vt_json_real(c->value[seed]);
    for (int64_t i = 0; c->right[seed] && i < c->total; i++) right += c->right[seed][i];
    return c->right[seed] ? json_integer(right) : json_null();
}

/* JSON of a cell: place, kind, seeds, mean, interval, published number and footnotes. */
static json_t *cell_json(const vt_table *t, const vt_table_notes *notes, int r, int d, int a) {
    const vt_table_cell *c = vt_table_at(t, r, d, a);
    json_t *counts = json_array(), *marks = json_array();
    for (int s = 0; s < c->seeds; s++)
        if (vt_manifest_seeded(t->m, r, a, t->m->rows[r].seeds[s]))
            json_array_append_new(counts, json_pack("{s:I,s:o}", "seed", (json_int_t)t->m->rows[r].seeds[s],
                                                    c->kind == VT_CELL_SIGMA ? "sigma_max" : "right", seed_json(c, s)));
    for (int k = 0; k < notes->n; k++)
        if (c->published >= 0 && vt_oddity_has(&t->odd.items[notes->odd[k]], c->published))
            json_array_append_new(marks, json_integer(k + 1));
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:o,s:o,s:o,s:o,s:b,s:o,s:o,s:o}", "row", t->m->rows[r].name, "data",
                     t->m->data[d].name, "attack", t->m->attacks[a].name, "kind", kinds[c->kind], "images",
                     (json_int_t)c->total, "seeds", counts, "value", vt_json_real(c->mean), "low", vt_json_real(c->low),
                     "high", vt_json_real(c->high), "best", c->best, "published",
                     vt_json_real(c->published >= 0 ? t->published->cells[c->published].value : NAN), "difference",
                     vt_json_real(c->difference), "footnotes", marks);
}

/* [least, most, backbones], or null if there is none. */
static json_t *range_json(const vt_published_range *r) {
    return r->n ? json_pack("[f,f,i]", r->least, r->most, r->n) : json_null();
}

/* JSON of a comparison: rows, verdict, difference, interval and p. */
static json_t *ordering_json(const vt_table *t, const vt_table_ordering *o) {
    const vt_manifest_primary *p = o->primary;
    json_t *frontier = json_array();
    for (int i = 0; p && p->at >= 0 && i < p->n_rows; i++)
        json_array_append_new(frontier, json_string(t->m->rows[p->rows[i]].name));
    json_t *j =
        json_pack("{s:b,s:s,s:s,s:o,s:s,s:s,s:b,s:o,s:s,s:b,s:I,s:i,s:I,s:I,s:o,s:o,s:o,s:o,s:o,s:i}", "primary",
                  p != NULL, "above", t->m->rows[o->above].name, "below", t->m->rows[o->below].name, "frontier",
                  frontier, "data", t->m->data[o->data].name, "attack", t->m->attacks[o->attack].name, "as_published",
                  o->published, "published_gap", vt_json_real(o->gap), "verdict", vt_table_verdict_name(o->verdict),
                  "smaller_than_published", o->smaller, "images", (json_int_t)o->d.images, "seeds", o->d.seeds, "for",
                  (json_int_t)o->d.for_it, "against", (json_int_t)o->d.other, "points", vt_json_real(o->d.points),
                  "low", vt_json_real(o->d.low), "high", vt_json_real(o->d.high), "p", vt_json_real(o->d.p), "p_holm",
                  vt_json_real(o->corrected ? o->adjusted : NAN), "outside", o->d.outside);
    if (p && p->at >= 0) json_object_set_new(j, "at", json_string(t->m->attacks[p->at].name));
    if (vt_table_fixed(t, o->above, p ? p->rows : &o->below, p ? p->n_rows : 1))
        json_object_set_new(j, "fixed", json_true());
    json_object_set_new(j, "untested", o->untested ? json_string(o->untested) : json_null());
    json_object_set_new(j, "published_range", range_json(&o->all));
    json_object_set_new(j, "published_comparable", range_json(&o->comparable));
    return j;
}

/* JSON of calibration k's best value and whether it is inside its grid. */
static json_t *calibration_json(const vt_table *t, int k) {
    vt_best b = vt_table_best(t, k);
    return json_pack("{s:s,s:o,s:o,s:b}", "name", t->m->calibrations[k].name, "best",
                     b.name ? json_string(b.name) : json_null(), "value", vt_json_real(b.value), "inner", b.inner);
}

json_t *vt_table_json(const vt_table *t, const vt_table_notes *notes) {
    size_t before = vt_json_refused();
    char text[700];
    const vt_manifest *m = t->m;
    json_t *cells = json_array(), *orderings = json_array(), *footer = json_array(), *odd = json_array(),
           *calibrations = json_array();
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++)
                if (vt_table_at(t, r, d, a)->wanted) json_array_append_new(cells, cell_json(t, notes, r, d, a));
    for (int i = 0; i < t->n_orderings; i++) json_array_append_new(orderings, ordering_json(t, &t->orderings[i]));
    for (int k = 0; k < m->n_calibrations; k++) json_array_append_new(calibrations, calibration_json(t, k));
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++) json_array_append_new(footer, json_string(text));
    for (int k = 0; k < notes->n; k++) json_array_append_new(odd, json_string(t->odd.items[notes->odd[k]].text));
    json_t *o = json_pack("{s:s,s:s,s:i,s:i,s:o,s:o,s:o,s:o,s:o}", "name", m->name, "title", m->title ? m->title : "",
                          "evaluations", t->wanted, "done", t->done, "cells", cells, "orderings", orderings,
                          "calibrations", calibrations, "footer", footer, "inconsistent_as_published", odd);
    return vt_json_whole(o, before);
}
