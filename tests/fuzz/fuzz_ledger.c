/* SPDX-License-Identifier: MIT */
/* The text of a ledger: parsed lines must be within the text, and parsing the good part again must agree. */
#include <stdlib.h>
#include <string.h>
#include "eval/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    vt_err e = {0};
    vt_ledger *l, *again;
    size_t good = 0, good2 = 0;
    if (vt_ledger_memory(&l, NULL, 3, &e) != VT_OK || vt_ledger_memory(&again, NULL, 3, &e) != VT_OK) abort();
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    vt_status s = vt_ledger_parse(l, text, size, &good, "ledger", &e);
    if (good > size) abort();
    if (s == VT_OK) { /* dropping the cut last line changes nothing */
        if (vt_ledger_parse(again, text, good, &good2, "ledger", &e) != VT_OK || good2 != good ||
            again->count != l->count)
            abort();
        if (!l->header != !again->header) abort();
    } else if (!e.text[0]) {
        abort();
    }
    free(text);
    vt_ledger_close(l);
    vt_ledger_close(again);
    return 0;
}
