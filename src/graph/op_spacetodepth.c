/* SPDX-License-Identifier: MIT */
/* Squares of pixels become channels. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t b = vt_attr_int(im, "blocksize", 0);
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank != 4 || b < 1 || d.d[2] % b || d.d[3] % b)
        return vt_import_fail(im, e, "has a block of %lld", (long long)b);
    const int64_t h = d.d[2] / b, w = d.d[3] / b;
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){6, {d.d[0], d.d[1], h, b, w, b}}, &y, e));
    VT_TRY(vt_emit_transpose(im, y, (const int[]){0, 3, 5, 1, 2, 4}, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){4, {d.d[0], d.d[1] * b * b, h, w}}, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(spacetodepth, "SpaceToDepth", import, .summary = NULL)
