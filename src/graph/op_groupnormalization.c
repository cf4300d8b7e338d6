/* SPDX-License-Identifier: MIT */
/* Groups of channels standardised, times scale, plus shift (opset 21: one a channel; 18: one a group). */
#include "graph/reduce.h"

/* Sets *y to v as one number a channel, of one a channel or one a group; VT_E_FORMAT: it is neither. */
static vt_status each_channel(vt_import *im, int v, int64_t channels, int *y, vt_err *e) {
    const int64_t n = (int64_t)vt_import_value(im, v)->n;
    *y = v;
    if (n == channels) return VT_OK;
    if (!n || channels % n)
        return vt_import_fail(im, e, "has %lld scales for %lld channels", (long long)n, (long long)channels);
    VT_TRY(vt_emit_reshape(im, v, &(vt_dims){2, {n, 1}}, y, e));
    VT_TRY(vt_emit_expand(im, *y, &(vt_dims){2, {n, channels / n}}, y, e));
    return vt_emit_reshape(im, *y, &(vt_dims){1, {channels}}, y, e);
}

static vt_status import(vt_import *im, vt_err *e) {
    const double eps = vt_attr_real(im, "epsilon", 1e-5);
    const int64_t groups = vt_attr_int(im, "num_groups", 0);
    int x, y, affine[2];
    VT_TRY(vt_input_count(im, 3, 3, e));
    VT_TRY(vt_real_input(im, 0, &x, e));
    const vt_value v = *vt_import_value(im, x);
    if (v.dims.rank < 3 || groups < 1 || v.dims.d[1] % groups)
        return vt_import_fail(im, e, "has %lld groups", (long long)groups);
    for (int k = 0; k < 2; k++) {
        VT_TRY(each_channel(im, vt_input(im, 1 + k), v.dims.d[1], &affine[k], e));
        VT_TRY(vt_emit_beside_channels(im, affine[k], v.dims.rank, &affine[k], e));
    }
    const int64_t rows = v.dims.d[0] * groups;
    VT_TRY(vt_emit_reshape(im, x, &(vt_dims){2, {rows, rows ? (int64_t)v.n / rows : 0}}, &y, e));
    VT_TRY(vt_emit_along(im, "(standardise)", y, (const bool[VT_RANK]){false, true}, &eps, &y, e));
    VT_TRY(vt_emit_reshape(im, y, &v.dims, &y, e));
    VT_TRY(vt_emit_binary(im, "Mul", y, affine[0], &y, e));
    VT_TRY(vt_emit_binary(im, "Add", y, affine[1], &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(groupnormalization, "GroupNormalization", import, .summary = NULL, .since = 18)
