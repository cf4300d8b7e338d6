/* SPDX-License-Identifier: MIT */
#include "core/status.h"

#include <ctype.h>
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

__attribute__((weak)) bool vt_bare_arguments(void) { return false; }

const char *vt_argument(const char *name) { return vt_bare_arguments() && !strncmp(name, "--", 2) ? name + 2 : name; }

/* The format without the dashes of its arguments, out of room for all of it. */
static void strip_option_dashes(char *out, const char *fmt) {
    bool command = false; /* behind "vitrine", up to a mark */
    for (const char *at = fmt; *at; at++) {
        command = (command && !strchr("`),;", *at)) || !strncmp(at, "vitrine ", strlen("vitrine "));
        if (!command && at[0] == '-' && at[1] == '-' && (at[2] == '%' || isalpha((unsigned char)at[2]))) at += 2;
        *out++ = *at;
    }
    *out = 0;
}

vt_status vt_fail(vt_err *e, vt_status s, const char *fmt, ...) {
    char plain[1000];
    if (!e) return s;
    e->code = s;
    if (vt_bare_arguments() && strlen(fmt) < sizeof plain) strip_option_dashes(plain, fmt), fmt = plain;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    vt_text_plain(e->text, strlen(e->text), "", NULL); /* names from files and users stay on one line */
    return s;
}

int vt_exit_code(vt_status s) { return s == VT_OK ? 0 : s == VT_E_USAGE || s == VT_E_UNKNOWN ? 2 : 1; }
