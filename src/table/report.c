/* SPDX-License-Identifier: MIT */
#include "table/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"

typedef struct form {
    const char *suffix; /* NULL: the terminal */
    void (*write)(FILE *f, const vt_table *t, const vt_table_notes *notes);
} form;

static const form reports[] = {
    {NULL, vt_table_term},    {".md", vt_table_md},   {".tex", vt_table_tex},
    {".html", vt_table_html}, {".csv", vt_table_csv}, {".json", vt_table_json},
};

/* ---- footnotes ---- */

static vt_status collect(vt_table_notes *notes, const vt_table *t, vt_err *e) {
    notes->odd = calloc((size_t)t->odd.n + 1, sizeof *notes->odd);
    if (!notes->odd) return vt_fail(e, VT_E_MEMORY, "%s: no memory for footnotes", t->m->path);
    for (int k = 0; k < t->odd.n; k++) {
        bool shown = false;
        size_t cells = (size_t)t->m->n_rows * (size_t)t->m->n_data * (size_t)t->m->n_attacks;
        for (size_t i = 0; i < cells && !shown; i++)
            shown = t->cells[i].wanted && t->cells[i].published >= 0 &&
                    vt_oddity_has(&t->odd.items[k], t->cells[i].published);
        if (shown && !t->odd.items[k].note) notes->odd[notes->n++] = k;
    }
    return VT_OK;
}

const char *vt_table_marks(const vt_table *t, const vt_table_notes *notes, int published, char *buf, size_t size) {
    size_t used = 0;
    *buf = 0;
    for (int k = 0; published >= 0 && k < notes->n && used + 8 < size; k++)
        if (vt_oddity_has(&t->odd.items[notes->odd[k]], published))
            used += (size_t)snprintf(buf + used, size - used, "%s%d", used ? "," : "", k + 1);
    return buf;
}

/* ---- words ---- */

const char *vt_table_number(double v, char buf[32]) {
    snprintf(buf, 32, isnan(v) ? "-" : "%.2f", v);
    return buf;
}

bool vt_table_column(const vt_table *t, int data, int attack) {
    for (int r = 0; r < t->m->n_rows; r++)
        if (vt_table_at(t, r, data, attack)->wanted) return true;
    return false;
}

void vt_table_ordering_text(const vt_table *t, const vt_table_ordering *o, char *what, size_t n_what, char *how,
                            size_t n_how) {
    char gap[60] = "";
    if (!isnan(o->gap)) snprintf(gap, sizeof gap, " (published: by %.2f points)", o->gap);
    snprintf(what, n_what, "%s above %s, %s, %s%s", t->m->rows[o->above].name, t->m->rows[o->below].name,
             t->m->data[o->data].name, t->m->attacks[o->attack].name, gap);
    if (!o->seeds)
        snprintf(how, n_how, "undecided here: its cells are not there");
    else
        snprintf(how, n_how,
                 "%s here: right on %lld images where the other is not, against %lld, of %lld; %d seed%s; p = %.2g, "
                 "after Holm %.2g",
                 vt_claim_name(o->verdict), (long long)o->for_it, (long long)o->against, (long long)o->images, o->seeds,
                 o->seeds == 1 ? "" : "s", o->p, o->adjusted);
}

static void data_sentence(const vt_table *t, int i, char *buf, size_t size) {
    const vt_manifest_data *d = &t->m->data[i];
    const vt_plan_data *x = &t->plan->data[i];
    char hash[40] = "";
    if (x->images) snprintf(hash, sizeof hash, ", SHA-256 %.16s...", x->images->hash);
    snprintf(buf, size, "%s: images %s of the %s split, %lld of them%s", d->name, d->images ? d->images : "all",
             d->split ? d->split : "test", (long long)x->n_images, hash);
}

static void attack_sentence(const vt_table *t, int i, char *buf, size_t size) {
    const vt_manifest_attack *a = &t->m->attacks[i];
    if (a->steps)
        snprintf(buf, size,
                 "%s: median time of %lld training steps after the first %d, relative to the first row of the group in "
                 "the same round, one round a seed: median over rounds, [quartiles of the steps], least to most of the "
                 "rounds; of this machine and moment, another run gives other numbers",
                 a->name, (long long)a->steps, VT_TIME_FIRST);
    else if (!a->spec)
        snprintf(buf, size, "%s: accuracy without an attack", a->name);
    else
        snprintf(buf, size, "%s: %s, %s eps %s", a->name, a->spec, a->norm ? a->norm : "linf", a->eps);
}

static const char *const fixed[] = {
    "Numbers are percent: mean over seeds; [95 % Wilson interval of the mean share on these images: which images were "
    "drawn]; least to most of the seeds: how training varies.",
    "Bold: better than every other row of its group in the column by an exact paired test on the same images (images "
    "right in more of the common seeds; one seed: McNemar's; without a common seed the first of each), Holm's "
    "correction within these, level 0.05. Training's own variation is not in this test.",
};

static bool shares(const vt_table *t) {
    for (int a = 0; a < t->m->n_attacks; a++)
        if (!t->m->attacks[a].steps) return true;
    return false;
}

static void verdicts_sentence(const vt_table *t, char *buf, size_t size) {
    int held = 0, against = 0;
    for (int i = 0; i < t->n_orderings; i++) {
        held += t->orderings[i].verdict == VT_CLAIM_HELD;
        against += t->orderings[i].verdict == VT_CLAIM_NOT;
    }
    snprintf(buf, size, "Orderings: of %d tested %d held, %d are the other way round, %d undecided.", t->n_orderings,
             held, against, t->n_orderings - held - against);
}

bool vt_table_footer(const vt_table *t, int i, char *buf, size_t size) {
    int n_fixed = shares(t) ? (int)(sizeof fixed / sizeof *fixed) : 0; /* none for times alone */
    if (i < t->m->n_data) return data_sentence(t, i, buf, size), true;
    i -= t->m->n_data;
    if (i < t->m->n_attacks) return attack_sentence(t, i, buf, size), true;
    i -= t->m->n_attacks;
    if (i < n_fixed) return snprintf(buf, size, "%s", fixed[i]), true;
    i -= n_fixed;
    if (i == 0 && t->n_orderings) return verdicts_sentence(t, buf, size), true;
    i -= t->n_orderings != 0;
    if (i < t->m->notes.n) return snprintf(buf, size, "%s", t->m->notes.word[i]), true;
    i -= t->m->notes.n;
    if (i == 0 && *t->version)
        return snprintf(buf, size, "Made by vitrine %s, products by %s.", t->version, t->kernels), true;
    i -= *t->version != 0;
    if (i == 0 && t->done < t->wanted)
        return snprintf(buf, size, "Incomplete: %d of %d evaluations are there.", t->done, t->wanted), true;
    return false;
}

/* ---- files ---- */

static vt_status write_file(const vt_table *t, const vt_table_notes *notes, const form *r, const char *out, vt_err *e) {
    char name[200];
    vt_file f;
    snprintf(name, sizeof name, "%.150s%s", t->m->name, r->suffix);
    VT_TRY(vt_file_begin(&f, out, name, e));
    r->write(f.stream, t, notes);
    return vt_file_commit(&f, e);
}

vt_status vt_table_write(const vt_table *t, const char *out, FILE *terminal, vt_err *e) {
    vt_table_notes notes = {0};
    vt_status s = collect(&notes, t, e);
    for (size_t i = 0; s == VT_OK && i < sizeof reports / sizeof *reports; i++) {
        if (reports[i].suffix && out) s = write_file(t, &notes, &reports[i], out, e);
        if (!reports[i].suffix && terminal) reports[i].write(terminal, t, &notes);
    }
    free(notes.odd);
    return s;
}
