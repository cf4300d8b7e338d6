#include "eval/compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "eval/summary.h"

/* What may differ between two runs that are compared: the model, and what it was run with. */
static bool may_differ(const char *key) {
    static const char *const keys[] = {"weights", "model", "attacks", "blas", "compiler", "vitrine", "exhaustive"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i])) return true;
    return false;
}

static vt_status covers(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    const char *key;
    json_t *value;
    json_object_foreach(a->header, key, value) {
        if (may_differ(key) || json_equal(value, json_object_get(b->header, key))) continue;
        char *x = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        char *y = json_dumps(json_object_get(b->header, key), JSON_COMPACT | JSON_ENCODE_ANY);
        vt_status s =
            vt_fail(e, VT_E_USAGE, "%s and %s cannot be compared: %s is %.80s in the one and %.80s in the other",
                    a->dir, b->dir, key, x ? x : "?", y ? y : "missing");
        free(x), free(y);
        return s;
    }
    return VT_OK;
}

static vt_status same_question(const vt_ledger *a, const vt_ledger *b, vt_err *e) {
    VT_TRY(covers(a, b, e));
    return covers(b, a, e);
}

/* Per image of a run: 0 not judged, 1 wrong or broken, 2 right under entry (0: clean). An entry that is not finished
 * for an image (killed runs) leaves it out. */
static void judge(uint8_t *state, size_t n, const vt_ledger *l, int entry, int stages) {
    memset(state, 0, n);
    for (size_t i = 0; i < l->count; i++) {
        const vt_record *r = &l->records[i];
        if ((size_t)r->image >= n) continue;
        if (r->entry == 0 && (entry == 0 || r->status == VT_RECORD_WRONG))
            state[r->image] = r->status == VT_RECORD_CORRECT ? 2 : 1;
        if (entry == 0 || r->entry != entry) continue;
        if (r->status == VT_RECORD_BROKEN)
            state[r->image] = 1;
        else if (r->stage == stages - 1)
            state[r->image] = 2;
    }
}

static void count(vt_pair *p, const uint8_t *a, const uint8_t *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!a[i] || !b[i]) continue;
        p->images++;
        p->right_a += a[i] == 2, p->right_b += b[i] == 2;
        p->only_a += a[i] == 2 && b[i] == 1, p->only_b += a[i] == 1 && b[i] == 2;
    }
    p->test = vt_mcnemar_exact(p->only_a, p->only_b);
    vt_paired_interval(p->only_a, p->only_b, p->images, VT_Z_TWO_SIDED, &p->low, &p->high);
    p->changed = calloc((size_t)(p->only_a + p->only_b) + 1, sizeof *p->changed);
    for (size_t i = 0, at_a = 0, at_b = (size_t)p->only_a; p->changed && i < n; i++) {
        if (a[i] == 2 && b[i] == 1) p->changed[at_a++] = (int32_t)i;
        if (a[i] == 1 && b[i] == 2) p->changed[at_b++] = (int32_t)i;
    }
}

void vt_pairs_free(vt_pair *rows, int n) {
    for (int i = 0; i < n; i++) {
        free(rows[i].changed);
        rows[i].changed = NULL;
    }
}

/* Both looked at the same images. */
static vt_status same_images(const vt_ledger *a, const vt_ledger *b, const uint8_t *x, const uint8_t *y, size_t n,
                             vt_err *e) {
    size_t both = 0, in_a = 0, in_b = 0, first = n;
    for (size_t i = n; i-- > 0;) {
        both += x[i] && y[i], in_a += x[i] != 0, in_b += y[i] != 0;
        if (!x[i] != !y[i]) first = i;
    }
    if (!both || first == n) return VT_OK; /* nothing in common is said by the caller */
    return vt_fail(e, VT_E_USAGE,
                   "%s and %s are over different images: %zu and %zu, of which %zu are in both (image %zu is not); "
                   "--common compares those",
                   a->dir, b->dir, in_a, in_b, both, first);
}

static size_t room(const vt_ledger *l) {
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        if ((size_t)l->records[i].image + 1 > n) n = (size_t)l->records[i].image + 1;
    return n;
}

static const json_t *attack_at(const vt_ledger *l, size_t i) {
    return json_array_get(json_object_get(l->header, "attacks"), i);
}

static int stages_of(const json_t *attack) { return (int)json_array_size(json_object_get(attack, "stages")); }

vt_status vt_compare(vt_pair *rows, int most, int *n, const vt_ledger *a, const vt_ledger *b, bool common, vt_err *e) {
    *n = 0;
    VT_TRY(same_question(a, b, e));
    size_t images = room(a) > room(b) ? room(a) : room(b);
    uint8_t *x = calloc(images + 1, 1), *y = calloc(images + 1, 1);
    if (!x || !y) {
        free(x), free(y);
        return vt_fail(e, VT_E_MEMORY, "no memory to compare %zu images", images);
    }
    judge(x, images, a, 0, 1);
    judge(y, images, b, 0, 1);
    vt_status same = common ? VT_OK : same_images(a, b, x, y, images, e);
    if (same != VT_OK) return free(x), free(y), same;
    rows[0] = (vt_pair){.name = "clean"};
    count(&rows[(*n)++], x, y, images);
    for (size_t i = 0; attack_at(a, i); i++)
        for (size_t k = 0; attack_at(b, k) && *n < most; k++) {
            const json_t *p = attack_at(a, i), *q = attack_at(b, k);
            if (strcmp(vt_header_text(p, "id"), vt_header_text(q, "id"))) continue;
            judge(x, images, a, (int)i + 1, stages_of(p));
            judge(y, images, b, (int)k + 1, stages_of(q));
            rows[*n] = (vt_pair){0};
            snprintf(rows[*n].name, sizeof rows[*n].name, "%s", vt_header_text(p, "name"));
            vt_pair *row = &rows[(*n)++];
            count(row, x, y, images);
            if (row->images < rows[0].images)
                return free(x), free(y),
                       vt_fail(e, VT_E_USAGE, "%s or %s is not finished: %s has results for %lld of %lld images",
                               a->dir, b->dir, row->name, (long long)row->images, (long long)rows[0].images);
            break;
        }
    free(x), free(y);
    return rows[0].images ? VT_OK : vt_fail(e, VT_E_USAGE, "%s and %s have no image in common", a->dir, b->dir);
}

void vt_compare_adjust(vt_pair *rows, int n, double alpha) {
    double *p = calloc(3 * (size_t)n + 1, sizeof *p), *q = p + n, *both = q + n;
    for (int i = 0; p && i < n; i++) both[i] = rows[i].test.two_sided;
    if (p) vt_holm(p, both, n);
    for (int i = 0; i < n; i++) {
        rows[i].adjusted = p ? p[i] : 1;
        /* the two-sided test says that they differ, the counts say which way */
        bool b_ahead = rows[i].only_b > rows[i].only_a;
        rows[i].b_better = vt_claim(b_ahead ? rows[i].adjusted : 1, b_ahead ? 1 : rows[i].adjusted, alpha);
    }
    free(p);
}
