/* SPDX-License-Identifier: MIT */
/* A convolution of quantised numbers, its result quantised again. */
#include "graph/op.h"
#include "graph/quantise.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, weights, y;
    VT_TRY(vt_input_count(im, 8, 9, e));
    VT_TRY(vt_emit_less_zero(im, 0, 2, 0, &x, e));
    VT_TRY(vt_emit_less_zero(im, 3, 5, 0, &weights, e));
    VT_TRY(vt_emit_conv(im, x, weights, vt_input(im, 8), &y, e));
    VT_TRY(vt_emit_requantised(im, y, (const int[]){1, 4}, (const int[]){0, 1}, 6, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(qlinearconv, "QLinearConv", import, .summary = "constant weights; straight-through gradient", .since = 10)
