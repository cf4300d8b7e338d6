/* SPDX-License-Identifier: MIT */
/* Sides in another order. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t perm[VT_RANK];
    int n, order[VT_RANK], y, x = vt_input(im, 0);
    bool has, used[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_integers(im, "perm", -1, perm, VT_RANK, &n, &has, e));
    const int rank = vt_import_value(im, x)->dims.rank;
    if (has && n != rank) return vt_import_fail(im, e, "orders %d sides of %d", n, rank);
    for (int k = 0; k < rank; k++) {
        order[k] = rank - 1 - k;
        if (has) VT_TRY(vt_axis(im, perm[k], rank, &order[k], e));
        if (used[order[k]]) return vt_import_fail(im, e, "has side %d twice", order[k] + 1);
        used[order[k]] = true;
    }
    VT_TRY(vt_emit_transpose(im, x, order, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(transpose, "Transpose", import, .summary = NULL)
