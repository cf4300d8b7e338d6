/* SPDX-License-Identifier: MIT */
#include "eval/report/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "base/json.h"
#include "eval/certifier.h"
#include "eval/header.h"
#include "eval/limit.h"
#include "eval/result_index.h"
#include "base/stats.h"

#define VT_KIND vt_report_def
#define VT_KIND_NAME(x) vt_report_def_##x
#define VT_KIND_LIST "reports.inc"
#include "base/registry.inc"

const vt_report_def *const *vt_report_defs(int *n) {
    *n = COUNT;
    return defs;
}

const vt_report_def *vt_report_find(const char *name) { return named(name); }

void vt_summary_free(vt_summary *s) {
    for (int i = 0; i < s->n_entries; i++) free(s->entries[i].stages);
    free(s->entries), free(s->rows);
    memset(s, 0, sizeof *s);
}

/* Writes ascending indices as "A:B,C:D", each B excluded, cut with "..." if there are too many. */
static void format_ranges(char *out, size_t size, const int32_t *images, size_t n) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < n;) {
        size_t j = i + 1;
        while (j < n && images[j] == images[j - 1] + 1) j++;
        if (used + 40 > size) {
            snprintf(out + used, size - used, ",...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%d:%d", i ? "," : "", images[i], images[j - 1] + 1);
        i = j;
    }
}

/* Makes the entries and their stages with labels; counts are 0. */
static vt_status allocate_entries(vt_summary *s, vt_err *e) {
    s->gradient_cost = s->header->gradient_cost;
    s->entries = calloc((size_t)s->header->n_attacks + 1, sizeof *s->entries);
    if (!s->entries) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    for (int i = 0; i < s->header->n_attacks; i++) {
        const vt_header_attack *a = &s->header->attacks[i];
        vt_entry_summary *en = &s->entries[s->n_entries++];
        en->of = a, en->sample.share = 1;
        vt_attack_label(a, en->all.label, 56);
        en->stages = calloc((size_t)a->n_stages + 1, sizeof *en->stages);
        if (!en->stages) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
        for (int k = 0; k < a->n_stages; k++) vt_stage_label(a, k, en->stages[k].label, sizeof en->stages[k].label);
    }
    return VT_OK;
}

/* Sets the median norms of an entry's broken images; scratch [lines]. */
static void set_medians(vt_entry_summary *en, const vt_ledger *l, int entry, double *scratch) {
    for (vt_norm norm = VT_LINF; norm < VT_NORM_COUNT; norm++) {
        size_t n = 0;
        for (size_t i = 0; i < l->count; i++)
            if (l->records[i].entry == entry && l->records[i].status == VT_RECORD_BROKEN)
                scratch[n++] = vt_record_norm(&l->records[i], norm);
        en->median[norm] = vt_median(scratch, n);
    }
}

/* Adds a line's counts. */
static void add_line(vt_summary *s, const vt_record *r) {
    if (r->entry == VT_ENTRY_CLEAN) {
        s->total++;
        s->correct += r->status == VT_RECORD_CORRECT;
        s->not_finite += r->status == VT_RECORD_NOT_FINITE;
        return;
    }
    if (r->entry == VT_ENTRY_CERTIFY) return; /* counted by sum_certificates */
    vt_counts *st = &s->entries[r->entry - 1].stages[r->stage];
    st->tried++;
    st->broken += r->status == VT_RECORD_BROKEN;
    st->invalid += r->status == VT_RECORD_INVALID;
    st->not_finite += r->status == VT_RECORD_NOT_FINITE;
    st->vanished += r->vanished > 0;
    st->borderline += r->status == VT_RECORD_BROKEN && r->borderline;
    st->gradients += r->gradients;
    st->forwards += r->forwards;
}

/* Adds a stage's counts to its entry's. */
static void add_counts(vt_counts *sum, const vt_counts *c) {
    sum->tried += c->tried, sum->broken += c->broken, sum->borderline += c->borderline, sum->invalid += c->invalid;
    sum->not_finite += c->not_finite, sum->gradients += c->gradients, sum->forwards += c->forwards;
    sum->pending += c->pending;
}

/* Sums up an entry: robust images, open ones, cost, and what its samples leave open. */
static void total_entry(vt_summary *s, const vt_result_index *b, int entry) {
    vt_entry_summary *en = &s->entries[entry - 1];
    int64_t skipped = en->of->scoring == VT_SCORE_BALL && s->header->certify.first ? s->certify.certified : 0;
    vt_counts *all = &en->all;
    all->robust = en->of->scoring == VT_SCORE_PUBLISHED ? s->total - s->not_finite : s->correct;
    all->open = s->missing > 0 || (en->of->scoring == VT_SCORE_EIGHT_BIT && s->entries[entry - 2].all.open);
    for (int k = 0; k < en->of->n_stages; k++) {
        vt_counts *st = &en->stages[k];
        double share = en->of->stages[k].share;
        st->pending = vt_result_index_pending(b, entry, k);
        st->open = all->open = all->open || st->pending > 0;
        if (share < 1 && en->sample.share >= 1)
            en->sample = (vt_sample_summary){.share = share, .survivors = all->robust - skipped, .sampled = st->tried};
        if (share < 1) en->sample.broken += st->broken + st->not_finite;
        all->robust -= st->broken + st->not_finite;
        st->robust = all->robust; /* images a later stage still has to try count as robust so far */
        add_counts(all, st);
    }
    en->cost = (double)all->forwards + s->gradient_cost * (double)all->gradients;
    s->pending += all->pending;
    vt_sample_summary *p = &en->sample;
    if (p->share < 1) p->further = vt_hypergeometric_upper(p->survivors, p->sampled, p->broken, 0.05) - p->broken;
    p->points = s->total ? 100 * (double)p->further / (double)s->total : 0;
}

/* Returns whether a line breaks a certified image. Of a method that estimates a borderline verdict does not: the votes
 * that it goes by decide nothing. */
static bool is_contradiction(const vt_ledger *l, const vt_result_index *b, const vt_record *r) {
    const char *method = l->header->certify.method;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(method, ":"), method);
    const vt_certifier_def *by = vt_certifier_find(name);
    if (!r->entry || !vt_record_fails(l, r) || (r->borderline && by && by->estimates)) return false;
    return vt_result_index_certified(b, vt_image_place(b->images, b->n, r->image));
}

/* Counts certificates and what attacks say of the same images; seen [images]: scratch. */
static void sum_certificates(vt_summary *s, const vt_ledger *l, const vt_result_index *b, double *seen) {
    if (!b->certify) return;
    for (size_t i = 0; i < b->n; i++) seen[i] = 0;
    for (size_t i = 0; i < l->count; i++) {
        double *at = &seen[vt_image_place(b->images, b->n, l->records[i].image)];
        if (*at == 0 && is_contradiction(l, b, &l->records[i])) *at = 1, s->certify.contradictions++;
    }
    for (size_t i = 0; i < b->n; i++) {
        bool right = vt_result_index_right(b, 0, i), stands = vt_result_index_stands(b, VT_SCORE_BALL, i);
        bool certified = vt_result_index_certified(b, i);
        s->certify.certified += stands && certified, s->certify.undecided += stands && !certified;
        s->certify.broken += right && !stands;
    }
    s->certify.pending = vt_result_index_pending(b, VT_ENTRY_CERTIFY, 0);
    s->pending += s->certify.pending;
    for (int k = 0; k < b->n_entries; k++)
        if (b->first && b->entries[k].scoring == VT_SCORE_BALL) s->certify.saved += s->certify.certified;
    if (b->first)
        snprintf(s->certify.text, sizeof s->certify.text,
                 "certified images were not attacked and count as robust: %lld images, %lld attacks saved",
                 (long long)s->certify.certified, (long long)s->certify.saved);
    if (s->certify.contradictions)
        snprintf(s->certify.text, sizeof s->certify.text,
                 "CONTRADICTION: %lld certified image%s broken; the certificate or the verdict is wrong",
                 (long long)s->certify.contradictions, s->certify.contradictions == 1 ? " is" : "s are");
}

/* Returns the images that are right and that no entry of this scoring broke; -1: there is no such entry. */
static int64_t worst_case(const vt_summary *s, const vt_result_index *b, vt_scoring scoring) {
    bool any = scoring == VT_SCORE_BALL;
    int64_t left = 0;
    for (int k = 0; k < s->n_entries; k++) any = any || s->entries[k].of->scoring == scoring;
    for (size_t i = 0; i < b->n; i++) left += vt_result_index_stands(b, scoring, i);
    return any ? left : -1;
}

/* ---- rows ---- */

/* Adds a row with a count of images and its interval. */
static vt_row *add_row(vt_summary *s, int level, const char *label, int64_t count) {
    vt_row *r = &s->rows[s->n_rows++];
    *r = (vt_row){.level = level, .count = count, .total = s->total, .reached = true};
    snprintf(r->label, sizeof r->label, "%s", label);
    r->percent = r->total ? 100 * (double)r->count / (double)r->total : 0;
    vt_wilson(r->count, r->total, &r->low, &r->high);
    return r;
}

/* Adds the row of an entry or a stage. */
static vt_row *add_counts_row(vt_summary *s, int level, const char *label, const vt_counts *c) {
    vt_row *r = add_row(s, level, label, c->robust);
    r->has_attack = true, r->open = c->open, r->reached = c->tried > 0 || !c->open;
    r->borderline = c->borderline, r->gradients = c->gradients, r->forwards = c->forwards;
    return r;
}

/* Adds the rows of an entry: itself, its stages if it has several, images without finite logits. alone: it is the only
 * one in the ball. */
static void add_entry_rows(vt_summary *s, const vt_entry_summary *en, bool alone) {
    vt_row *r = add_counts_row(s, 0, en->all.label, &en->all);
    r->verdict = alone && en->of->scoring == VT_SCORE_BALL;
    for (int k = 0; k < en->of->n_stages && en->of->n_stages > 1; k++) {
        char label[96];
        snprintf(label, sizeof label, "after %s", en->stages[k].label);
        add_counts_row(s, 1, label, &en->stages[k]);
    }
    if (!en->all.not_finite) return;
    r = add_row(s, 1, "logits not finite", en->all.not_finite);
    r->open = en->all.open, r->reached = en->all.tried > 0 || !en->all.open;
}

/* Adds the rows of certificates: proven images, and those that are neither proven nor broken. */
static void add_certificate_rows(vt_summary *s) {
    const char *method = s->header->certify.method;
    char label[96];
    if (!method) return;
    snprintf(label, sizeof label, "certified (%.*s)", (int)strcspn(method, ":"), method);
    vt_row *proven = add_row(s, 0, label, s->certify.certified),
           *open = add_row(s, 1, "undecided", s->certify.undecided);
    proven->proof = open->proof = true;
    proven->reached = open->reached = !s->missing && !s->certify.pending;
}

/* Adds the row of the worst case over the entries of a scoring. */
static void add_worst_case(vt_summary *s, const char *label, int64_t count, vt_scoring scoring) {
    vt_row *r = add_row(s, 0, label, count);
    r->verdict = true;
    for (int k = 0; k < s->n_entries; k++) r->open |= s->entries[k].of->scoring == scoring && s->entries[k].all.open;
}

/* Makes the rows of all tables. */
static vt_status make_rows(vt_summary *s, vt_err *e) {
    size_t most = 6;
    int ball = 0; /* one entry is its own worst case */
    for (int k = 0; k < s->n_entries; k++) {
        most += 2 + (size_t)s->entries[k].of->n_stages;
        ball += s->entries[k].of->scoring == VT_SCORE_BALL;
    }
    if (!(s->rows = calloc(most, sizeof *s->rows))) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    add_row(s, 0, "clean", s->correct)->verdict = !s->n_entries;
    if (s->not_finite) add_row(s, 1, "logits not finite", s->not_finite);
    add_certificate_rows(s);
    for (int k = 0; k < s->n_entries; k++) add_entry_rows(s, &s->entries[k], ball == 1);
    if (ball < 2) return VT_OK;
    add_worst_case(s, "worst case", s->worst_robust, VT_SCORE_BALL);
    if (s->worst_eight_bit >= 0) add_worst_case(s, "worst case, 8-bit", s->worst_eight_bit, VT_SCORE_EIGHT_BIT);
    return VT_OK;
}

/* ---- from the ledger ---- */

/* Fills all numbers from the ledger's lines; images: those that the run wants. */
static vt_status fill_summary(vt_summary *s, const vt_ledger *l, const vt_result_index *b, int64_t images, vt_err *e) {
    double *scratch = calloc(l->count + 1, sizeof *scratch);
    vt_status st = scratch ? allocate_entries(s, e) : vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    for (size_t i = 0; i < l->count && st == VT_OK; i++) add_line(s, &l->records[i]);
    if (st == VT_OK) {
        format_ranges(s->images, sizeof s->images, b->images, b->n);
        s->missing = s->pending = images > s->total ? images - s->total : 0;
        sum_certificates(s, l, b, scratch);
        for (int i = 0; i < s->n_entries; i++) {
            total_entry(s, b, i + 1);
            set_medians(&s->entries[i], l, i + 1, scratch);
        }
        s->worst_robust = worst_case(s, b, VT_SCORE_BALL);
        s->worst_eight_bit = worst_case(s, b, VT_SCORE_EIGHT_BIT);
        st = make_rows(s, e);
    }
    free(scratch);
    return st;
}

const char *vt_summary_note(const vt_summary *s, size_t i) {
    if (i < s->header->n_notes) return s->header->notes[i];
    const char *const own[] = {s->unsure_text, s->header->certify.method ? s->header->certify.sentence : "",
                               s->certify.text, s->left.text};
    i -= s->header->n_notes;
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        if (*own[k] && i-- == 0) return own[k];
    return NULL;
}

/* Bounds what a run that is not finished left out, once all clean predictions are there. */
static vt_status bound_left_out(vt_summary *s, const vt_result_index *b, vt_err *e) {
    vt_left_out o;
    if (!s->pending || s->missing) return VT_OK;
    VT_TRY(vt_limit_left_out(&o, b, e));
    s->left.survivors = o.survivors, s->left.sampled = o.sampled, s->left.broken = o.broken,
    s->left.further = o.further;
    snprintf(
        s->left.text, sizeof s->left.text,
        "not finished: of %lld survivors of what took every image, %lld, drawn at random, went through all attacks, "
        "which broke %lld; on all, with 95 %% confidence, at most %lld more of %lld images would fall (%.2f points)",
        (long long)o.survivors, (long long)o.sampled, (long long)o.broken, (long long)o.further, (long long)s->total,
        100 * (double)o.further / (double)s->total);
    return VT_OK;
}

/* Counts the clean images whose class an external model changes when it is asked again, and writes the sentence that
 * names the first of them. */
static void name_unsure(vt_summary *s, const vt_ledger *l) {
    enum { SHOWN = 8 };
    int32_t first[SHOWN + 1];
    char list[120] = "";
    int n = 0;
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (r->entry != VT_ENTRY_CLEAN || !r->borderline) continue;
        int at = n < SHOWN ? n : SHOWN;
        for (s->unsure++; at > 0 && first[at - 1] > r->image; at--) first[at] = first[at - 1];
        first[at] = r->image;
        n += n < SHOWN;
    }
    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%d", i ? ", " : "", first[i]);
    if (n)
        snprintf(s->unsure_text, sizeof s->unsure_text,
                 "NOTE: the class of %lld clean image%s changes when the model is asked again, alone or in another "
                 "batch (%s%s)%s",
                 (long long)s->unsure, n == 1 ? "" : "s", list, n < s->unsure ? ", ..." : "",
                 s->header->random ? ": it draws at random"
                                   : ": is a BatchNorm in train mode, or a dropout? A model that is meant to draw is "
                                     "served with random=True");
}

vt_status vt_summary_make(vt_summary *s, const vt_ledger *l, int64_t images, vt_err *e) {
    vt_result_index b;
    *s = (vt_summary){.header = l->header};
    vt_status st = vt_result_index_read(&b, l, e);
    if (st == VT_OK) st = fill_summary(s, l, &b, images, e);
    if (st == VT_OK) st = bound_left_out(s, &b, e);
    if (st == VT_OK && s->header->oracle) name_unsure(s, l);
    vt_result_index_close(&b);
    if (st != VT_OK) vt_summary_free(s);
    return st;
}

const char *vt_entry_claim(const vt_entry_summary *en) {
    return en->sample.points <= VT_EQUIVALENT_POINTS ? "AutoAttack-equivalent" : "quick estimate";
}

bool vt_entry_open_text(const vt_summary *s, const vt_entry_summary *en, char *text, size_t size) {
    const vt_sample_summary *p = &en->sample;
    size_t at = 0;
    if (p->share >= 1) {
        if (en->of->profile)
            snprintf(text, size, "%s: every stage was run on all survivors: 0.00 points are open (95 %%); %s",
                     en->of->name, vt_entry_claim(en));
        return en->of->profile;
    }
    for (int k = 0; k < en->of->n_stages && at < size; k++)
        if (en->of->stages[k].share < 1)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", en->of->stages[k].name);
    char names[200];
    snprintf(names, sizeof names, "%.199s", text);
    snprintf(text, size,
             "%s: %s tried a random %lld of %lld survivors and broke %lld; on all, with 95 %% confidence, at most %lld "
             "more of %lld images would fall (%.2f points)%s%s",
             en->of->name, names, (long long)p->sampled, (long long)p->survivors, (long long)p->broken,
             (long long)p->further, (long long)s->total, p->points, en->of->profile ? ": " : "",
             en->of->profile ? vt_entry_claim(en) : "");
    return true;
}

bool vt_remark(const char *name, int64_t vanished, int64_t not_finite, int k, char *text, size_t size) {
    if (vanished && k-- == 0) {
        snprintf(text, size,
                 "%s: cross-entropy's gradient vanished on %lld image%s (softmax leaves nothing of it); the margin's "
                 "was followed there",
                 name, (long long)vanished, vanished == 1 ? "" : "s");
        return true;
    }
    if (!not_finite || k) return false;
    snprintf(text, size,
             "%s: on %lld image%s it met logits that are not finite: counted apart, as neither robust nor broken", name,
             (long long)not_finite, not_finite == 1 ? "" : "s");
    return true;
}

bool vt_entry_remark(const vt_entry_summary *en, int k, char *text, size_t size) {
    for (int i = 0; i < en->of->n_stages; i++) {
        const vt_counts *st = &en->stages[i];
        char name[120];
        snprintf(name, sizeof name, "%s%s%.42s", en->all.label, en->of->n_stages > 1 ? ", " : "",
                 en->of->n_stages > 1 ? st->label : "");
        if (vt_remark(name, st->vanished, st->not_finite, k, text, size)) return true;
        k -= (st->vanished > 0) + (st->not_finite > 0);
    }
    return false;
}

vt_status vt_report_write(const vt_report_def *def, FILE *f, const vt_summary *s, vt_err *e) {
    if (def->write) {
        def->write(f, s);
        return VT_OK;
    }
    json_t *o = def->document(s);
    bool good = vt_json_write(f, o, JSON_INDENT(1));
    json_decref(o);
    return good ? VT_OK : vt_fail(e, VT_E_MEMORY, "no memory for %s", def->file);
}

/* Writes a report into its file in dir. */
static vt_status write_file(const vt_report_def *def, const char *dir, const vt_summary *s, vt_err *e) {
    vt_file f;
    VT_TRY(vt_file_begin(&f, dir, def->file, e));
    vt_status st = vt_report_write(def, f.stream, s, e);
    if (st == VT_OK) return vt_file_commit(&f, e);
    vt_file_abandon(&f);
    return st;
}

vt_status vt_reports_write(const vt_summary *s, const char *dir, FILE *terminal, vt_err *e) {
    for (int i = 0; i < COUNT; i++) {
        if (defs[i]->file && dir) VT_TRY(write_file(defs[i], dir, s, e));
        if (!defs[i]->file && terminal) VT_TRY(vt_report_write(defs[i], terminal, s, e));
    }
    return VT_OK;
}

/* Fails with VT_E_RANGE for n records that show images to be not robust; names the first. */
static vt_status report_failed_images(const vt_ledger *l, const vt_record *const *failed, size_t n, vt_err *e) {
    char what[200], others[200] = "";
    size_t used = 0, count = 1;
    const vt_record *r = failed[0];
    const char *attack = vt_header_entry(l->header, r->entry)->name;
    for (size_t i = 1; i < n; i++) {
        if (failed[i]->image == failed[i - 1]->image) continue;
        count++;
        if (used < 150) used += (size_t)snprintf(others + used, sizeof others - used, " %d", failed[i]->image);
    }
    if (r->status == VT_RECORD_WRONG)
        snprintf(what, sizeof what, "without perturbation class %d is taken for %d", r->label, r->pred);
    else if (!r->entry)
        snprintf(what, sizeof what, "without perturbation its logits are not finite");
    else if (r->status == VT_RECORD_NOT_FINITE)
        snprintf(what, sizeof what, "%.40s found a point at linf %.9g, l2 %.6g whose logits are not finite", attack,
                 r->linf, r->l2);
    else
        snprintf(what, sizeof what, "%.40s found a point at linf %.9g, l2 %.6g that is class %d instead of %d", attack,
                 r->linf, r->l2, r->pred, r->label);
    return vt_fail(e, VT_E_RANGE, "image %d is not robust: %s%s%s%s", r->image, what,
                   count > 1 ? "; nor are images" : "", others, used >= 150 ? " ..." : "");
}

vt_status vt_expect_no_contradiction(const vt_ledger *l, vt_err *e) {
    vt_result_index b;
    if (!l->header->certify.method) return VT_OK;
    vt_status s = vt_result_index_read(&b, l, e);
    for (size_t i = 0; s == VT_OK && i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if (!is_contradiction(l, &b, r)) continue;
        s = vt_fail(e, VT_E_RANGE,
                    "image %d is certified (%.80s), but %.40s broke it by a point at linf %.9g, l2 %.6g: the "
                    "certificate or the verdict is wrong",
                    r->image, l->header->certify.method, vt_header_entry(l->header, r->entry)->name, r->linf, r->l2);
    }
    vt_result_index_close(&b);
    return s;
}

vt_status vt_expect_robust(const vt_ledger *l, vt_err *e) {
    const vt_record **failed = calloc(l->count + 1, sizeof *failed);
    size_t n = 0;
    if (!failed) return vt_fail(e, VT_E_MEMORY, "%s: no memory to look at it", l->dir);
    for (size_t i = 0; i < l->count; i++)
        if (vt_record_fails(l, &l->records[i])) failed[n++] = &l->records[i];
    qsort(failed, n, sizeof *failed, vt_record_by_image);
    vt_status s = n ? report_failed_images(l, failed, n, e) : VT_OK;
    free(failed);
    return s;
}
