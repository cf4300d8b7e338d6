/* SPDX-License-Identifier: MIT */
/* Of each place of constant indices, the number of x there but at that index along the axis. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int axis, k, y, x = vt_input(im, 0);
    int32_t *map;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &k, e));
    const vt_value v = *vt_import_value(im, k);
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 0), vt_import_value(im, x)->dims.rank, &axis, e));
    VT_TRY(vt_import_element_map(im, x, k, axis, &map, e));
    VT_TRY(vt_emit_map(im, x, &v.dims, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(gatherelements, "GatherElements", import, .summary = "constant indices", .since = 11)
