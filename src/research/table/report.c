/* SPDX-License-Identifier: MIT */
#include "research/table/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"

typedef struct form {
    const char *suffix;                                                     /* NULL: the terminal */
    void (*write)(FILE *f, const vt_table *t, const vt_table_notes *notes); /* NULL: JSON */
} form;

static const form reports[] = {
    {NULL, vt_table_term},    {".md", vt_table_md},   {".tex", vt_table_tex},
    {".html", vt_table_html}, {".csv", vt_table_csv}, {".json", NULL},
};

/* ---- footnotes ---- */

/* Fills *notes with the indices of t's findings that are contradictions (no notes) and name a published cell which the
 * table shows; VT_E_MEMORY. */
static vt_status collect_footnotes(vt_table_notes *notes, const vt_table *t, vt_err *e) {
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

const char *vt_table_number(double v, char buf[32]) {
    snprintf(buf, 32, isnan(v) ? "-" : "%.2f", v);
    return buf;
}

bool vt_table_column(const vt_table *t, int data, int attack) {
    for (int r = 0; r < t->m->n_rows; r++)
        if (vt_table_at(t, r, data, attack)->wanted) return true;
    return false;
}

int vt_table_columns(const vt_table *t, int data) {
    int n = 0;
    for (int a = 0; a < t->m->n_attacks; a++) n += vt_table_column(t, data, a);
    return n;
}

bool vt_table_row(const vt_table *t, int row, int data) {
    bool any = false;
    for (int a = 0; a < t->m->n_attacks; a++) any = any || vt_table_at(t, row, data, a)->wanted;
    return any;
}

const char *vt_table_value(const vt_table_cell *c, char buf[32]) {
    snprintf(buf, 32, isnan(c->mean) ? "-" : c->kind == VT_CELL_SIGMA ? "%.3f" : "%.2f", c->mean);
    return buf;
}

const char *vt_table_interval(const vt_table_cell *c, char buf[60]) {
    *buf = 0;
    if (c->done && !isnan(c->low))
        snprintf(buf, 60, c->kind == VT_CELL_SIGMA ? "[%.3f, %.3f]" : "[%.2f, %.2f]", c->low, c->high);
    return buf;
}

/* Writes "A above B", or "A above the lines through B, C and D at equal clean accuracy" (or another attack's); returns
 * the length, size or more if it was cut. */
static int comparison_text(const vt_table *t, const vt_table_ordering *o, char *out, size_t size) {
    const vt_manifest_primary *p = o->primary;
    const char *above = t->m->rows[o->above].name;
    if (!p || p->at < 0) return snprintf(out, size, "%s above %s", above, t->m->rows[o->below].name);
    int n = snprintf(out, size, "%s above the lines through ", above);
    for (int i = 0; i < p->n_rows && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%s",
                      i == 0               ? ""
                      : i == p->n_rows - 1 ? " and "
                                           : ", ",
                      t->m->rows[p->rows[i]].name);
    if ((size_t)n < size) n += snprintf(out + n, size - (size_t)n, " at equal %s accuracy", t->m->attacks[p->at].name);
    return n;
}

/* "; 5 seeds, 2 of them beyond the lines' ends" or "; right on 12 images where the other is not, ...; 1 seed". */
static int sample_text(const vt_difference *d, char *out, size_t size) {
    if (d->seeds > 1 && d->outside)
        return snprintf(out, size, "; %d seeds, %d of them beyond the lines' ends", d->seeds, d->outside);
    if (d->seeds > 1) return snprintf(out, size, "; %d seeds", d->seeds);
    return snprintf(out, size, "; right on %lld images where the other is not, against %lld, of %lld; 1 seed",
                    (long long)d->for_it, (long long)d->other, (long long)d->images);
}

/* Writes " (published: by 7.18 points; over 7 backbones -0.27 to +22.22, of comparable size +0.27 to +3.64)"; a range
 * only if there is one, the first only of two backbones or more. */
static void published_text(const vt_table_ordering *o, char *buf, size_t size) {
    char over[80] = "", near[80] = "";
    if (o->all.n > 1)
        snprintf(over, sizeof over, "; over %d backbones %+.2f to %+.2f", o->all.n, o->all.least, o->all.most);
    if (o->comparable.n)
        snprintf(near, sizeof near, ", of comparable size %+.2f to %+.2f", o->comparable.least, o->comparable.most);
    snprintf(buf, size, " (published: by %.2f points%s%s)", o->gap, over, near);
}

void vt_table_ordering_text(const vt_table *t, const vt_table_ordering *o, char *what, size_t n_what, char *how,
                            size_t n_how) {
    char gap[200] = "", of[160], people[400], why[60] = "";
    const vt_difference *d = &o->d;
    bool smaller = o->smaller && o->verdict == VT_TABLE_HELD;
    if (!isnan(o->gap)) published_text(o, gap, sizeof gap);
    if (o->verdict == VT_TABLE_UNTESTED) snprintf(why, sizeof why, " (%s)", o->untested);
    comparison_text(t, o, people, sizeof people);
    snprintf(what, n_what, "%s, %s, %s%s", people, t->m->data[o->data].name, t->m->attacks[o->attack].name, gap);
    sample_text(d, of, sizeof of);
    if (o->verdict == VT_TABLE_ABSENT)
        snprintf(how, n_how, "not there: %d seeds have their cells", d->seeds);
    else if (o->verdict == VT_TABLE_IDENTICAL)
        snprintf(how, n_how, "identical here: no answer differs%s", of);
    else
        snprintf(how, n_how, "%s%s%s here: %+.2f [%+.2f, %+.2f] points%s; p = %.2g%s",
                 vt_table_verdict_name(o->verdict), why, smaller ? ", and smaller than published" : "", d->points,
                 d->low, d->high, of, d->p, o->corrected ? ", after Holm " : "");
    if (o->corrected && o->verdict != VT_TABLE_ABSENT && o->verdict != VT_TABLE_IDENTICAL) {
        size_t n = strlen(how);
        snprintf(how + n, n_how - n, "%.2g", o->adjusted);
    }
}

const char *vt_table_heading(const vt_table *t, int i) {
    bool primary = t->orderings[i].primary != NULL;
    if (i > 0 && primary == (t->orderings[i - 1].primary != NULL)) return NULL;
    if (primary)
        return "Primary comparisons, fixed before anything was trained; level 0.05 after Holm's correction over them";
    if (t->m->n_primary) return "Secondary orderings; level 0.05, each by itself: of twenty, one may be chance";
    return "Orderings; level 0.05 after Holm's correction over all of them";
}

/* buf: data set i's images, split, number and hash. */
static void data_sentence(const vt_table *t, int i, char *buf, size_t size) {
    const vt_manifest_data *d = &t->m->data[i];
    const vt_plan_data *x = &t->plan->data[i];
    char hash[40] = "", count[60] = "";
    int a = 0;
    while (a < t->m->n_attacks && (!vt_manifest_accuracy(t->m, a) || t->m->attacks[a].images)) a++;
    if (x->images) snprintf(hash, sizeof hash, ", SHA-256 %.16s...", x->images->hash);
    if (a < t->m->n_attacks) snprintf(count, sizeof count, ", %lld of them", (long long)x->of[a].n);
    snprintf(buf, size, "%s: images %s of the %s split%s%s", d->name, d->images ? d->images : "all",
             d->split ? d->split : "test", count, hash);
}

/* buf: what column i measures (attack, timing, singular value, clean accuracy), its own images and seeds. */
static void attack_sentence(const vt_table *t, int i, char *buf, size_t size) {
    const vt_manifest_attack *a = &t->m->attacks[i];
    if (a->spectrum && i > 0 && t->m->attacks[i - 1].spectrum)
        snprintf(buf, size, "%s: the same of W_%c", a->name, *a->spectrum - 'a' + 'A');
    else if (a->spectrum)
        snprintf(buf, size,
                 "%s: largest singular value of a head of W_%c, mean over the layers and seeds, [95 %% t interval], "
                 "least to most of the seeds",
                 a->name, *a->spectrum - 'a' + 'A');
    else if (a->steps)
        snprintf(buf, size,
                 "%s: median time of %lld training steps after the first %d, relative to the first row of the group in "
                 "the same round, one round a seed: median over rounds, [quartiles of the steps], least to most of the "
                 "rounds; of this machine and moment, another run gives other numbers",
                 a->name, (long long)a->steps, VT_TIME_FIRST);
    else if (a->certify)
        snprintf(buf, size, "%s: images that %s proves robust at %s eps %s (docs/certify.md)", a->name, a->certify,
                 a->norm ? a->norm : "linf", a->eps);
    else if (!a->spec)
        snprintf(buf, size, "%s: accuracy without an attack", a->name);
    else
        snprintf(buf, size, "%s: %s, %s eps %s", a->name, a->spec, a->norm ? a->norm : "linf", a->eps);
    size_t n = strlen(buf);
    if (a->images && n < size) snprintf(buf + n, size - n, "; images %s", a->images), n = strlen(buf);
    for (int k = 0; k < a->seed_words.n && n < size; k++, n = strlen(buf))
        snprintf(buf + n, size - n, "%s %s",
                 k                     ? ","
                 : a->seed_words.n > 1 ? "; seeds"
                                       : "; seed",
                 a->seed_words.word[k]);
    if (a->orderings && n < size) snprintf(buf + n, size - n, "; orders nothing");
}

static const char *const fixed[] = {
    "Percent: mean over seeds, [95 % Wilson interval over images], least to most of the seeds (docs/tables.md).",
    "Bold: better than every other row of its group, level 0.05 after Holm's correction.",
    "Differences: by Student's t over two common seeds or more, else over images (Tango, McNemar); 95 %, not "
    "corrected.",
};

/* Whether a column is an accuracy. */
static bool has_accuracy(const vt_table *t) {
    for (int a = 0; a < t->m->n_attacks; a++)
        if (vt_manifest_accuracy(t->m, a)) return true;
    return false;
}

/* buf: "Primary comparisons: of 5, 1 held, 2 contradicted." */
static void verdicts_sentence(const vt_table *t, bool primary, char *buf, size_t size) {
    int n[VT_TABLE_VERDICTS] = {0}, all = 0;
    for (int i = 0; i < t->n_orderings; i++)
        if ((t->orderings[i].primary != NULL) == primary) n[t->orderings[i].verdict]++, all++;
    const char *kind = primary ? "Primary comparisons" : t->m->n_primary ? "Secondary orderings" : "Orderings";
    int used = snprintf(buf, size, "%s: of %d", kind, all);
    for (int v = 0; v < VT_TABLE_VERDICTS && (size_t)used < size; v++)
        if (n[v])
            used +=
                snprintf(buf + used, size - (size_t)used, ", %d %s", n[v], vt_table_verdict_name((vt_table_verdict)v));
    if ((size_t)used < size) snprintf(buf + used, size - (size_t)used, ".");
}

/* Whether there are primary (or secondary) orderings. */
static bool has_kind(const vt_table *t, bool primary) {
    for (int i = 0; i < t->n_orderings; i++)
        if ((t->orderings[i].primary != NULL) == primary) return true;
    return false;
}

bool vt_table_footer(const vt_table *t, int i, char *buf, size_t size) {
    int gone = 0, n_fixed = has_accuracy(t) ? (int)(sizeof fixed / sizeof *fixed) : 0; /* none for times alone */
    if (i < t->m->n_data) {
        data_sentence(t, i, buf, size);
        return true;
    }
    i -= t->m->n_data;
    if (i < t->m->n_attacks) {
        attack_sentence(t, i, buf, size);
        return true;
    }
    i -= t->m->n_attacks;
    if (i < n_fixed) {
        snprintf(buf, size, "%s", fixed[i]);
        return true;
    }
    i -= n_fixed;
    for (int secondary = 0; secondary < 2; secondary++)
        if (has_kind(t, !secondary) && i-- == 0) {
            verdicts_sentence(t, !secondary, buf, size);
            return true;
        }
    if (vt_table_ground(t, i, buf, size)) return true;
    while (vt_table_ground(t, gone, buf, size)) gone++;
    i -= gone;
    if (i < t->m->notes.n) {
        snprintf(buf, size, "%s", t->m->notes.word[i]);
        return true;
    }
    i -= t->m->notes.n;
    if (i == 0 && *t->version) {
        snprintf(buf, size, "Made by vitrine %s, products by %s.", t->version, t->kernels);
        return true;
    }
    i -= *t->version != 0;
    if (i == 0 && t->done < t->wanted) {
        snprintf(buf, size, "Incomplete: %d of %d evaluations are there.", t->done, t->wanted);
        return true;
    }
    return false;
}

/* Writes one form as OUT/NAME.suffix. */
static vt_status write_file(const vt_table *t, const vt_table_notes *notes, const form *r, const char *out, vt_err *e) {
    char name[200];
    vt_file f;
    snprintf(name, sizeof name, "%.150s%s", t->m->name, r->suffix);
    VT_TRY(vt_file_begin(&f, out, name, e));
    json_t *o = r->write ? NULL : vt_table_json(t, notes);
    if (r->write) r->write(f.stream, t, notes);
    vt_status s = r->write ? vt_file_commit(&f, e) : vt_json_commit(&f, o, JSON_INDENT(1) | JSON_REAL_PRECISION(12), e);
    json_decref(o);
    return s;
}

vt_status vt_table_write(const vt_table *t, const char *out, FILE *terminal, vt_err *e) {
    vt_table_notes notes = {0};
    vt_status s = collect_footnotes(&notes, t, e);
    for (size_t i = 0; s == VT_OK && i < sizeof reports / sizeof *reports; i++) {
        if (reports[i].suffix && out) s = write_file(t, &notes, &reports[i], out, e);
        if (!reports[i].suffix && terminal) reports[i].write(terminal, t, &notes);
    }
    free(notes.odd);
    return s;
}
