/* SPDX-License-Identifier: MIT */
/* x with slices replaced, or reduced with updates, at constant indices. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    char reduction[32] = "none";
    int k, y, x = vt_input(im, 0), u = vt_input(im, 2);
    int32_t *map;
    size_t slice;
    VT_TRY(vt_input_count(im, 3, 3, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    VT_TRY(vt_import_place_map(im, x, k, 0, &map, &slice, e));
    const vt_value i = *vt_import_value(im, k);
    const size_t want = i.n / (size_t)i.dims.d[i.dims.rank - 1] * slice;
    if (u < 0 || vt_import_value(im, u)->n != want)
        return vt_import_fail(im, e, "has %zu updates, must have %zu", u < 0 ? 0 : vt_import_value(im, u)->n, want);
    vt_onnx_text(vt_import_node(im), "reduction", reduction, sizeof reduction);
    VT_TRY(vt_emit_scatter(im, x, u, map, reduction, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(scatternd, "ScatterND", import, .summary = "constant indices", .since = 11)
