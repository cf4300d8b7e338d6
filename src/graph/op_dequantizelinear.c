/* SPDX-License-Identifier: MIT */
/* (x - zero point) times a scale. */
#include "graph/op.h"
#include "graph/quantise.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, y, axis = 0, scale, zero = vt_input(im, 2);
    VT_TRY(vt_input_count(im, 2, 3, e));
    VT_TRY(vt_emit_less_zero(im, 0, -1, 0, &x, e));
    const int64_t block = vt_attr_int(im, "block_size", 0);
    const vt_dims d = vt_import_value(im, x)->dims;
    VT_TRY(vt_constant_input(im, 1, &scale, e));
    if (vt_import_value(im, scale)->n != 1) VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 1), d.rank, &axis, e));
    VT_TRY(vt_quantise_input(im, 1, &d, axis, block, &scale, e));
    if (zero >= 0) {
        VT_TRY(vt_quantise_input(im, 2, &d, axis, block, &zero, e));
        VT_TRY(vt_emit_binary(im, "Sub", x, zero, &x, e));
    }
    VT_TRY(vt_emit_binary(im, "Mul", x, scale, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(dequantizelinear, "DequantizeLinear", import, .summary = "8, 16 and 32 bits", .since = 10)
