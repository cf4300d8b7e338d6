/* SPDX-License-Identifier: MIT */
/* Each channel's mean. */
#include "graph/reduce.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, y;
    bool reduced[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    if (rank < 3) return vt_import_fail(im, e, "has an input of %d sides", rank);
    for (int k = 2; k < rank; k++) reduced[k] = true;
    VT_TRY(vt_emit_reduce(im, "ReduceMean", x, reduced, true, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(globalaveragepool, "GlobalAveragePool", import, .summary = NULL)
