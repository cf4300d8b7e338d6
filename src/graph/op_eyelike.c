/* SPDX-License-Identifier: MIT */
/* Ones on a diagonal of a matrix as large as the input, else zeros. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int y, x = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 1, 1, e));
    const vt_value v = *vt_import_value(im, x);
    const int64_t type = vt_attr_int(im, "dtype", v.integer ? VT_ONNX_INT64 : VT_ONNX_FLOAT),
                  k = vt_attr_int(im, "k", 0);
    if (v.dims.rank != 2) return vt_import_fail(im, e, "has an input of %d sides, must be 2", v.dims.rank);
    double *p = vt_import_take(im, v.n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (int64_t r = 0; r < v.dims.d[0]; r++)
        if (k > -v.dims.d[0] && k < v.dims.d[1] && r + k >= 0 && r + k < v.dims.d[1]) p[r * v.dims.d[1] + r + k] = 1;
    VT_TRY(vt_emit_reals(im, &v.dims, p, &y, e));
    VT_TRY(vt_emit_cast(im, y, (int)(type & 63), &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(eyelike, "EyeLike", import, .summary = NULL, .since = 9)
