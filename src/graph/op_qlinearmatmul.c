/* SPDX-License-Identifier: MIT */
/* A product of quantised matrices, quantised again. */
#include "graph/op.h"
#include "graph/quantise.h"

static vt_status import(vt_import *im, vt_err *e) {
    int a, b, y;
    VT_TRY(vt_input_count(im, 8, 8, e));
    VT_TRY(vt_emit_less_zero(im, 0, 2, -2, &a, e));
    VT_TRY(vt_emit_less_zero(im, 3, 5, -1, &b, e));
    VT_TRY(vt_emit_matmul(im, a, b, false, false, 1, &y, e));
    VT_TRY(vt_emit_requantised(im, y, (const int[]){1, 4}, (const int[]){-2, -1}, 6, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(qlinearmatmul, "QLinearMatMul", import, .summary = "straight-through gradient", .since = 10)
