/* SPDX-License-Identifier: MIT */
/* Indices of a constant's numbers that are not 0, a row for each side. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    int x, y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_constant_input(im, 0, &x, e));
    const vt_value v = *vt_import_value(im, x);
    size_t n = 0, at = 0;
    for (size_t i = 0; i < v.n; i++) n += vt_value_real(&v, i) != 0;
    int64_t *p = vt_import_take(im, n * (size_t)v.dims.rank + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) {
        size_t rest = i;
        if (vt_value_real(&v, i) == 0) continue;
        for (int d = v.dims.rank - 1; d >= 0; d--) {
            p[(size_t)d * n + at] = (int64_t)(rest % (size_t)v.dims.d[d]);
            rest /= (size_t)v.dims.d[d];
        }
        at++;
    }
    VT_TRY(vt_emit_integers(im, &(vt_dims){2, {v.dims.rank, (int64_t)n}}, p, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(nonzero, "NonZero", import, .summary = "of constants", .since = 9)
