/* SPDX-License-Identifier: MIT */
/* A product of quantised matrices, less their zero points. */
#include "graph/op.h"
#include "graph/quantise.h"

static vt_status import(vt_import *im, vt_err *e) {
    int a, b, y;
    VT_TRY(vt_input_count(im, 2, 4, e));
    VT_TRY(vt_emit_less_zero(im, 0, 2, -2, &a, e));
    VT_TRY(vt_emit_less_zero(im, 1, 3, -1, &b, e));
    VT_TRY(vt_emit_matmul(im, a, b, false, false, 1, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(matmulinteger, "MatMulInteger", import, .summary = "constant zero points", .since = 10)
