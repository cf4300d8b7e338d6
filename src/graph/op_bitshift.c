/* SPDX-License-Identifier: MIT */
/* Constant integers times or over powers of two. */
#include "graph/elementwise.h"

/* Imports a BitShift by constants as a product with powers of two. */
static vt_status import_shift(vt_import *im, vt_err *e) {
    int by;
    VT_TRY(vt_input_count(im, 2, 2, e));
    VT_TRY(vt_constant_input(im, 1, &by, e));
    const vt_value v = *vt_import_value(im, by);
    const bool right = vt_attr_is(im, "direction", "RIGHT", "");
    double *p = vt_import_take(im, v.n + 1, sizeof *p);
    if (!p) return vt_import_memory(im, e);
    for (size_t i = 0; i < v.n; i++) p[i] = exp2(right ? -vt_value_real(&v, i) : vt_value_real(&v, i));
    VT_TRY(vt_emit_reals(im, &v.dims, p, &by, e));
    return vt_import_bits_of(im, vt_input(im, 0), by, e);
}

VT_BITS(bitshift, "BitShift", import_shift, floor(a *b), .summary = "of constants", .since = 11)
