/* SPDX-License-Identifier: MIT */
/* Headers of runs (eval/header.h) for tests that write ledgers. */
#ifndef VT_TESTS_RUN_HEADER_H
#define VT_TESTS_RUN_HEADER_H

#include "eval/evaluate.h"
#include "t.h"

/* Of a document, whose reference it takes. */
__attribute__((unused)) static vt_header *t_header(json_t *document) {
    vt_header *h;
    vt_err e = {0};
    if (vt_header_read(&h, document, "the test", &e) != VT_OK) fail_msg("%s", e.text);
    return h;
}

__attribute__((unused)) static vt_header *t_header_of(const vt_eval_options *v) {
    vt_header *h;
    vt_err e = {0};
    if (vt_eval_header(&h, v, &e) != VT_OK) fail_msg("%s", e.text);
    return h;
}

#endif
