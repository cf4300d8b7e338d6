/* SPDX-License-Identifier: MIT */
/* x over its l1 or l2 norm along a side. */
#include <float.h>
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t p = vt_attr_int(im, "p", 2);
    int axis, x, y, least;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    if (p != 1 && p != 2) return vt_import_fail(im, e, "has p=%lld, must be 1 or 2", (long long)p);
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", -1), vt_import_value(im, x)->dims.rank, &axis, e));
    reduced[axis] = true;
    VT_TRY(vt_emit_reduce(im, p == 1 ? "ReduceL1" : "ReduceL2", x, reduced, true, &y, e));
    VT_TRY(vt_emit_real(im, FLT_MIN, &least, e)); /* zeros stay zeros */
    VT_TRY(vt_emit_binary(im, "Max", y, least, &y, e));
    VT_TRY(vt_emit_binary(im, "Div", x, y, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(lpnormalization, "LpNormalization", import, .summary = NULL)
