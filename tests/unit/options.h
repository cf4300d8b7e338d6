/* SPDX-License-Identifier: MIT */
/* Parameters of a plug-in from text, for the tests. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include "base/opt.h"
#include "t.h"

/* Defaults, then "key=value;key=value" (semicolons: triples hold commas). To be freed. */
static inline void *t_params(const vt_opt *opts, size_t size, const char *text) {
    void *p = calloc(1, size + 1);
    vt_err e = {0};
    assert_non_null(p);
    vt_opt_defaults(opts, p);
    while (*text) {
        char item[100];
        size_t n = strcspn(text, ";");
        snprintf(item, sizeof item, "%.*s", (int)n, text);
        char *eq = strchr(item, '=');
        assert_non_null(eq);
        *eq = 0;
        if (vt_opt_set(opts, p, item, eq + 1, "test", &e) != VT_OK) fail_msg("%s", e.text);
        text += n + (text[n] == ';');
    }
    return p;
}

#endif
