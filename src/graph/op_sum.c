/* SPDX-License-Identifier: MIT */
/* The sum of values. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int y = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 1, 1000, e));
    for (int k = 1; k < vt_import_node(im)->n_in; k++) VT_TRY(vt_emit_binary(im, "Add", y, vt_input(im, k), &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(sum, "Sum", import, .summary = NULL)
