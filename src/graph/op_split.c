/* SPDX-License-Identifier: MIT */
/* Pieces along a side. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    enum { MOST = 1024 };
    int64_t size[MOST];
    int n, axis, x = vt_input(im, 0), pieces = vt_import_node(im)->n_out;
    bool has;
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 0), vt_import_value(im, x)->dims.rank, &axis, e));
    VT_TRY(vt_integers(im, "split", 1, size, MOST, &n, &has, e));
    const int64_t all = vt_import_value(im, x)->dims.d[axis], each = (all + pieces - 1) / pieces;
    if ((has && n != pieces) || pieces > MOST) return vt_import_fail(im, e, "has %d sizes for %d outputs", n, pieces);
    int64_t at = 0;
    for (int k = 0; k < pieces; k++) {
        int y;
        const int64_t length = has ? size[k] : k < pieces - 1 ? each : all - at;
        if (length < 0 || length > all - at)
            return vt_import_fail(im, e, "has pieces longer than its side of %lld", (long long)all);
        VT_TRY(vt_emit_slice(im, x, axis, at, length, 1, &y, e));
        VT_TRY(vt_output(im, k, y, e));
        at += length;
    }
    return at == all ? VT_OK : vt_import_fail(im, e, "splits %lld of %lld", (long long)at, (long long)all);
}

VT_OP_EMITS(split, "Split", import, .summary = NULL)
