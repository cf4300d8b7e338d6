/* SPDX-License-Identifier: MIT */
/* The public handle of a run: of an evaluation that was made here, or of a folder. */
#include <stdlib.h>
#include "api/api.h"
#include "base/json.h"
#include "eval/report/summary.h"

/* ---- opening ---- */

/* Opens the ledger in dir; VT_E_IO: there is none, VT_E_FORMAT: it has no header. */
static vt_status read_folder(vitrine_run *r, const char *dir, vt_err *e) {
    if (!vt_ledger_exists(dir)) return vt_fail(e, VT_E_IO, "%s: holds no run (ledger.jsonl)", dir);
    VT_TRY(vt_ledger_open(&r->ledger, dir, e));
    if (!r->ledger->header) return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: no line of it is whole", dir);
    return VT_OK;
}

vitrine_status vitrine_read(vitrine_run **out, const char *dir, vitrine_err *e) {
    if (out) *out = NULL;
    VT_API_NEEDS(out, dir);
    vt_err why = {0};
    vitrine_run *r = calloc(1, sizeof *r);
    vt_status s = r ? read_folder(r, dir, &why) : vt_fail(&why, VT_E_MEMORY, "no memory for a run");
    if (s == VT_OK) *out = r;
    if (s != VT_OK) vitrine_run_close(r);
    return vt_api_end(e, s, &why);
}

void vitrine_run_close(vitrine_run *r) {
    if (!r) return;
    vt_ledger_close(r->ledger);
    free(r);
}

/* ---- what it holds ---- */

int vitrine_run_entries(const vitrine_run *r) { return r ? r->ledger->header->n_attacks : 0; }

const char *vitrine_run_entry(const vitrine_run *r, int entry) {
    if (r && entry == VT_ENTRY_CERTIFY && r->ledger->header->certify.method) return "certified";
    if (!r || entry < 0 || entry > r->ledger->header->n_attacks) return NULL;
    return entry ? vt_header_entry(r->ledger->header, entry)->name : "clean";
}

size_t vitrine_run_images(const vitrine_run *r) {
    size_t n = 0;
    for (size_t i = 0; r && i < r->ledger->count; i++) n += r->ledger->records[i].entry == VT_ENTRY_CLEAN;
    return n;
}

size_t vitrine_run_pixels(const vitrine_run *r) { return r ? r->ledger->pixels : 0; }

/* Sets *out, to be freed, to pointers to the lines, sorted by image, entry, stage. */
static vt_status list_sorted_records(const vt_ledger *l, const vt_record ***out, vt_err *e) {
    const vt_record **all = *out = calloc(l->count ? l->count : 1, sizeof *all);
    if (!all) return vt_fail(e, VT_E_MEMORY, "no memory for %zu lines", l->count);
    for (size_t i = 0; i < l->count; i++) all[i] = &l->records[i];
    qsort(all, l->count, sizeof *all, vt_record_by_image);
    return VT_OK;
}

/* Sets *v to one image's verdict at an entry from its n lines, the clean line first; outcome -1: not known. An 8-bit
 * entry has no line for what the entry before it did not break: that verdict holds. */
static void one_image(vitrine_verdict *v, const vt_record *const *lines, size_t n, const vt_header *h, int entry) {
    bool any = !entry;
    vt_api_verdict(v, lines[0]);
    for (size_t i = 1; i < n; i++)
        if (lines[i]->entry == entry)
            vt_api_verdict(v, lines[i]), any = true;
        else if (entry && lines[i]->status == VT_RECORD_CERTIFIED && h->certify.first &&
                 vt_header_scoring(h, entry) == VT_SCORE_BALL)
            v->outcome = VITRINE_ROBUST, any = true; /* it was not attacked */
    if (any || v->outcome == VITRINE_WRONG) return;
    if (vt_header_scoring(h, entry) == VT_SCORE_EIGHT_BIT) one_image(v, lines, n, h, entry - 1);
    if (v->outcome == VITRINE_CORRECT || v->outcome == VITRINE_BROKEN) v->outcome = -1;
}

vitrine_status vitrine_run_verdicts(const vitrine_run *r, int entry, vitrine_verdict *verdicts, vitrine_err *e) {
    VT_API_NEEDS(r, verdicts);
    if (!vitrine_run_entry(r, entry))
        return vt_api_usage(e, "%s: entry is %d, must be 0 to %d", __func__, entry, vitrine_run_entries(r));
    vt_err why = {0};
    const vt_record **all;
    vt_status s = list_sorted_records(r->ledger, &all, &why);
    for (size_t i = 0, end; s == VT_OK && i < r->ledger->count; i = end) {
        for (end = i; end < r->ledger->count && all[end]->image == all[i]->image;) end++;
        if (all[i]->entry == VT_ENTRY_CLEAN) one_image(verdicts++, all + i, end - i, r->ledger->header, entry);
    }
    free(all);
    return vt_api_end(e, s, &why);
}

vitrine_status vitrine_run_adversarial(const vitrine_run *r, int entry, int32_t image, float *x_adv, vitrine_err *e) {
    VT_API_NEEDS(r, x_adv);
    vt_err why = {0};
    const vt_record *at = NULL;
    for (size_t i = 0; i < r->ledger->count; i++) {
        const vt_record *line = &r->ledger->records[i];
        if (line->image == image && line->entry == entry && entry && line->adv >= 0) at = line;
    }
    vt_status s =
        at ? vt_ledger_read_adv(r->ledger, at, x_adv, &why)
           : vt_fail(&why, VT_E_RANGE, "%s: entry %d has stored no point of image %d", r->ledger->dir, entry, image);
    return vt_api_end(e, s, &why);
}

vitrine_status vitrine_run_json(const vitrine_run *r, char **text, vitrine_err *e) {
    VT_API_NEEDS(r, text);
    vt_err why = {0};
    vt_summary s;
    *text = NULL;
    vt_status st = vt_summary_make(&s, r->ledger, r->images, &why);
    if (st != VT_OK) return vt_api_end(e, st, &why);
    json_t *o = vt_report_find("json")->document(&s);
    *text = o ? vt_json_text(o, JSON_INDENT(1)) : NULL;
    if (!*text) st = vt_fail(&why, VT_E_MEMORY, "no memory for the results");
    json_decref(o);
    vt_summary_free(&s);
    return vt_api_end(e, st, &why);
}
