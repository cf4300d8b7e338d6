/* SPDX-License-Identifier: MIT */
#include "eval/report/queries.h"

#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"
#include "base/markup.h"
#include "eval/header.h"

/* Does no stage of the entry see gradients or what is inside the model? */
static bool is_black_box(const vt_header_attack *a) {
    for (int k = 0; k < a->n_stages; k++) {
        const vt_attack_def *d = vt_attack_find(a->stages[k].name);
        if (!d || d->white_box || d->inside) return false;
    }
    return a->n_stages > 0;
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Counts the queries of entry `entry` from n records in the order of images, entries and stages. */
static vt_status count_queries(vt_queries *q, int entry, const vt_record *const *r, size_t n, vt_err *e) {
    int64_t spent = 0;
    q->at = calloc(n + 1, sizeof *q->at);
    if (!q->at) return vt_fail(e, VT_E_MEMORY, "no memory for the queries of %zu lines", n);
    for (size_t i = 0; i < n; i++) {
        if (r[i]->entry != entry) continue;
        if (!r[i]->stage) q->tried++, spent = 0;
        spent += r[i]->forwards;
        if (r[i]->status == VT_RECORD_BROKEN) q->at[q->broken++] = spent;
    }
    qsort(q->at, (size_t)q->broken, sizeof *q->at, by_number);
    return VT_OK;
}

vt_status vt_queries_make(vt_queries **out, int *n, const vt_ledger *l, vt_err *e) {
    const vt_header *h = l->header;
    *n = 0;
    *out = calloc((size_t)h->n_attacks + 1, sizeof **out);
    const vt_record **order = calloc(l->count + 1, sizeof *order);
    vt_status s = *out && order ? VT_OK : vt_fail(e, VT_E_MEMORY, "%s: no memory for its queries", l->dir);
    for (size_t i = 0; s == VT_OK && i < l->count; i++) order[i] = &l->records[i];
    if (s == VT_OK) qsort(order, l->count, sizeof *order, vt_record_by_image);
    for (int k = 0; s == VT_OK && k < h->n_attacks && !h->exhaustive && !h->curve; k++) {
        if (!is_black_box(&h->attacks[k])) continue;
        vt_queries *q = &(*out)[(*n)++];
        vt_attack_label(&h->attacks[k], q->label, sizeof q->label);
        s = count_queries(q, k + 1, order, l->count, e);
        if (s == VT_OK && !q->tried) free(q->at), *q = (vt_queries){0}, --*n;
    }
    free(order);
    return s;
}

void vt_queries_free(vt_queries *q, int n) {
    for (int k = 0; k < n; k++) free(q[k].at);
    free(q);
}

void vt_queries_csv(FILE *f, const vt_queries *q, int n) {
    fprintf(f, "attack,queries,broken,tried,percent\n");
    for (int k = 0; k < n; k++)
        for (int64_t i = 0; i < q[k].broken; i++) {
            if (i + 1 < q[k].broken && q[k].at[i + 1] == q[k].at[i]) continue;
            vt_csv(f, q[k].label);
            fprintf(f, ",%lld,%lld,%lld,%.4f\n", (long long)q[k].at[i], (long long)i + 1, (long long)q[k].tried,
                    100.0 * (double)(i + 1) / (double)q[k].tried);
        }
}

size_t vt_queries_marks(vt_mark *marks, size_t most, const vt_queries *q, int n) {
    size_t count = 0;
    for (int k = 0; k < n && most >= (size_t)n; k++) {
        int64_t each = (int64_t)(most / (size_t)n), step = 1 + q[k].broken / each;
        for (int64_t i = q[k].broken ? (q[k].broken - 1) % step : 0; i < q[k].broken; i += step) {
            double percent = 100.0 * (double)(i + 1) / (double)q[k].tried;
            bool same = count && marks[count - 1].series == q[k].label && marks[count - 1].x == (double)q[k].at[i];
            marks[count - same] = (vt_mark){.series = q[k].label, .x = (double)q[k].at[i], .y = percent, .low = 1};
            count += !same;
        }
    }
    return count;
}
