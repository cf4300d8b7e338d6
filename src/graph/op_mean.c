/* SPDX-License-Identifier: MIT */
/* The mean of values. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int y = vt_input(im, 0), n, count = vt_import_node(im)->n_in;
    VT_TRY(vt_input_count(im, 1, 1000, e));
    for (int k = 1; k < count; k++) VT_TRY(vt_emit_binary(im, "Add", y, vt_input(im, k), &y, e));
    VT_TRY(vt_emit_real(im, count, &n, e));
    VT_TRY(vt_emit_binary(im, "Div", y, n, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(mean, "Mean", import, .summary = NULL)
