/* SPDX-License-Identifier: MIT */
/* A matrix: sides before the axis, and the others. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t axis = vt_attr_int(im, "axis", 1);
    int y, x = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 1, 1, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (axis < 0) axis += d.rank;
    if (axis < 0 || axis > d.rank) return vt_import_fail(im, e, "has axis %lld of %d sides", (long long)axis, d.rank);
    vt_dims to = {2, {1, 1}};
    for (int k = 0; k < d.rank; k++) to.d[k >= axis] *= d.d[k];
    VT_TRY(vt_emit_reshape(im, x, &to, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(flatten, "Flatten", import, .summary = NULL)
