/* SPDX-License-Identifier: MIT */
/* x as another type: reals keep their value, constants may become integers. */
#include <math.h>
#include "graph/op.h"

#ifndef VT_DOUBLE
/* Keeps those lowest bits of *v that the integer type has; false: *v is beyond what an int64_t holds of it. */
static bool keep_bits(int type, int64_t *v) {
    static const int bits[] = {[VT_ONNX_UINT8] = 8,  [VT_ONNX_INT8] = 8,    [VT_ONNX_UINT16] = 16, [VT_ONNX_INT16] = 16,
                               [VT_ONNX_INT32] = 32, [VT_ONNX_UINT32] = 32, [VT_ONNX_UINT64] = 64};
    const int n = type <= VT_ONNX_UINT64 ? bits[type] : 0;
    const bool sign = type == VT_ONNX_INT8 || type == VT_ONNX_INT16 || type == VT_ONNX_INT32;
    if (n == 64) return *v >= 0;
    if (n) *v &= ((int64_t)1 << n) - 1;
    if (sign && *v >> (n - 1)) *v -= (int64_t)1 << n;
    return true;
}

/* Sets *y to a constant x as integers, or (bool) as 0 and 1; VT_E_FORMAT: it follows the image, or is beyond 2^53 or a
 * real beyond the type. */
static vt_status to_integers(vt_import *im, int x, int type, int *y, vt_err *e) {
    const vt_value v = *vt_import_value(im, x);
    if (!vt_value_is_constant(&v)) return vt_import_fail(im, e, "makes integers of what follows the image");
    int64_t *p = vt_import_take(im, v.n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) {
        const double r = v.integers ? 0 : vt_value_real(&v, i);
        if (!(fabs(r) <= 9007199254740992.0)) return vt_import_fail(im, e, "makes an integer of %g", r);
        const int64_t whole = p[i] = v.integers ? v.integers[i] : (int64_t)r;
        if (!keep_bits(type, &p[i]) || (!v.integers && p[i] != whole))
            return vt_import_fail(im, e, "makes a smaller integer of %lld", (long long)whole);
        if (type == VT_ONNX_BOOL) p[i] = v.integers ? v.integers[i] != 0 : r != 0;
    }
    return vt_emit_integers(im, &v.dims, p, y, e);
}

/* Sets *y to a constant x as reals. */
static vt_status to_reals(vt_import *im, int x, int *y, vt_err *e) {
    const vt_value v = *vt_import_value(im, x);
    double *p = vt_import_take(im, v.n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) p[i] = vt_value_real(&v, i);
    return vt_emit_reals(im, &v.dims, p, y, e);
}

vt_status vt_emit_cast(vt_import *im, int x, int type, int *y, vt_err *e) {
    *y = x;
    if (type == VT_ONNX_STRING || type <= 0 || type > VT_ONNX_BFLOAT16)
        return vt_import_fail(im, e, "makes data type %d", type);
    if (!vt_onnx_is_real(type)) return to_integers(im, x, type, y, e);
    return vt_import_value(im, x)->integers ? to_reals(im, x, y, e) : VT_OK;
}
#endif

static vt_status import(vt_import *im, vt_err *e) {
    const int64_t to = vt_attr_int(im, "to", 0);
    int y;
    VT_TRY(vt_input_count(im, 1, 1, e));
    VT_TRY(vt_emit_cast(im, vt_input(im, 0), to < 64 ? (int)to : 0, &y, e));
    return vt_output(im, 0, y, e);
}

VT_OP_EMITS(cast, "Cast", import, .summary = "reals keep their value; integers of constants")
