/* SPDX-License-Identifier: MIT */
/* One number at every place. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    vt_dims d = {0};
    vt_onnx_tensor t;
    bool has;
    int y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_integer_input(im, 0, d.d, VT_RANK, &d.rank, &has, e));
    VT_TRY(vt_onnx_attribute_tensor(vt_import_file(im), vt_import_node(im), "value", &t, &has, e));
    if (has && t.n != 1) return vt_import_fail(im, e, "has a value of %zu numbers, must be one", t.n);
    if (has)
        VT_TRY(vt_import_constant(im, &t, &y, e));
    else
        VT_TRY(vt_emit_real(im, 0, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){0}, &y, e));
    VT_TRY(vt_emit_expand(im, y, &d, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(constantofshape, "ConstantOfShape", import, .summary = NULL)
