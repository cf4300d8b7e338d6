/* SPDX-License-Identifier: MIT */
/* With further sides of length 1. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t axes[VT_RANK];
    int n, y, x = vt_input(im, 0);
    bool has, made[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_integers(im, "axes", 1, axes, VT_RANK, &n, &has, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    vt_dims to = {.rank = d.rank + n};
    if (to.rank > VT_RANK)
        return vt_import_fail(im, e, "has a result of %d sides, must be at most %d", to.rank, VT_RANK);
    for (int k = 0; k < n; k++) {
        int a;
        VT_TRY(vt_axis(im, axes[k], to.rank, &a, e));
        if (made[a]) return vt_import_fail(im, e, "makes side %d twice", a + 1);
        made[a] = true;
    }
    for (int k = 0, from = 0; k < to.rank; k++) to.d[k] = made[k] ? 1 : d.d[from++];
    VT_TRY(vt_emit_reshape(im, x, &to, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(unsqueeze, "Unsqueeze", import, .summary = NULL)
