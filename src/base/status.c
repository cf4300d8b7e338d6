/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

const char *vt_status_name(vt_status s) {
    static const char *const names[] = {
#define VT_STATUS_NAME(id, text) text,
        VT_STATUS_LIST(VT_STATUS_NAME)
#undef VT_STATUS_NAME
    };
    return (unsigned)s < sizeof names / sizeof *names ? names[s] : "unknown status";
}

__attribute__((weak)) bool vt_bare_arguments(void) { return false; }

const char *vt_option_argument(const char *option) {
    return vt_bare_arguments() && !strncmp(option, VT_OPTION, 2) ? option + 2 : option;
}

/* Writes fmt with each "@name" as an option ("name" after two dashes), or as "name" if vt_bare_arguments and not in a
 * command after "vitrine "; cut to fit. */
static void spell_arguments(char *out, size_t size, const char *fmt) {
    const bool bare = vt_bare_arguments();
    bool command = false; /* after "vitrine ", up to a mark */
    char *const end = out + size - 3;
    for (const char *at = fmt; *at && out < end; at++) {
        command = (command && !strchr("`),;", *at)) || !strncmp(at, "vitrine ", strlen("vitrine "));
        bool starts = at == fmt || !isalnum((unsigned char)at[-1]);
        if (*at != '@' || !starts || (at[1] != '%' && !isalpha((unsigned char)at[1])))
            *out++ = *at;
        else if (command || !bare)
            *out++ = '-', *out++ = '-';
    }
    *out = 0;
}

vt_status vt_fail(vt_err *e, vt_status s, const char *fmt, ...) {
    char spelt[sizeof e->text];
    if (!e) return s;
    e->code = s;
    if (strchr(fmt, '@')) spell_arguments(spelt, sizeof spelt, fmt), fmt = spelt;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    vt_text_plain(e->text, strlen(e->text), "", NULL); /* names from files and users stay on one line */
    return s;
}

int vt_exit_code(vt_status s) { return s == VT_OK ? 0 : s == VT_E_USAGE || s == VT_E_UNKNOWN ? 2 : 1; }
