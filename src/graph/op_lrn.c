/* SPDX-License-Identifier: MIT */
/* x / (bias + alpha / size * s)^beta, s the sum of squares over `size` channels around its own. */
#include "graph/op.h"

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t size = vt_attr_int(im, "size", 0);
    int x, y, v;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_dims d = vt_import_value(im, x)->dims;
    if (d.rank < 2 || size < 1) return vt_import_fail(im, e, "has size %lld", (long long)size);
    const int64_t n = d.d[1], before = (size - 1) / 2, after = size - 1 - before;
    if (n > 4096) return vt_import_fail(im, e, "has %lld channels, must be at most 4096", (long long)n);
    double *m = vt_import_take(im, (size_t)(n * n) + 1, sizeof *m);
    if (!m) return vt_import_memory(im, e);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            if (k >= i - before && k <= i + after) m[i * n + k] = vt_attr_real(im, "alpha", 1e-4) / (double)size;
    VT_TRY(vt_emit_binary(im, "Mul", x, x, &y, e));
    VT_TRY(vt_emit_matrix(im, y, 1, m, n, &y, e));
    VT_TRY(vt_emit_real(im, vt_attr_real(im, "bias", 1), &v, e));
    VT_TRY(vt_emit_binary(im, "Add", y, v, &y, e));
    VT_TRY(vt_emit_real(im, vt_attr_real(im, "beta", 0.75), &v, e));
    VT_TRY(vt_emit_binary(im, "Pow", y, v, &y, e));
    VT_TRY(vt_emit_binary(im, "Div", x, y, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(lrn, "LRN", import, .summary = NULL)
