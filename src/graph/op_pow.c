/* SPDX-License-Identifier: MIT */
/* a^b, of a's type. */
#include "graph/elementwise.h"

static inline real power(real a, real b) { return b == 1 ? a : b == 2 ? a * a : b == 3 ? a * a * a : pow(a, b); }

/* Imports a Pow, whose result is of the base's kind. */
static vt_status import_pow(vt_import *im, vt_err *e) {
    const int in[2] = {vt_input(im, 0), vt_input(im, 1)};
    int y;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_emit_broadcast(im, vt_import_op(im), in, 2, vt_import_value(im, in[0])->integer, &y, e));
    return vt_output(im, 0, y, e);
}

VT_BINARY(pow, "Pow", import_pow, VT_KEEP_X | VT_KEEP_Y, power(a, b), (b == 0 ? 0 : b * power(a, b - 1)),
          (a > 0 ? w * log(a) : 0))
