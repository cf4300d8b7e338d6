#include "eval/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "eval/files.h"
#include "eval/metrics.h"

#define VT_PLUGIN(x) extern const vt_report_def vt_report_def_##x;
#include "reports.inc"
#undef VT_PLUGIN

static const vt_report_def *const defs[] = {
#define VT_PLUGIN(x) &vt_report_def_##x,
#include "reports.inc"
#undef VT_PLUGIN
};

const vt_report_def *const *vt_report_defs(int *n) {
    *n = (int)(sizeof defs / sizeof *defs);
    return defs;
}

const char *vt_header_text(const json_t *header, const char *key) {
    const char *v = json_string_value(json_object_get(header, key));
    return v ? v : "";
}

const char *vt_header_threat(const json_t *header, char *buf, size_t size) {
    const json_t *patch = json_object_get(json_object_get(header, "threat"), "patch");
    int side = (int)json_integer_value(json_object_get(patch, "size"));
    if (patch)
        snprintf(buf, size, "patch %d x %d, count %d, %s", side, side,
                 (int)json_integer_value(json_object_get(patch, "count")),
                 json_is_true(json_object_get(patch, "aligned")) ? "on tokens" : "anywhere");
    else
        snprintf(buf, size, "%s eps %s", vt_header_text(header, "norm"), vt_header_text(header, "eps"));
    return buf;
}

const char *vt_header_note(const json_t *header, size_t i) {
    const json_t *data = json_object_get(json_object_get(header, "data"), "notes");
    size_t n = json_array_size(data);
    if (i < n) return json_string_value(json_array_get(data, i));
    return json_string_value(json_array_get(json_object_get(json_object_get(header, "model"), "notes"), i - n));
}

void vt_summary_free(vt_summary *s) {
    for (int i = 0; i < s->n_entries; i++) free(s->entries[i].stages);
    free(s->entries);
    memset(s, 0, sizeof *s);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_int(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* "A:B" for runs of indices, cut with "..." when there are too many. */
static void ranges(char *out, size_t size, int32_t *images, size_t n) {
    qsort(images, n, sizeof *images, by_int);
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

static vt_status allocate(vt_summary *s, vt_err *e) {
    const json_t *attacks = json_object_get(s->header, "attacks");
    s->entries = calloc(json_array_size(attacks) + 1, sizeof *s->entries);
    if (!s->entries) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    for (size_t i = 0; i < json_array_size(attacks); i++) {
        const json_t *a = json_array_get(attacks, i), *stages = json_object_get(a, "stages");
        vt_entry_summary *en = &s->entries[i];
        en->name = vt_header_text(a, "name"), en->id = vt_header_text(a, "id");
        en->n_stages = (int)json_array_size(stages);
        en->stages = calloc(json_array_size(stages) + 1, sizeof *en->stages);
        s->n_entries++;
        if (!en->stages) return vt_fail(e, VT_E_MEMORY, "no memory for a summary");
        for (int k = 0; k < en->n_stages; k++) {
            en->stages[k].name = vt_header_text(json_array_get(stages, (size_t)k), "name");
            en->stages[k].id = vt_header_text(json_array_get(stages, (size_t)k), "id");
        }
    }
    return VT_OK;
}

static double median(double *v, size_t n) {
    if (!n) return NAN;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void medians(vt_entry_summary *en, const vt_ledger *l, int entry, double *scratch) {
    static const size_t from[] = {offsetof(vt_record, linf), offsetof(vt_record, l2), offsetof(vt_record, l1)};
    double *const to[] = {&en->median_linf, &en->median_l2, &en->median_l1};
    for (int which = 0; which < 3; which++) {
        size_t n = 0;
        for (size_t i = 0; i < l->count; i++)
            if (l->records[i].entry == entry && l->records[i].status == VT_RECORD_BROKEN)
                scratch[n++] = *(const double *)((const char *)&l->records[i] + from[which]);
        *to[which] = median(scratch, n);
    }
}

static vt_status add_line(vt_summary *s, const vt_record *r, const char *dir, vt_err *e) {
    if (r->entry == 0) {
        s->total++;
        s->correct += r->status == VT_RECORD_CORRECT;
        return VT_OK;
    }
    if (r->entry > s->n_entries || r->stage >= s->entries[r->entry - 1].n_stages)
        return vt_fail(e, VT_E_FORMAT, "%s: a ledger line names entry %d, stage %d, which the header does not have",
                       dir, r->entry, r->stage);
    vt_stage_summary *st = &s->entries[r->entry - 1].stages[r->stage];
    st->broken += r->status == VT_RECORD_BROKEN;
    st->robust += r->status == VT_RECORD_ROBUST || r->status == VT_RECORD_INVALID;
    st->invalid += r->status == VT_RECORD_INVALID;
    st->borderline += r->status == VT_RECORD_BROKEN && r->borderline;
    st->gradients += r->gradients;
    st->forwards += r->forwards;
    return VT_OK;
}

static void total_entry(vt_summary *s, vt_entry_summary *en) {
    int64_t left = s->correct;
    for (int k = 0; k < en->n_stages; k++) {
        vt_stage_summary *st = &en->stages[k];
        st->pending = left - (st->broken + st->robust);
        left -= st->broken;
        st->robust = left; /* images a later stage still has to try count as robust so far */
        en->broken += st->broken, en->borderline += st->borderline, en->invalid += st->invalid;
        en->gradients += st->gradients, en->forwards += st->forwards;
        en->pending += st->pending;
    }
    en->robust = left;
    s->pending += en->pending;
}

/* Images that no entry broke. */
static void worst_case(vt_summary *s, const vt_ledger *l, int32_t *broken) {
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].entry > 0 && l->records[i].status == VT_RECORD_BROKEN) broken[n++] = l->records[i].image;
    qsort(broken, n, sizeof *broken, by_int);
    int64_t distinct = 0;
    for (size_t i = 0; i < n; i++) distinct += i == 0 || broken[i] != broken[i - 1];
    s->worst_robust = s->correct - distinct;
}

vt_status vt_summary_make(vt_summary *s, const vt_ledger *l, int64_t images, vt_err *e) {
    memset(s, 0, sizeof *s);
    s->header = l->header;
    double *scratch = calloc(l->count + 1, sizeof *scratch);
    int32_t *ids = calloc(l->count + 1, sizeof *ids);
    vt_status st = scratch && ids ? allocate(s, e) : vt_fail(e, VT_E_MEMORY, "no memory for a summary");
    size_t n = 0;
    for (size_t i = 0; i < l->count && st == VT_OK; i++) {
        st = add_line(s, &l->records[i], l->dir, e);
        if (l->records[i].entry == 0) ids[n++] = l->records[i].image;
    }
    if (st == VT_OK) {
        ranges(s->images, sizeof s->images, ids, n);
        s->pending = images > s->total ? images - s->total : 0;
        for (int i = 0; i < s->n_entries; i++) {
            total_entry(s, &s->entries[i]);
            medians(&s->entries[i], l, i + 1, scratch);
        }
        worst_case(s, l, ids);
    }
    free(scratch);
    free(ids);
    if (st != VT_OK) vt_summary_free(s);
    return st;
}

bool vt_summary_row(const vt_summary *s, int i, vt_row *r) {
    memset(r, 0, sizeof *r);
    r->total = s->total;
    if (i == 0) {
        snprintf(r->label, sizeof r->label, "clean");
        r->count = s->correct;
    } else {
        int at = 1;
        bool found = false;
        for (int k = 0; k < s->n_entries && !found; k++) {
            const vt_entry_summary *en = &s->entries[k];
            int parts = en->n_stages > 1 ? en->n_stages : 0;
            if (i == at) {
                found = true;
                snprintf(r->label, sizeof r->label, "%s", en->name);
                r->count = en->robust, r->borderline = en->borderline, r->gradients = en->gradients,
                r->forwards = en->forwards;
            } else if (i <= at + parts) {
                found = true;
                const vt_stage_summary *st = &en->stages[i - at - 1];
                snprintf(r->label, sizeof r->label, "after %s", st->name);
                r->level = 1;
                r->count = st->robust, r->borderline = st->borderline, r->gradients = st->gradients,
                r->forwards = st->forwards;
            }
            at += 1 + parts;
        }
        r->has_attack = found;
        if (!found && (i > at || s->n_entries < 2)) return false;
        if (!found) {
            snprintf(r->label, sizeof r->label, "worst case");
            r->count = s->worst_robust;
        }
    }
    r->percent = r->total ? 100 * (double)r->count / (double)r->total : 0;
    vt_wilson(r->count, r->total, &r->low, &r->high);
    return true;
}

vt_status vt_reports_write(const vt_summary *s, const char *dir, FILE *terminal, vt_err *e) {
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++) {
        if (!defs[i]->file) {
            if (terminal) defs[i]->write(terminal, s);
            continue;
        }
        if (!dir) continue;
        vt_file f;
        VT_TRY(vt_file_begin(&f, dir, defs[i]->file, e));
        defs[i]->write(f.stream, s);
        VT_TRY(vt_file_commit(&f, e));
    }
    return VT_OK;
}
