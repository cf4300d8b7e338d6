/* SPDX-License-Identifier: MIT */
/* What tables read: published numbers, manifests and tables that are checked. Any bytes are refused with one sentence
 * or accepted; the checks of accepted numbers name cells that are there. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/json.h"
#include "research/table/consistency.h"
#include "research/table/manifest.h"
#include "research/table/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static bool refused(vt_status s, const vt_err *e) {
    if (s == VT_OK) return false;
    if (e->code != s || !e->text[0] || strchr(e->text, '\n')) abort();
    return true;
}

static void as_numbers(const char *text, size_t n) {
    vt_published *p;
    vt_oddities f;
    vt_err e = {0};
    if (refused(vt_published_parse(&p, text, n, "fuzz", &e), &e)) return;
    /* numbers that can be read can be checked; as claims of themselves they may name none */
    if (refused(vt_published_check(&f, p, p, &e), &e) && vt_published_check(&f, p, NULL, &e) != VT_OK) abort();
    for (int i = 0; i < f.n; i++)
        for (int k = 0; k < f.items[i].n; k++)
            if (f.items[i].cells[k] < 0 || f.items[i].cells[k] >= p->n || !f.items[i].text[0]) abort();
    FILE *sink = fopen("/dev/null", "w");
    if (sink) refused(vt_published_show(sink, p, &f, NULL, &e), &e);
    if (sink) fclose(sink);
    vt_oddities_free(&f);
    vt_published_close(p);
}

static void as_manifest(const char *text, size_t n) {
    vt_manifest *m;
    vt_err e = {0};
    if (refused(vt_manifest_parse(&m, text, n, "fuzz", &e), &e)) return;
    for (int r = 0; r < m->n_rows; r++) {
        if (m->rows[r].n_seeds < 1 || !m->rows[r].recipe == !m->rows[r].checkpoint) abort();
        for (int d = 0; d < m->n_data; d++)
            for (int a = 0; a < m->n_attacks; a++) vt_manifest_has(m, r, d, a);
    }
    vt_manifest_close(m);
}

static void as_table(const char *text, size_t n) {
    json_error_t why;
    vt_err e = {0};
    json_t *o = vt_json(text, n, &why);
    FILE *sink = fopen("/dev/null", "w");
    if (o && sink) refused(vt_table_check_json(o, "fuzz", sink, &e), &e);
    if (sink) fclose(sink);
    json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    if (n > 1 << 13) return 0; /* larger ones only make fuzzing slow */
    char *text = malloc(n + 1);
    if (!text) return 0;
    memcpy(text, bytes, n);
    text[n] = 0;
    as_numbers(text, n);
    as_manifest(text, n);
    as_table(text, n);
    free(text);
    return 0;
}
