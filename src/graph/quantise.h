/* SPDX-License-Identifier: MIT */
/* What operators of quantised graphs emit (op_quantizelinear.c). Integers that follow the image are reals here: exact
 * in float up to 2^24. Scales and zero points are constants, of one number or of one for each place of an axis. */
#pragma once

#include "graph/import.h"

/* Sets *y to constant input k beside sides d: one number, or a list along `axis`, or, if block > 0, blocks along it.
 * VT_E_FORMAT: it is none of these. */
vt_status vt_quantise_input(vt_import *im, int k, const vt_dims *d, int axis, int64_t block, int *y, vt_err *e);
/* Sets *y to input k, as reals, less the zero point, input `zero` (left out: as it is), one or a list along `axis`. */
vt_status vt_emit_less_zero(vt_import *im, int k, int zero, int axis, int *y, vt_err *e);
/* Sets *y to round(x) + value zero (-1: none), cut to the range of an ONNX type; VT_E_FORMAT: not int or uint of 8 or
 * 16 bits. */
vt_status vt_emit_quantised(vt_import *im, int x, int zero, int type, int *y, vt_err *e);
/* Sets *y to x times scale a times scale b over scale y, quantised to the type of y's zero point. scale: inputs of a
 * and b, lists along axis; result: y's, its zero point next. */
vt_status vt_emit_requantised(vt_import *im, int x, const int scale[2], const int axis[2], int result, int *y,
                              vt_err *e);
