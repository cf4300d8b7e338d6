/* SPDX-License-Identifier: MIT */
/* x repeated as a whole. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int64_t times[VT_RANK];
    int n, x = vt_input(im, 0);
    bool has;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_integer_input(im, 1, times, VT_RANK, &n, &has, e));
    if (n != vt_import_value(im, x)->dims.rank) return vt_import_fail(im, e, "has %d repeats", n);
    for (int k = 0; k < n; k++) {
        int copies[256];
        if (times[k] < 1 || times[k] > 256) return vt_import_fail(im, e, "repeats %lld times", (long long)times[k]);
        for (int64_t i = 0; i < times[k]; i++) copies[i] = x;
        VT_TRY(vt_emit_concat(im, copies, (int)times[k], k, &x, e));
    }
    return vt_output(im, 0, x, e);
}

VT_OP_EMITS(tile, "Tile", import, .summary = NULL)
