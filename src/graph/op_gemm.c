/* SPDX-License-Identifier: MIT */
/* alpha op(A) op(B) + beta C. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const double beta = vt_attr_real(im, "beta", 1);
    int a, b, c = vt_input(im, 2), y, scale;
    VT_TRY(vt_input_count(im, 2, 3, e));
    VT_TRY(vt_real_input(im, 0, &a, e));
    VT_TRY(vt_real_input(im, 1, &b, e));
    if (vt_import_value(im, a)->dims.rank != 2 || vt_import_value(im, b)->dims.rank != 2)
        return vt_import_fail(im, e, "has an input that is no matrix");
    VT_TRY(vt_emit_matmul(im, a, b, vt_attr_int(im, "transA", 0) != 0, vt_attr_int(im, "transB", 0) != 0,
                          vt_attr_real(im, "alpha", 1), &y, e));
    if (c >= 0 && beta != 1) {
        VT_TRY(vt_emit_real(im, beta, &scale, e));
        VT_TRY(vt_emit_binary(im, "Mul", c, scale, &c, e));
    }
    if (c >= 0) VT_TRY(vt_emit_binary(im, "Add", y, c, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(gemm, "Gemm", import, .summary = NULL)
