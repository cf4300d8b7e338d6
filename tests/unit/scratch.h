/* SPDX-License-Identifier: MIT */
/* A folder of this program's own, for the files that its tests write: made before them, removed after them. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static char tmp[200];

/* tmp/`format`; one of eight buffers in turn. */
__attribute__((format(printf, 1, 2))) static inline const char *at(const char *format, ...) {
    static char ring[8][400];
    static int k;
    char *p = ring[k++ % 8];
    int n = snprintf(p, 400, "%s/", tmp);
    va_list ap;
    va_start(ap, format);
    vsnprintf(p + n, 400 - (size_t)n, format, ap);
    va_end(ap);
    return p;
}

static inline int make_tmp(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(tmp, sizeof tmp, "%s/vitrine-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(tmp) ? 0 : -1;
}

static inline int remove_tmp(void **state) {
    (void)state;
    char cmd[300];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", tmp);
    return system(cmd);
}

#endif
