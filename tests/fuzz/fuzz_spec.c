/* SPDX-License-Identifier: MIT */
/* Attack specs, numbers and option lists: whatever parses must print a canonical text that parses to the same text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "attacks/attack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Behind the norms comes the patch threat. */
static vt_status parse(vt_attack *a, const char *text, int norm, vt_err *e) {
    return norm == VT_NORM_COUNT ? vt_attack_parse(a, text, VT_NORM_PATCH, e)
                                 : vt_attack_parse(a, text, (vt_norm)norm, e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 4096) return 0;
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    double v;
    long long i;
    if (vt_parse_real(text, &v) && !(v - v == 0)) abort(); /* what parses is finite */
    vt_parse_int(text, &i);
    vt_patch patch;
    vt_err why = {0};
    if (vt_patch_parse(&patch, text, &why) == VT_OK && (patch.size < 1 || patch.count < 1)) abort();
    for (int norm = 0; norm <= VT_NORM_COUNT; norm++) {
        vt_err e = {0};
        vt_attack a, b;
        if (parse(&a, text, norm, &e) != VT_OK) {
            if (!e.text[0] || strchr(e.text, '\n')) abort(); /* one sentence */
            continue;
        }
        if (parse(&b, a.id, norm, &e) != VT_OK || strcmp(a.id, b.id) != 0) abort();
        vt_attack_free(&b);
        vt_attack_free(&a);
    }
    free(text);
    return 0;
}
