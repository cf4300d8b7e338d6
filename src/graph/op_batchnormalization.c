/* SPDX-License-Identifier: MIT */
/* Each channel by its running mean and variance, which are constants. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, y, c[4], eps;
    VT_TRY(vt_input_count(im, 5, 5, e));
    if (vt_attr_int(im, "training_mode", 0))
        return vt_import_fail(im, e, "is in training mode: its output would follow the batch");
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank < 2) return vt_import_fail(im, e, "has an input of %d sides", d.rank);
    for (int k = 0; k < 4; k++) {
        VT_TRY(vt_real_input(im, 1 + k, &c[k], e));
        if ((int64_t)vt_import_value(im, c[k])->n != d.d[1])
            return vt_import_fail(im, e, "has %zu numbers as input %d, must be %lld", vt_import_value(im, c[k])->n,
                                  k + 2, (long long)d.d[1]);
    }
    /* y = x f + (shift - mean f), f = scale / sqrt(variance + eps) */
    int f, t;
    VT_TRY(vt_emit_real(im, vt_attr_real(im, "epsilon", 1e-5), &eps, e));
    VT_TRY(vt_emit_binary(im, "Add", c[3], eps, &f, e));
    VT_TRY(vt_emit_unary(im, "Sqrt", f, NULL, &f, e));
    VT_TRY(vt_emit_binary(im, "Div", c[0], f, &f, e));
    VT_TRY(vt_emit_binary(im, "Mul", c[2], f, &t, e));
    VT_TRY(vt_emit_binary(im, "Sub", c[1], t, &t, e));
    VT_TRY(vt_emit_beside_channels(im, f, d.rank, &f, e));
    VT_TRY(vt_emit_beside_channels(im, t, d.rank, &t, e));
    VT_TRY(vt_emit_binary(im, "Mul", x, f, &y, e));
    VT_TRY(vt_emit_binary(im, "Add", y, t, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(batchnormalization, "BatchNormalization", import, .summary = NULL)
