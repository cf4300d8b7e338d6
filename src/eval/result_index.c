/* SPDX-License-Identifier: MIT */
#include "eval/result_index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool vt_in_share(uint64_t seed, int32_t image, double share) {
    vt_rng r = {.seed = seed, .purpose = vt_rng_purpose("sample of survivors"), .image = (uint32_t)image};
    return (double)vt_rng_bits(&r, 0) < share * 4294967296.0;
}

double vt_record_norm(const vt_record *r, vt_norm norm) {
    if (r->status == VT_RECORD_NOT_FINITE) return 0; /* the search ended unfinished: robust at no radius */
    return norm == VT_LINF ? r->linf : norm == VT_L2 ? r->l2 : norm == VT_L1 ? r->l1 : r->l0;
}

/* Fills an entry from the header; column: that of its first stage. */
static void read_entry(vt_result_index_entry *en, const vt_header_attack *a, int column) {
    *en =
        (vt_result_index_entry){.scoring = a->scoring, .radius = a->radius, .n_stages = a->n_stages, .column = column};
    for (int k = 0; k < a->n_stages; k++) en->share[k] = a->stages[k].share;
}

vt_status vt_result_index_open(vt_result_index *b, const vt_header *header, const int32_t *images, size_t n,
                               vt_err *e) {
    bool curve = false;
    *b = (vt_result_index){.images = images, .n = n, .n_entries = header->n_attacks, .columns = 1};
    b->seed = header->seed;
    b->norm = header->norm;
    b->classes = header->model.classes;
    b->certify = header->certify.method != NULL, b->first = header->certify.first;
    b->entries = calloc((size_t)b->n_entries + 1, sizeof *b->entries);
    if (!b->entries) return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    for (int i = 0; i < b->n_entries; i++) {
        read_entry(&b->entries[i], &header->attacks[i], b->columns);
        b->columns += b->entries[i].n_stages;
        curve = curve || isfinite(b->entries[i].radius);
    }
    b->columns += b->certify;
    b->cells = malloc((size_t)b->columns * n + 1);
    b->norms = curve ? malloc(((size_t)b->n_entries * n + 1) * sizeof *b->norms) : NULL;
    b->targets = header->targets ? malloc((n + 1) * sizeof *b->targets) : NULL;
    if (!b->cells || (curve && !b->norms) || (header->targets && !b->targets)) {
        vt_result_index_close(b);
        return vt_fail(e, VT_E_MEMORY, "no memory for %zu images", n);
    }
    memset(b->cells, VT_RESULT_NONE, (size_t)b->columns * n);
    for (size_t i = 0; b->targets && i < n; i++) b->targets[i] = -1;
    for (size_t i = 0; curve && i < (size_t)b->n_entries * n; i++) b->norms[i] = INFINITY;
    return VT_OK;
}

void vt_result_index_close(vt_result_index *b) {
    free(b->entries), free(b->cells), free(b->norms), free(b->targets), free(b->own);
    memset(b, 0, sizeof *b);
}

size_t vt_image_place(const int32_t *images, size_t n, int32_t image) {
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (images[mid] < image)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && images[lo] == image ? lo : SIZE_MAX;
}

/* Returns the cell of image place i under a stage (entry 0: clean). */
static uint8_t *cell_at(const vt_result_index *b, int entry, int stage, size_t i) {
    int column = entry == VT_ENTRY_CERTIFY ? b->columns - 1 : entry ? b->entries[entry - 1].column + stage : 0;
    return &b->cells[(size_t)column * b->n + i];
}

uint8_t vt_result_index_cell(const vt_result_index *b, int entry, int stage, size_t i) {
    return *cell_at(b, entry, stage, i);
}

/* Sets an image's target by its clean line, or checks that an attack line has the same. VT_E_FORMAT: another, no class,
 * the label, or none where the header says that there are. */
static vt_status note_target(vt_result_index *b, const char *dir, const vt_record *r, size_t i, vt_err *e) {
    bool clean = r->entry == VT_ENTRY_CLEAN, in_range = r->target < b->classes || !b->classes;
    if (!b->targets && r->target < 0) return VT_OK;
    if (!b->targets || r->target < 0)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: a line of image %d has %s target, but the header says %s", dir,
                       r->image, r->target < 0 ? "no" : "a", b->targets ? "that there are" : "of none");
    if (!in_range || r->target == r->label)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: image %d of label %d has the target %d, must be %s", dir,
                       r->image, r->label, r->target, in_range ? "another class" : "a class of the model");
    if (!clean && r->target != b->targets[i])
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: image %d has the targets %d and %d", dir, r->image,
                       b->targets[i], r->target);
    b->targets[i] = r->target;
    return VT_OK;
}

/* Enters one line's status, target and norm; VT_E_USAGE: an image that is not in the index; VT_E_FORMAT: a line that
 * the header does not allow. */
static vt_status note_line(vt_result_index *b, const char *dir, const vt_record *r, vt_err *e) {
    size_t i = vt_image_place(b->images, b->n, r->image);
    if (i == SIZE_MAX)
        return vt_fail(e, VT_E_USAGE,
                       "%s/ledger.jsonl holds image %d, which @images leaves out: a resumed run may extend the set, "
                       "not shrink it",
                       dir, r->image);
    bool single = !r->entry || (r->entry == VT_ENTRY_CERTIFY && b->certify); /* entries of one stage, without a row */
    if ((!single && r->entry > b->n_entries) || r->stage >= (single ? 1 : b->entries[r->entry - 1].n_stages))
        return vt_fail(e, VT_E_FORMAT,
                       "%s/ledger.jsonl: a line of image %d names entry %d, stage %d, which the header does not have",
                       dir, r->image, r->entry, r->stage);
    uint8_t *at = cell_at(b, r->entry, r->stage, i);
    if (*at != VT_RESULT_NONE)
        return vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: image %d has two lines for entry %d, stage %d", dir, r->image,
                       r->entry, r->stage);
    VT_TRY(note_target(b, dir, r, i, e));
    *at = r->status;
    if (!b->norms || r->entry == VT_ENTRY_CLEAN || !vt_record_ends(r->status)) return VT_OK;
    double *norm = &b->norms[(size_t)(r->entry - 1) * b->n + i];
    *norm = fmin(*norm, vt_record_norm(r, b->norm));
    return VT_OK;
}

vt_status vt_result_index_note_lines(vt_result_index *b, const char *dir, const vt_record *lines, size_t n, vt_err *e) {
    for (size_t k = 0; k < n; k++) VT_TRY(note_line(b, dir, &lines[k], e));
    return VT_OK;
}

vt_status vt_result_index_note(vt_result_index *b, const vt_ledger *l, size_t from, vt_err *e) {
    return l->count > from ? vt_result_index_note_lines(b, l->dir, l->records + from, l->count - from, e) : VT_OK;
}

vt_status vt_result_index_read(vt_result_index *b, const vt_ledger *l, vt_err *e) {
    int32_t *images = calloc(l->count + 1, sizeof *images);
    *b = (vt_result_index){0};
    if (!images) return vt_fail(e, VT_E_MEMORY, "no memory for %zu lines", l->count);
    vt_status s = vt_result_index_open(b, l->header, images, vt_result_index_images(l, images), e);
    b->own = images;
    return s == VT_OK ? vt_result_index_note(b, l, 0, e) : s;
}

/* Did a stage of the entry before `stage` end image i? */
static bool broken_before(const vt_result_index *b, int entry, int stage, size_t i) {
    for (int k = 0; k < stage; k++)
        if (vt_record_ends(*cell_at(b, entry, k, i))) return true;
    return false;
}

bool vt_result_index_broke(const vt_result_index *b, int entry, size_t i) {
    return broken_before(b, entry, b->entries[entry - 1].n_stages, i);
}

bool vt_result_index_stands(const vt_result_index *b, vt_scoring scoring, size_t i) {
    bool stands = *cell_at(b, 0, 0, i) == VT_RECORD_CORRECT;
    for (int k = 1; k <= b->n_entries && stands; k++)
        stands = b->entries[k - 1].scoring != scoring || !vt_result_index_broke(b, k, i);
    return stands;
}

bool vt_result_index_certified(const vt_result_index *b, size_t i) {
    return b->certify && *cell_at(b, VT_ENTRY_CERTIFY, 0, i) == VT_RECORD_CERTIFIED;
}

/* Did an entry before this one break image i within its radius? Of curves alone, whose confirmations leave such images
 * out. */
static bool fell_within(const vt_result_index *b, int entry, size_t i) {
    double radius = b->entries[entry - 1].radius;
    if (!b->norms || isinf(radius)) return false;
    for (int k = 0; k < entry - 1; k++)
        if (b->norms[(size_t)k * b->n + i] <= radius) return true;
    return false;
}

bool vt_result_index_takes(const vt_result_index *b, int entry, int stage, size_t i) {
    if (entry == VT_ENTRY_CLEAN) return true;
    if (entry == VT_ENTRY_CERTIFY) return *cell_at(b, 0, 0, i) == VT_RECORD_CORRECT;
    const vt_result_index_entry *en = &b->entries[entry - 1];
    uint8_t clean = *cell_at(b, 0, 0, i);
    if (broken_before(b, entry, stage, i) || clean == VT_RESULT_NONE) return false;
    switch (en->scoring) {
    case VT_SCORE_PUBLISHED: /* the papers' evaluators run on every image that has logits */
        return clean != VT_RECORD_NOT_FINITE;
    case VT_SCORE_EIGHT_BIT: /* what no float point broke, no 8-bit point does */
        return vt_result_index_broke(b, entry - 1, i);
    default:
        return clean == VT_RECORD_CORRECT && !(b->first && vt_result_index_certified(b, i)) &&
               !fell_within(b, entry, i) && vt_in_share(b->seed, b->images[i], en->share[stage]);
    }
}

bool vt_result_index_right(const vt_result_index *b, int entry, size_t i) {
    uint8_t status = *cell_at(b, 0, 0, i);
    bool clean = status == VT_RECORD_CORRECT;
    if (entry == VT_ENTRY_CLEAN) return clean;
    if (entry == VT_ENTRY_CERTIFY) return vt_result_index_certified(b, i);
    bool any = b->entries[entry - 1].scoring == VT_SCORE_PUBLISHED && status != VT_RECORD_NOT_FINITE;
    return (clean || any) && !vt_result_index_broke(b, entry, i);
}

bool vt_result_index_done(const vt_result_index *b, int entry, size_t i) {
    bool done = *cell_at(b, 0, 0, i) != VT_RESULT_NONE;
    if (entry == VT_ENTRY_CERTIFY)
        return done && !(vt_result_index_takes(b, entry, 0, i) && *cell_at(b, entry, 0, i) == VT_RESULT_NONE);
    if (entry && b->entries[entry - 1].scoring == VT_SCORE_EIGHT_BIT) done = vt_result_index_done(b, entry - 1, i);
    for (int k = 0; entry && k < b->entries[entry - 1].n_stages; k++)
        done = done && !(vt_result_index_takes(b, entry, k, i) && *cell_at(b, entry, k, i) == VT_RESULT_NONE);
    return done;
}

/* Orders numbers of images for qsort and bsearch. */
static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

size_t vt_result_index_images(const vt_ledger *l, int32_t *images) {
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++) images[i] = l->records[i].image;
    qsort(images, l->count, sizeof *images, by_number);
    for (size_t i = 0; i < l->count; i++)
        if (!n || images[i] != images[n - 1]) images[n++] = images[i];
    return n;
}

int64_t vt_result_index_pending(const vt_result_index *b, int entry, int stage) {
    int64_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += vt_result_index_takes(b, entry, stage, i) && vt_result_index_cell(b, entry, stage, i) == VT_RESULT_NONE;
    return n;
}

vt_status vt_result_index_finished(const vt_ledger *l, int64_t *total, vt_err *e) {
    vt_result_index b;
    vt_status s = vt_result_index_read(&b, l, e);
    long long pending = 0;
    *total = 0;
    for (size_t i = 0; i < b.n && s == VT_OK; i++) *total += vt_result_index_cell(&b, 0, 0, i) != VT_RESULT_NONE;
    for (int k = 0; k < b.n_entries && s == VT_OK; k++)
        if (!b.entries[k].n_stages) /* no line says that anything was tried */
            s = vt_fail(e, VT_E_FORMAT, "%s/ledger.jsonl: the header's attacks[%d] has no stages", l->dir, k);
    for (int k = 0; k < b.n_entries && s == VT_OK; k++)
        for (int stage = 0; stage < b.entries[k].n_stages; stage++)
            pending += vt_result_index_pending(&b, k + 1, stage);
    if (s == VT_OK && b.certify) pending += vt_result_index_pending(&b, VT_ENTRY_CERTIFY, 0);
    if (s == VT_OK && (pending || !*total))
        s = vt_fail(e, VT_E_USAGE, "%s is not finished: %lld image-stages are missing; go on with @resume", l->dir,
                    pending);
    vt_result_index_close(&b);
    return s;
}
