/* SPDX-License-Identifier: MIT */
/* The same numbers with other sides. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    vt_dims d = {0};
    bool has;
    int open = -1, x = vt_input(im, 0), y;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_integer_input(im, 1, d.d, VT_RANK, &d.rank, &has, e));
    const vt_value v = *vt_import_value(im, x);
    size_t known = 1;
    for (int k = 0; k < d.rank; k++) {
        if (d.d[k] == 0 && !vt_attr_int(im, "allowzero", 0)) d.d[k] = k < v.dims.rank ? v.dims.d[k] : -2;
        if (d.d[k] < -1 || (d.d[k] == -1 && open >= 0))
            return vt_import_fail(im, e, "has a side %lld at %d, or two that are open", (long long)d.d[k], k + 1);
        if (d.d[k] == -1)
            open = k;
        else if ((size_t)d.d[k] > VT_GRAPH_VALUES || (known *= (size_t)d.d[k]) > VT_GRAPH_VALUES)
            return vt_import_fail(im, e, "has a result of more than 2^28 numbers");
    }
    if (open >= 0 && (!known || v.n % known))
        return vt_import_fail(im, e, "makes sides of %zu of %zu numbers", known, v.n);
    if (open >= 0) d.d[open] = (int64_t)(v.n / known);
    VT_TRY(vt_emit_reshape(im, x, &d, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(reshape, "Reshape", import, .summary = NULL)
