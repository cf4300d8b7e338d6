/* SPDX-License-Identifier: MIT */
/* Quantised to 8 bits by a scale and a zero point that take in x's least and largest number and 0. */
#include "graph/quantise.h"
#include "graph/reduce.h"

/* Sets *y to the least or largest number of x [n] and 0, by `reduce` and `op`. */
static vt_status limit_of(vt_import *im, const char *reduce, const char *op, int x, int *y, vt_err *e) {
    int zero;
    VT_TRY(vt_emit_reduce(im, reduce, x, (const bool[VT_RANK]){true}, false, y, e));
    VT_TRY(vt_emit_real(im, 0, &zero, e));
    return vt_emit_binary(im, op, *y, zero, y, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    int x, y, least, most, scale, zero, levels, nothing, flat;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){1, {(int64_t)vt_import_value(im, x)->n}}, &flat, e));
    VT_TRY(limit_of(im, "ReduceMin", "Min", flat, &least, e));
    VT_TRY(limit_of(im, "ReduceMax", "Max", flat, &most, e));
    VT_TRY(vt_emit_real(im, 255, &levels, e));
    VT_TRY(vt_emit_real(im, 0, &nothing, e));
    VT_TRY(vt_emit_binary(im, "Sub", most, least, &scale, e));
    VT_TRY(vt_emit_binary(im, "Div", scale, levels, &scale, e));
    VT_TRY(vt_emit_binary(im, "Sub", nothing, least, &zero, e));
    VT_TRY(vt_emit_binary(im, "Div", zero, scale, &zero, e));
    VT_TRY(vt_emit_quantised(im, zero, -1, VT_ONNX_UINT8, &zero, e));
    VT_TRY(vt_emit_binary(im, "Div", x, scale, &y, e));
    VT_TRY(vt_emit_quantised(im, y, zero, VT_ONNX_UINT8, &y, e));
    VT_TRY(vt_output(im, 0, y, e));
    VT_TRY(vt_output(im, 1, scale, e));
    return vt_output(im, 2, zero, e);
}

VT_OP_EMITS(dynamicquantizelinear, "DynamicQuantizeLinear", import, .summary = "straight-through gradient", .since = 11)
