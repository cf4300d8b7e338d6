/* SPDX-License-Identifier: MIT */
/* Sums of a side up to each place: a product with a triangle of ones. */
#include "graph/op.h"

/* Emits the sums of constant integers v up to each place of the axis, exact; exclusive: without its own; reverse: from
 * the end. */
static vt_status sum_integers(vt_import *im, const vt_value *v, int axis, bool exclusive, bool reverse, int *y,
                              vt_err *e) {
    int64_t *p = vt_import_take(im, v->n + 1, sizeof *p);
    size_t step = 1;
    const size_t side = (size_t)v->dims.d[axis];
    if (!p) return vt_import_memory(im, e);
    for (int k = axis + 1; k < v->dims.rank; k++) step *= (size_t)v->dims.d[k];
    for (size_t i = 0; i < v->n; i++) {
        if (i / step % side) continue;
        uint64_t sum = 0;
        for (size_t k = 0; k < side; k++) {
            const size_t at = i + (reverse ? side - 1 - k : k) * step;
            const uint64_t own = (uint64_t)v->integers[at];
            p[at] = (int64_t)(exclusive ? sum : sum + own);
            sum += own;
        }
    }
    return vt_emit_integers(im, &v->dims, p, y, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    const bool exclusive = vt_attr_int(im, "exclusive", 0) != 0, reverse = vt_attr_int(im, "reverse", 0) != 0;
    int64_t at = 0;
    int axis, count, y, x = vt_input(im, 0);
    bool has;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_integer_input(im, 1, &at, 1, &count, &has, e));
    const vt_value v = *vt_import_value(im, x);
    VT_TRY(vt_axis(im, at, v.dims.rank, &axis, e));
    if (v.integers) {
        VT_TRY(sum_integers(im, &v, axis, exclusive, reverse, &y, e));
        return vt_output(im, 0, y, e);
    }
    const int64_t n = v.dims.d[axis];
    if (n > 4096) return vt_import_fail(im, e, "sums a side of %lld, must be at most 4096", (long long)n);
    double *m = vt_import_take(im, (size_t)(n * n) + 1, sizeof *m);
    if (!m) return vt_import_memory(im, e);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) m[i * n + k] = (reverse ? k > i : k < i) || (k == i && !exclusive);
    VT_TRY(vt_emit_matrix(im, x, axis, m, n, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(cumsum, "CumSum", import, .summary = NULL, .since = 11)
