/* SPDX-License-Identifier: MIT */
/* The remainder: of b's sign, or of a's with fmod. */
#include "graph/elementwise.h"

static inline real remainder_of(real a, real b) { return a - floor(a / b) * b; }

static vt_status import_mod(vt_import *im, vt_err *e) {
    const char *op = vt_attr_int(im, "fmod", 0) ? "(fmod)" : "Mod";
    int y;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_emit_binary(im, op, vt_input(im, 0), vt_input(im, 1), &y, e));
    return vt_output(im, 0, y, e);
}

VT_BINARY(mod, "Mod", import_mod, VT_KEEP_X | VT_KEEP_Y, remainder_of(a, b), 1, ((w - a) / b))
