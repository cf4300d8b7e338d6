/* SPDX-License-Identifier: MIT */
/* Every bit of constant integers turned; unsigned ones have as many as their type. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_constant_input(im, 0, &x, e));
    const vt_value v = *vt_import_value(im, x);
    if (!v.integers) return vt_import_fail(im, e, "has an input that is no integer");
    int64_t bits = -1;
    if (v.type == VT_ONNX_UINT8) bits = UINT8_MAX;
    if (v.type == VT_ONNX_UINT16) bits = UINT16_MAX;
    if (v.type == VT_ONNX_UINT32) bits = UINT32_MAX;
    int64_t *p = vt_import_take(im, v.n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) p[i] = ~v.integers[i] & bits;
    VT_TRY(vt_emit_integers(im, &v.dims, p, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(bitwisenot, "BitwiseNot", import, .summary = "of constants", .since = 18)
