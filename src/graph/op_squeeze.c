/* SPDX-License-Identifier: MIT */
/* Without sides of length 1. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t axes[VT_RANK];
    int n, y, x = vt_input(im, 0);
    bool has, gone[VT_RANK] = {false};
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_integers(im, "axes", 1, axes, VT_RANK, &n, &has, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    vt_dims to = {0};
    for (int k = 0; k < n; k++) {
        int a;
        VT_TRY(vt_axis(im, axes[k], d.rank, &a, e));
        if (d.d[a] != 1) return vt_import_fail(im, e, "removes side %d of length %lld", a + 1, (long long)d.d[a]);
        gone[a] = true;
    }
    for (int k = 0; k < d.rank; k++)
        if (has ? !gone[k] : d.d[k] != 1) to.d[to.rank++] = d.d[k];
    VT_TRY(vt_emit_reshape(im, x, &to, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(squeeze, "Squeeze", import, .summary = NULL)
