/* SPDX-License-Identifier: MIT */
/* Cast to the data type of the second input. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int y, like = vt_input(im, 1);
    VT_TRY(vt_input_count(im, 2, 2, e));
    const vt_value *v = vt_import_value(im, like);
    const int type = v->type ? v->type : v->integer ? VT_ONNX_INT64 : VT_ONNX_FLOAT;
    VT_TRY(vt_emit_cast(im, vt_input(im, 0), type, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(castlike, "CastLike", import, .summary = "integers of constants", .since = 15)
