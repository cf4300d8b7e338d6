/* SPDX-License-Identifier: MIT */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/text.h"

const char *vt_status_name(vt_status s) {
    static const char *const names[] = {
#define VT_STATUS_NAME(id, text) text,
        VT_STATUS_LIST(VT_STATUS_NAME)
#undef VT_STATUS_NAME
    };
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "unknown status";
}

vt_status vt_fail(vt_err *e, vt_status s, const char *fmt, ...) {
    if (!e) return s;
    e->code = s;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    vt_text_plain(e->text, strlen(e->text), "", NULL); /* names from files and users stay on one line */
    return s;
}

int vt_exit_code(vt_status s) { return s == VT_OK ? 0 : s == VT_E_USAGE || s == VT_E_UNKNOWN ? 2 : 1; }
