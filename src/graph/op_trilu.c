/* SPDX-License-Identifier: MIT */
/* The upper or lower triangle of matrices, else 0. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const bool upper = vt_attr_int(im, "upper", 1) != 0;
    int64_t shift = 0;
    int count, y, x = vt_input(im, 0);
    bool has;
    VT_TRY(vt_input_count(im, 1, 2, e));
    VT_TRY(vt_integer_input(im, 1, &shift, 1, &count, &has, e));
    const vt_value v = *vt_import_value(im, x);
    if (v.dims.rank < 2) return vt_import_fail(im, e, "has an input of %d sides", v.dims.rank);
    int32_t *map = vt_import_take(im, v.n + 1, sizeof *map);
    if (!map) return vt_import_memory(im, e);
    const int64_t cols = v.dims.d[v.dims.rank - 1], rows = v.dims.d[v.dims.rank - 2];
    shift = shift < -rows ? -rows : shift > cols ? cols : shift;
    for (size_t i = 0; i < v.n; i++) {
        const int64_t off = (int64_t)i % cols - (int64_t)i / cols % rows - shift;
        map[i] = (upper ? off >= 0 : off <= 0) ? (int32_t)i : -1;
    }
    VT_TRY(vt_emit_map(im, x, &v.dims, map, 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(trilu, "Trilu", import, .summary = NULL, .since = 14)
