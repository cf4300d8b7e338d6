/* SPDX-License-Identifier: MIT */
#include "eval/report/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/files.h"
#include "core/json.h"
#include "core/sort.h"
#include "eval/header.h"
#include "eval/result_index.h"
#include "core/stats.h"

#define VT_KIND vt_report_def
#define VT_KIND_NAME(x) vt_report_def_##x
#define VT_KIND_LIST "reports.inc"
#include "core/registry.inc"

const vt_report_def *const *vt_report_defs(int *n) {
    *n = COUNT;
    return defs;
}

const vt_report_def *vt_report_find(const char *name) { return named(name); }

void vt_summary_free(vt_summary *s) {
    for (int i = 0; i < s->n_entries; i++) free(s->entries[i].stages);
    free(s->entries);
    memset(s, 0, sizeof *s);
}

/* "A:B" for runs of ascending indices, cut with "..." when there are too many. */
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

static vt_status allocate_entries(vt_summary *s, vt_err *e) {
    s->gradient_cost = s->header->gradient_cost;
    s->entries = calloc((size_t)s->header->n_attacks + 1, sizeof *s->entries);
    if (!s->entries) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    for (int i = 0; i < s->header->n_attacks; i++) {
        const vt_header_attack *a = &s->header->attacks[i];
        vt_entry_summary *en = &s->entries[i];
        en->name = a->name, en->id = a->id;
        vt_attack_label(a, en->label, sizeof en->label);
        en->scoring = a->scoring, en->profile = a->profile;
        en->sample.share = 1;
        en->n_stages = a->n_stages;
        en->stages = calloc((size_t)en->n_stages + 1, sizeof *en->stages);
        s->n_entries++;
        if (!en->stages) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
        for (int k = 0; k < en->n_stages; k++) {
            en->stages[k].name = a->stages[k].name;
            en->stages[k].id = a->stages[k].id;
            en->stages[k].share = a->stages[k].share;
            vt_stage_label(a, k, en->stages[k].label, sizeof en->stages[k].label);
        }
    }
    return VT_OK;
}

static void set_medians(vt_entry_summary *en, const vt_ledger *l, int entry, double *scratch) {
    static const size_t from[] = {offsetof(vt_record, linf), offsetof(vt_record, l2), offsetof(vt_record, l1),
                                  offsetof(vt_record, l0)};
    double *const to[] = {&en->median_linf, &en->median_l2, &en->median_l1, &en->median_l0};
    for (int which = 0; which < 4; which++) {
        size_t n = 0;
        for (size_t i = 0; i < l->count; i++)
            if (l->records[i].entry == entry && l->records[i].status == VT_RECORD_BROKEN)
                scratch[n++] = *(const double *)((const char *)&l->records[i] + from[which]);
        *to[which] = vt_median(scratch, n);
    }
}

static void add_line(vt_summary *s, const vt_record *r) {
    if (r->entry == VT_ENTRY_CLEAN) {
        s->total++;
        s->correct += r->status == VT_RECORD_CORRECT;
        s->not_finite += r->status == VT_RECORD_NOT_FINITE;
        return;
    }
    vt_stage_summary *st = &s->entries[r->entry - 1].stages[r->stage];
    st->tried++;
    st->broken += r->status == VT_RECORD_BROKEN;
    st->invalid += r->status == VT_RECORD_INVALID;
    st->not_finite += r->status == VT_RECORD_NOT_FINITE;
    st->vanished += r->vanished > 0;
    st->borderline += r->status == VT_RECORD_BROKEN && r->borderline;
    st->gradients += r->gradients;
    st->forwards += r->forwards;
}

static void total_entry(vt_summary *s, const vt_result_index *b, int entry) {
    vt_entry_summary *en = &s->entries[entry - 1];
    int64_t left = en->scoring == VT_SCORE_PUBLISHED ? s->total - s->not_finite : s->correct;
    en->open = s->missing > 0 || (en->scoring == VT_SCORE_EIGHT_BIT && s->entries[entry - 2].open);
    for (int k = 0; k < en->n_stages; k++) {
        vt_stage_summary *st = &en->stages[k];
        st->pending = vt_result_index_pending(b, entry, k);
        st->open = en->open = en->open || st->pending > 0;
        if (st->share < 1 && en->sample.share >= 1)
            en->sample = (vt_sample_summary){.share = st->share, .survivors = left, .sampled = st->tried};
        if (st->share < 1) en->sample.broken += st->broken + st->not_finite;
        left -= st->broken + st->not_finite;
        st->robust = left; /* images a later stage still has to try count as robust so far */
        en->broken += st->broken, en->borderline += st->borderline, en->invalid += st->invalid;
        en->gradients += st->gradients, en->forwards += st->forwards;
        en->not_finite += st->not_finite;
        en->pending += st->pending;
    }
    en->robust = left;
    en->cost = (double)en->forwards + s->gradient_cost * (double)en->gradients;
    s->pending += en->pending;
    vt_sample_summary *p = &en->sample;
    if (p->share < 1) p->further = vt_hypergeometric_upper(p->survivors, p->sampled, p->broken, 0.05) - p->broken;
    p->points = s->total ? 100 * (double)p->further / (double)s->total : 0;
}

/* Images that are right and that no entry of this scoring broke; -1: there is no such entry. */
static int64_t worst_case(const vt_summary *s, const vt_result_index *b, vt_scoring scoring) {
    bool any = scoring == VT_SCORE_BALL;
    int64_t left = 0;
    for (int k = 0; k < s->n_entries; k++) any = any || s->entries[k].scoring == scoring;
    for (size_t i = 0; i < b->n; i++) left += vt_result_index_stands(b, scoring, i);
    return any ? left : -1;
}

static vt_status fill_summary(vt_summary *s, const vt_ledger *l, const vt_result_index *b, int64_t images, vt_err *e) {
    double *scratch = calloc(l->count + 1, sizeof *scratch);
    vt_status st = scratch ? allocate_entries(s, e) : vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    for (size_t i = 0; i < l->count && st == VT_OK; i++) add_line(s, &l->records[i]);
    if (st == VT_OK) {
        format_ranges(s->images, sizeof s->images, b->images, b->n);
        s->missing = s->pending = images > s->total ? images - s->total : 0;
        for (int i = 0; i < s->n_entries; i++) {
            total_entry(s, b, i + 1);
            set_medians(&s->entries[i], l, i + 1, scratch);
        }
        s->worst_robust = worst_case(s, b, VT_SCORE_BALL);
        s->worst_eight_bit = worst_case(s, b, VT_SCORE_EIGHT_BIT);
    }
    free(scratch);
    return st;
}

const char *vt_summary_note(const vt_summary *s, size_t i) {
    if (i < s->header->n_notes) return s->header->notes[i];
    return i == s->header->n_notes && *s->unsure_text ? s->unsure_text : NULL;
}

/* Clean images of which a model in another process says another class when it is asked again: the first of them, by
 * number. */
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
                 "batch "
                 "(%s%s)%s",
                 (long long)s->unsure, n == 1 ? "" : "s", list, n < s->unsure ? ", ..." : "",
                 s->header->random
                     ? ": it draws at random"
                     : ": is a BatchNorm in train mode, or a dropout? A model that is meant to draw is served with "
                       "random=True");
}

vt_status vt_summary_make(vt_summary *s, const vt_ledger *l, int64_t images, vt_err *e) {
    vt_result_index b;
    *s = (vt_summary){.header = l->header};
    vt_status st = vt_result_index_read(&b, l, e);
    if (st == VT_OK) st = fill_summary(s, l, &b, images, e);
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
        if (en->profile)
            snprintf(text, size, "%s: every stage was run on all survivors: 0.00 points are open (95 %%); %s", en->name,
                     vt_entry_claim(en));
        return en->profile;
    }
    for (int k = 0; k < en->n_stages && at < size; k++)
        if (en->stages[k].share < 1)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", en->stages[k].name);
    char names[200];
    snprintf(names, sizeof names, "%.199s", text);
    snprintf(text, size,
             "%s: %s tried a random %lld of %lld survivors and broke %lld; on all, with 95 %% confidence, at most %lld "
             "more "
             "of %lld images would fall (%.2f points)%s%s",
             en->name, names, (long long)p->sampled, (long long)p->survivors, (long long)p->broken,
             (long long)p->further, (long long)s->total, p->points, en->profile ? ": " : "",
             en->profile ? vt_entry_claim(en) : "");
    return true;
}

bool vt_remark(const char *name, int64_t vanished, int64_t not_finite, int k, char *text, size_t size) {
    if (vanished && k-- == 0) {
        snprintf(text, size,
                 "%s: cross-entropy's gradient vanished on %lld image%s (softmax leaves nothing of it); the margin's "
                 "was "
                 "followed there",
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
    for (int i = 0; i < en->n_stages; i++) {
        const vt_stage_summary *st = &en->stages[i];
        char name[100];
        snprintf(name, sizeof name, "%s%s%.42s", en->label, en->n_stages > 1 ? ", " : "",
                 en->n_stages > 1 ? st->label : "");
        if (vt_remark(name, st->vanished, st->not_finite, k, text, size)) return true;
        k -= (st->vanished > 0) + (st->not_finite > 0);
    }
    return false;
}

const char *vt_entry_label(const vt_entry_summary *en, char *text, size_t size) {
    snprintf(text, size, "%s", en->label);
    return text;
}

static int count_ball_entries(const vt_summary *s) {
    int n = 0;
    for (int k = 0; k < s->n_entries; k++) n += s->entries[k].scoring == VT_SCORE_BALL;
    return n;
}

static bool special_row(const vt_summary *s, int past, vt_row *r) {
    int one = count_ball_entries(s) < 2; /* one entry is its own worst case */
    past += one;
    bool eight = past == 1 && !one && s->worst_eight_bit >= 0;
    if (past != 0 && !eight) return false;
    r->verdict = r->reached = true;
    for (int k = 0; k < s->n_entries; k++)
        if (s->entries[k].scoring == (eight ? VT_SCORE_EIGHT_BIT : VT_SCORE_BALL))
            r->open = r->open || s->entries[k].open;
    snprintf(r->label, sizeof r->label, "%s", eight ? "worst case, 8-bit" : "worst case");
    r->count = eight ? s->worst_eight_bit : s->worst_robust;
    return true;
}

/* Stages that have a row of their own, and whether images that are neither have one, last. */
static int stage_rows(const vt_entry_summary *en) { return en->n_stages > 1 ? en->n_stages : 0; }
static int count_entry_rows(const vt_entry_summary *en) { return 1 + stage_rows(en) + (en->not_finite > 0); }

static void apart_row(vt_row *r, int64_t images) {
    snprintf(r->label, sizeof r->label, "logits not finite");
    r->level = 1, r->reached = true, r->count = images;
}

/* Row k of an entry: itself, its stages, the images without a verdict. */
static void entry_row(const vt_entry_summary *en, int k, vt_row *r) {
    bool begun = false;
    for (int i = 0; i < en->n_stages; i++) begun = begun || en->stages[i].tried > 0;
    r->level = k > 0, r->has_attack = true, r->open = en->open, r->reached = begun || !en->open;
    if (k == 0) {
        vt_entry_label(en, r->label, sizeof r->label);
        r->count = en->robust, r->borderline = en->borderline, r->gradients = en->gradients, r->forwards = en->forwards;
    } else if (k <= stage_rows(en)) {
        const vt_stage_summary *st = &en->stages[k - 1];
        snprintf(r->label, sizeof r->label, "after %s", st->label);
        r->open = st->open, r->reached = st->tried > 0 || !st->open;
        r->count = st->robust, r->borderline = st->borderline, r->gradients = st->gradients, r->forwards = st->forwards;
    } else {
        apart_row(r, en->not_finite);
        r->reached = begun || !en->open, r->has_attack = false;
    }
}

bool vt_summary_row(const vt_summary *s, int i, vt_row *r) {
    memset(r, 0, sizeof *r);
    r->total = s->total;
    if (i == 0) {
        snprintf(r->label, sizeof r->label, "clean");
        r->count = s->correct;
        r->reached = true, r->verdict = !s->n_entries;
    } else if (i == 1 && s->not_finite) {
        apart_row(r, s->not_finite);
    } else {
        int at = 1 + (s->not_finite > 0), k = 0;
        while (k < s->n_entries && i >= at + count_entry_rows(&s->entries[k])) at += count_entry_rows(&s->entries[k++]);
        if (k < s->n_entries)
            entry_row(&s->entries[k], i - at, r),
                r->verdict = i == at && s->entries[k].scoring == VT_SCORE_BALL && count_ball_entries(s) == 1;
        else if (!special_row(s, i - at, r))
            return false;
    }
    r->percent = r->total ? 100 * (double)r->count / (double)r->total : 0;
    vt_wilson(r->count, r->total, &r->low, &r->high);
    return true;
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

/* In dir. */
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
