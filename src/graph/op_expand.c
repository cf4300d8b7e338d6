/* SPDX-License-Identifier: MIT */
/* Repeated along sides of length 1 (numpy's broadcasting). */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    vt_dims d = {0};
    bool has;
    int y, x = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_integer_input(im, 1, d.d, VT_RANK, &d.rank, &has, e));
    const vt_dims from = vt_import_value(im, x)->dims;
    const int more = from.rank - d.rank;
    vt_dims to = {.rank = more > 0 ? from.rank : d.rank};
    for (int k = 0; k < to.rank; k++) {
        const int64_t a = k - to.rank + from.rank < 0 ? 1 : from.d[k - to.rank + from.rank];
        const int64_t b = k - to.rank + d.rank < 0 ? 1 : d.d[k - to.rank + d.rank];
        to.d[k] = b == 1 ? a : b;
    }
    VT_TRY(vt_emit_expand(im, x, &to, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(expand, "Expand", import, .summary = NULL)
