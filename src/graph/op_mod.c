/* SPDX-License-Identifier: MIT */
/* The remainder: of b's sign, or of a's with fmod. */
#include "graph/elementwise.h"

static inline real remainder_of(real a, real b) { return a - floor(a / b) * b; }

static vt_status import_mod(vt_import *im, vt_err *e) {
    if (vt_attr_int(im, "fmod", 0)) return vt_import_fail(im, e, "has fmod=1, which is not read");
    return vt_import_binary(im, e);
}

VT_BINARY(mod, "Mod", import_mod, VT_KEEP_X | VT_KEEP_Y, remainder_of(a, b), 1, ((w - a) / b))
