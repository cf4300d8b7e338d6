/* SPDX-License-Identifier: MIT */
/* Slices of a side, by constant indices. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int axis, y, x = vt_input(im, 0), k = vt_input(im, 1);
    VT_TRY(vt_input_count(im, 2, 2, e));
    const vt_value i = *vt_import_value(im, k);
    const vt_dims d = vt_import_value(im, x)->dims;
    if (!i.integers) return vt_import_fail(im, e, "has indices that are no constant integers");
    VT_TRY(vt_axis(im, vt_attr_int(im, "axis", 0), d.rank, &axis, e));
    vt_dims flat = d, to = {.rank = d.rank - 1 + i.dims.rank};
    if (to.rank > VT_RANK) return vt_import_fail(im, e, "has a result of %d sides", to.rank);
    for (int s = 0; s < to.rank; s++)
        to.d[s] = s < axis ? d.d[s] : s < axis + i.dims.rank ? i.dims.d[s - axis] : d.d[s - i.dims.rank + 1];
    flat.d[axis] = (int64_t)i.n;
    int64_t step = 1, *table[VT_RANK] = {0}, at = 0, *block;
    size_t all = i.n;
    for (int s = 0; s < d.rank; s++) all += (size_t)d.d[s];
    if (!(block = vt_import_take(im, all + 1, sizeof *block))) return vt_import_memory(im, e);
    for (int s = d.rank - 1; s >= 0; s--) {
        table[s] = block + at;
        for (int64_t p = 0; p < flat.d[s]; p++) {
            int64_t from = s == axis ? i.integers[p] : p;
            if (from < -d.d[s] || from >= d.d[s])
                return vt_import_fail(im, e, "has index %lld of a side of %lld", (long long)from, (long long)d.d[s]);
            block[at++] = (from < 0 ? from + d.d[s] : from) * step;
        }
        step *= d.d[s];
    }
    VT_TRY(vt_emit_move(im, x, &flat, table, 0, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &to, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(gather, "Gather", import, .summary = NULL)
