/* SPDX-License-Identifier: MIT */
/* One file of a finished run is any bytes; the first byte of the input says which. What is not as it was is found, and
 * nothing else happens. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/files.h"
#include "eval/report/checksums.h"
#include "eval/report/summary.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char header[] =
    "{\"format\":\"vitrine ledger "
    "2\",\"vitrine\":\"0\",\"weights\":\"w\",\"model\":{\"arch\":\"vit\",\"image\":4},\"data\":"
    "{\"format\":\"cifar10\",\"split\":\"test\",\"sha256\":\"d\",\"classes\":3,\"count\":4},\"norm\":\"linf\",\"eps\":"
    "\"0.03\",\"eps_value\":0.03,\"seed\":0,\"exhaustive\":false,\"attacks\":[{\"id\":\"fgsm\",\"name\":\"fgsm\","
    "\"stages\":[{\"name\":\"fgsm\",\"id\":\"fgsm\"}]}],\"blas\":\"b\",\"compiler\":\"c\",\"gradient_cost\":3.0}";

static const char *const names[] = {"SHA256SUMS", "run.json", "results.json", "table.csv"};

/* Two images, one broken. */
static void run_of_two(vt_err *e) {
    json_t *json = json_pack("{s:s}", "host", "h");
    vt_header *h;
    float x[48] = {0};
    vt_ledger *l;
    vt_summary s;
    vt_file f;
    vt_record r[4] = {{.image = 0, .status = VT_RECORD_CORRECT, .pred64 = -1},
                      {.image = 1, .status = VT_RECORD_CORRECT, .pred64 = -1},
                      {.image = 0, .entry = 1, .status = VT_RECORD_ROBUST, .gradients = 1, .forwards = 1},
                      {.image = 1, .entry = 1, .status = VT_RECORD_BROKEN, .pred = 1, .pred64 = 1, .linf = 0.03}};
    for (int i = 0; i < 4; i++) r[i].target = -1;
    if (vt_header_read(&h, json_loads(header, 0, NULL), "run", e) != VT_OK ||
        vt_ledger_create(&l, scratch_folder, h, 48, e) != VT_OK)
        abort();
    for (int i = 0; i < 4; i++)
        if (vt_ledger_append(l, &r[i], i == 3 ? x : NULL, e) != VT_OK) abort();
    if (vt_ledger_finish(l, e) != VT_OK || vt_summary_make(&s, l, 0, e) != VT_OK ||
        vt_reports_write(&s, scratch_folder, NULL, e) != VT_OK ||
        vt_file_begin(&f, scratch_folder, "run.json", e) != VT_OK || vt_checksums_json(json, f.stream, e) != VT_OK ||
        vt_file_commit(&f, e) != VT_OK || vt_checksums_write(scratch_folder, e) != VT_OK)
        abort();
    vt_summary_free(&s);
    vt_ledger_close(l);
    vt_header_free(h), json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char *path[4];
    static char *was[4];
    static size_t size[4];
    vt_err e = {0};
    vt_findings found = {0};
    vt_ledger *l;
    if (!path[0]) {
        for (int i = 0; i < 4; i++) path[i] = scratch(names[i]);
        scratch("ledger.jsonl"), scratch("adv.bin"), scratch("table.md"), scratch("table.tex");
        run_of_two(&e);
        for (int i = 0; i < 4; i++)
            if (vt_file_read(path[i], (size_t)1 << 28, &was[i], &size[i], &e) != VT_OK) abort();
    }
    if (!n) return 0;
    int k = bytes[0] % 4;
    scratch_write(path[k], bytes + 1, n - 1);
    if (vt_ledger_open(&l, scratch_folder, &e) != VT_OK) abort();
    vt_status s = vt_checksums_check(l, &found, &e);
    if (s != VT_OK && !e.text[0]) abort();
    bool same = n - 1 == size[k] && !memcmp(bytes + 1, was[k], size[k]);
    if (s == VT_OK && same != !found.n && k != 1) abort(); /* a run.json may be another that is whole */
    vt_ledger_close(l);
    vt_findings_free(&found);
    scratch_write(path[k], was[k], size[k]);
    return 0;
}
