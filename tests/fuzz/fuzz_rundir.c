/* SPDX-License-Identifier: MIT */
/* The text of a ledger, and all that is made of one: a summary, every report, the page of `show`, a curve, a comparison
 * with itself. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "eval/report/compare.h"
#include "eval/header.h"
#include "eval/report/curve.h"
#include "eval/result_index.h"
#include "eval/report/show.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void reports(const vt_ledger *l, const vt_summary *s) {
    int n;
    vt_err e = {0};
    const vt_report_def *const *defs = vt_report_defs(&n);
    for (int i = 0; i <= n; i++) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        vt_show page = {.ledger = l, .summary = s};
        if (!f) abort();
        if (i < n && vt_report_write(defs[i], f, s, &e) != VT_OK) abort();
        if (i == n && vt_show_write(f, &page, &e) != VT_OK && !e.text[0]) abort();
        fclose(f);
        if (i == n && strstr(text, "<script")) abort();
        free(text);
    }
}

static void same(const vt_ledger *l) {
    enum { MOST = 130 };
    static vt_pair rows[MOST];
    int n = 0;
    vt_err e = {0};
    for (size_t i = 0; i < l->count; i++)
        if (l->records[i].image > 100000) return; /* memory follows the largest number */
    memset(rows, 0, sizeof rows);
    if (vt_compare(rows, MOST, &n, l, l, true, &e) != VT_OK && !e.text[0]) abort();
    vt_pairs_free(rows, MOST);
}

static void use(const vt_ledger *l) {
    vt_summary s;
    vt_curve c;
    vt_err e = {0};
    int64_t total;
    if (vt_result_index_finished(l, &total, &e) != VT_OK && !e.text[0]) abort();
    if (vt_summary_make(&s, l, 0, &e) == VT_OK) {
        reports(l, &s);
        same(l);
        vt_summary_free(&s);
    }
    if (vt_curve_make(&c, l, &e) == VT_OK) vt_curve_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    vt_ledger *l;
    vt_err e = {0};
    size_t good;
    if (n > 1 << 14) return 0; /* larger ones only make fuzzing slow */
    if (vt_ledger_memory(&l, NULL, 48, &e) != VT_OK) abort();
    if (vt_ledger_parse(l, (const char *)bytes, n, &good, "ledger", &e) == VT_OK && l->header) use(l);
    vt_ledger_close(l);
    return 0;
}
