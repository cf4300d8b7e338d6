/* SPDX-License-Identifier: MIT */
#include "eval/report/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include "eval/header.h"

static vt_status report_failed_images(const vt_ledger *l, const vt_record *const *failed, size_t n, vt_err *e) {
    char others[200] = "";
    size_t used = 0, count = 1;
    const vt_record *r = failed[0];
    const char *attack = vt_header_entry(l->header, r->entry)->name;
    for (size_t i = 1; i < n; i++) {
        if (failed[i]->image == failed[i - 1]->image) continue;
        count++;
        if (used < 150) used += (size_t)snprintf(others + used, sizeof others - used, " %d", failed[i]->image);
    }
    const char *more = used >= 150 ? " ..." : "", *also = count > 1 ? "; nor are images" : "";
    if (r->status == VT_RECORD_WRONG)
        return vt_fail(e, VT_E_RANGE, "image %d is not robust: without perturbation class %d is taken for %d%s%s%s",
                       r->image, r->label, r->pred, also, others, more);
    if (r->status == VT_RECORD_NOT_FINITE && !r->entry)
        return vt_fail(e, VT_E_RANGE, "image %d is not robust: without perturbation its logits are not finite%s%s%s",
                       r->image, also, others, more);
    if (r->status == VT_RECORD_NOT_FINITE)
        return vt_fail(e, VT_E_RANGE,
                       "image %d is not robust: %.40s found a point at linf %.9g, l2 %.6g whose logits are not "
                       "finite%s%s%s",
                       r->image, attack, r->linf, r->l2, also, others, more);
    return vt_fail(e, VT_E_RANGE,
                   "image %d is not robust: %.40s found a point at linf %.9g, l2 %.6g that is class %d instead of "
                   "%d%s%s%s",
                   r->image, attack, r->linf, r->l2, r->pred, r->label, also, others, more);
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
