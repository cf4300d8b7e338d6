/* SPDX-License-Identifier: MIT */
/* Channels become squares of pixels. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t b = vt_attr_int(im, "blocksize", 0);
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const bool crd = vt_attr_is(im, "mode", "CRD", "DCR");
    if (!crd && !vt_attr_is(im, "mode", "DCR", "DCR")) return vt_import_fail(im, e, "has a mode that is not read");
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank != 4 || b < 1 || b > 4096 || d.d[1] % (b * b))
        return vt_import_fail(im, e, "has a block of %lld", (long long)b);
    const int64_t c = d.d[1] / (b * b), h = d.d[2], w = d.d[3];
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){6, {d.d[0], crd ? c : b, b, crd ? b : c, h, w}}, &y, e));
    VT_TRY(vt_emit_transpose(im, y, crd ? (const int[]){0, 1, 4, 2, 5, 3} : (const int[]){0, 3, 4, 1, 5, 2}, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &(vt_dims){4, {d.d[0], c, h * b, w * b}}, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(depthtospace, "DepthToSpace", import, .summary = NULL)
