/* SPDX-License-Identifier: MIT */
/* x cut to a range, whose upper end counts if the lower one is above it; as in PyTorch, the gradient passes at its
 * ends. */
#include "graph/elementwise.h"

/* Sets *out to input k, or the attribute, if it is constant; without either *out stays. *follows: an input k that
 * follows the image, else -1. VT_E_FORMAT unless it is one number. */
static vt_status read_limit(vt_import *im, int k, const char *name, double *out, int *follows, vt_err *e) {
    const int v = vt_input(im, k);
    *follows = -1;
    if (v < 0) {
        vt_onnx_float(vt_import_node(im), name, out);
        return VT_OK;
    }
    const vt_value *x = vt_import_value(im, v);
    if (x->n != 1) return vt_import_fail(im, e, "has %zu numbers as %s, must be one", x->n, name);
    if (vt_value_is_constant(x))
        *out = vt_value_real(x, 0);
    else
        *follows = v;
    return VT_OK;
}

/* Imports a Clip; limits that are no constants become Max and Min. */
static vt_status import_clip(vt_import *im, vt_err *e) {
    double with[2] = {-INFINITY, INFINITY};
    int low, high, y = vt_input(im, 0);
    VT_TRY(vt_input_count(im, 1, 3, e));
    VT_TRY(read_limit(im, 1, "min", &with[0], &low, e));
    VT_TRY(read_limit(im, 2, "max", &with[1], &high, e));
    VT_TRY(vt_emit_unary(im, "Clip", y, with, &y, e));
    if (low >= 0) VT_TRY(vt_emit_binary(im, "Max", y, low, &y, e));
    if (high >= 0) VT_TRY(vt_emit_binary(im, "Min", y, high, &y, e));
    return vt_output(im, 0, y, e);
}

VT_UNARY(clip, "Clip", import_clip, VT_KEEP_X, v<p ? (p < q ? p : q) : v> q ? q : v, (v >= p && v <= q ? (real)1 : 0))
