/* SPDX-License-Identifier: MIT */
/* Resize's predecessor: nearest numbers below, or linear interpolation, from a side's first number on. */
#include <math.h>
#include "graph/op.h"
#include "graph/resize.h"

static vt_status import(vt_import *im, vt_err *e) {
    vt_resize r = {.place = VT_PLACE_ASYMMETRIC, .nearest = VT_ROUND_FLOOR};
    double scale[VT_RANK];
    int x, y, v = -1, n = 0;
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    r.to = d, r.mode = vt_attr_is(im, "mode", "nearest", "nearest") ? VT_RESIZE_NEAREST : VT_RESIZE_LINEAR;
    if (!vt_onnx_floats(vt_import_node(im), "scales", scale, VT_RANK, &n)) {
        VT_TRY(vt_constant_input(im, 1, &v, e));
        n = (int)vt_import_value(im, v)->n;
    }
    if (n != d.rank) return vt_import_fail(im, e, "has %d scales for %d sides", n, d.rank);
    for (int k = 0; k < n; k++) {
        r.scale[k] = v < 0 ? scale[k] : vt_value_real(vt_import_value(im, v), (size_t)k);
        const double out = floor((double)d.d[k] * r.scale[k]);
        if (!(out >= 1 && out <= (double)VT_GRAPH_VALUES)) return vt_import_fail(im, e, "has scale %g", r.scale[k]);
        r.to.d[k] = (int64_t)out;
    }
    VT_TRY(vt_emit_resize(im, x, &r, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(upsample, "Upsample", import, .summary = NULL)
