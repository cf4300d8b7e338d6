/* SPDX-License-Identifier: MIT */
/* Status codes and error sentences. Library code never prints or exits: it returns a vt_status and, where a
 * vt_err is at hand, one sentence that names file, value and limit. Only src/cli prints it. */
#pragma once

#include <stdbool.h>

#define VT_STATUS_LIST(X)                                                                                              \
    X(OK, "ok")                                                                                                        \
    X(STOP, "image is broken, attack may stop")                                                                        \
    X(INTERRUPTED, "interrupted")                                                                                      \
    X(E_USAGE, "wrong usage")                                                                                          \
    X(E_IO, "input/output error")                                                                                      \
    X(E_FORMAT, "malformed file")                                                                                      \
    X(E_SHAPE, "wrong shape")                                                                                          \
    X(E_RANGE, "value out of range")                                                                                   \
    X(E_MEMORY, "out of memory")                                                                                       \
    X(E_FORBIDDEN, "forbidden")                                                                                        \
    X(E_NUMERIC, "numerical failure")                                                                                  \
    X(E_UNKNOWN, "unknown name")                                                                                       \
    X(E_MODEL, "the model failed")

typedef enum vt_status {
#define VT_STATUS_ENUM(id, text) VT_##id,
    VT_STATUS_LIST(VT_STATUS_ENUM)
#undef VT_STATUS_ENUM
} vt_status;

/* The first failure's sentence, without trailing newline. Zero-initialise. */
typedef struct vt_err {
    vt_status code;
    char text[2000]; /* room for a command line to paste */
} vt_err;

/* Returns the status in words, "malformed file". */
const char *vt_status_name(vt_status s);

/* How sentences spell the arguments that they name. A format of vt_fail says "@eps": the command's user reads it with
 * two dashes, a caller of the library, where vt_bare_arguments is true, without (but for what follows "vitrine ": a
 * command line stays one). Weak: false, unless the public library is linked. */
bool vt_bare_arguments(void); /* for status.c alone: another user would link the library's */
/* Returns a literal name as sentences spell it, --eps or "eps", where it is not part of a format: vt_argument("eps").
 */
#define vt_argument(name) vt_option_argument(VT_OPTION name)
const char *vt_option_argument(const char *option); /* of one that begins with VT_OPTION; any other text as it is */
/* The dashes, in a text that is a command line for the library's callers too: VT_OPTION "eps 8/255". */
#define VT_OPTION                                                                                                      \
    "-"                                                                                                                \
    "-"

/* Sets *e (may be NULL) to s and the sentence, on one line, "@eps" in fmt spelt as above; returns s, so that a failure
 * is one line at its site. */
vt_status vt_fail(vt_err *e, vt_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Returns the exit code of a status by the house rule: 0 ok, 2 wrong usage, 1 everything else. */
int vt_exit_code(vt_status s);

#define VT_TRY(call)                                                                                                   \
    do {                                                                                                               \
        vt_status vt_try_status_ = (call);                                                                             \
        if (vt_try_status_ != VT_OK) return vt_try_status_;                                                            \
    } while (0)
