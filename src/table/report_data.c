/* SPDX-License-Identifier: MIT */
/* CSV and JSON: every number, for other programs. */
#include <math.h>
#include <string.h>
#include "core/json.h"
#include "eval/markup.h"
#include "table/report.h"

static void number(FILE *f, double v) {
    fputc(',', f);
    if (!isnan(v)) fprintf(f, "%.4f", v);
}

void vt_table_csv(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char marks[40];
    const vt_manifest *m = t->m;
    fputs("row,data,attack,seeds,images,accuracy,low,high,least,most,best,published,difference,footnotes\n", f);
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++) {
                const vt_table_cell *c = vt_table_at(t, r, d, a);
                if (!c->wanted) continue;
                vt_csv(f, m->rows[r].name), fputc(',', f), vt_csv(f, m->data[d].name), fputc(',', f),
                    vt_csv(f, m->attacks[a].name);
                fprintf(f, ",%d,%lld", c->done, (long long)c->total);
                number(f, c->mean), number(f, c->low), number(f, c->high), number(f, c->least), number(f, c->most);
                fprintf(f, ",%d", c->best);
                number(f, c->published >= 0 ? t->published->cells[c->published].value : NAN);
                number(f, c->difference);
                fputc(',', f), vt_csv(f, vt_table_marks(t, notes, c->published, marks, sizeof marks)), fputc('\n', f);
            }
}

static json_t *real(double v) { return isnan(v) ? json_null() : json_real(v); }

static json_t *cell_json(const vt_table *t, const vt_table_notes *notes, int r, int d, int a) {
    const vt_table_cell *c = vt_table_at(t, r, d, a);
    json_t *counts = json_array(), *marks = json_array();
    for (int s = 0; s < c->seeds; s++) {
        int64_t right = 0;
        for (int64_t i = 0; c->right[s] && i < c->total; i++) right += c->right[s][i];
        json_array_append_new(counts, json_pack("{s:I,s:o}", "seed", (json_int_t)t->m->rows[r].seeds[s], "right",
                                                c->right[s] ? json_integer(right) : json_null()));
    }
    for (int k = 0; k < notes->n; k++)
        if (c->published >= 0 && vt_oddity_has(&t->odd.items[notes->odd[k]], c->published))
            json_array_append_new(marks, json_integer(k + 1));
    return json_pack("{s:s,s:s,s:s,s:I,s:o,s:o,s:o,s:o,s:b,s:o,s:o,s:o}", "row", t->m->rows[r].name, "data",
                     t->m->data[d].name, "attack", t->m->attacks[a].name, "images", (json_int_t)c->total, "seeds",
                     counts, "accuracy", real(c->mean), "low", real(c->low), "high", real(c->high), "best", c->best,
                     "published", real(c->published >= 0 ? t->published->cells[c->published].value : NAN), "difference",
                     real(c->difference), "footnotes", marks);
}

static json_t *ordering_json(const vt_table *t, const vt_table_ordering *o) {
    return json_pack("{s:s,s:s,s:s,s:s,s:b,s:o,s:s,s:I,s:i,s:I,s:I,s:o,s:o}", "above", t->m->rows[o->above].name,
                     "below", t->m->rows[o->below].name, "data", t->m->data[o->data].name, "attack",
                     t->m->attacks[o->attack].name, "as_published", o->published, "published_gap", real(o->gap),
                     "verdict", vt_claim_name(o->verdict), "images", (json_int_t)o->images, "seeds", o->seeds, "for",
                     (json_int_t)o->for_it, "against", (json_int_t)o->against, "p", real(o->p), "p_holm",
                     real(o->adjusted));
}

void vt_table_json(FILE *f, const vt_table *t, const vt_table_notes *notes) {
    char text[700];
    const vt_manifest *m = t->m;
    json_t *cells = json_array(), *orderings = json_array(), *footer = json_array(), *odd = json_array();
    for (int r = 0; r < m->n_rows; r++)
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++)
                if (vt_table_at(t, r, d, a)->wanted) json_array_append_new(cells, cell_json(t, notes, r, d, a));
    for (int i = 0; i < t->n_orderings; i++) json_array_append_new(orderings, ordering_json(t, &t->orderings[i]));
    for (int i = 0; vt_table_footer(t, i, text, sizeof text); i++) json_array_append_new(footer, json_string(text));
    for (int k = 0; k < notes->n; k++) json_array_append_new(odd, json_string(t->odd.items[notes->odd[k]].text));
    json_t *o = json_pack("{s:s,s:s,s:i,s:i,s:o,s:o,s:o,s:o}", "name", m->name, "title", m->title ? m->title : "",
                          "evaluations", t->wanted, "done", t->done, "cells", cells, "orderings", orderings, "footer",
                          footer, "inconsistent_as_published", odd);
    vt_json_write(f, o, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    json_decref(o);
}
