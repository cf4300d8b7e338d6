/* SPDX-License-Identifier: MIT */
/* A convolution of quantised numbers, less their zero points. */
#include "graph/op.h"
#include "graph/quantise.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, weights, y;
    VT_TRY(vt_input_count(im, 2, 4, e));
    VT_TRY(vt_emit_less_zero(im, 0, 2, 0, &x, e));
    VT_TRY(vt_emit_less_zero(im, 1, 3, 0, &weights, e));
    VT_TRY(vt_emit_conv(im, x, weights, -1, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(convinteger, "ConvInteger", import, .summary = "constant weights", .since = 10)
