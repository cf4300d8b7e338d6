/* SPDX-License-Identifier: MIT */
/* What operators of quantised graphs emit (op_quantizelinear.c). Integers that follow the image are reals here: exact
 * in float up to 2^24. Scales and zero points are constants, of one number or of one for each place of an axis. */
#pragma once

#include "graph/import.h"

/* Input k beside sides d: as it is if it is one number; else a list along `axis`, or, if block > 0, blocks along it. */
vt_status vt_quantise_input(vt_import *im, int k, const vt_dims *d, int axis, int64_t block, int *y, vt_err *e);
/* Input k less the zero point, input zero (none: as it is). */
vt_status vt_emit_less_zero(vt_import *im, int k, int zero, int axis, int *y, vt_err *e);
/* round(x) + zero point (-1: none), cut to the range of a type. */
vt_status vt_emit_quantised(vt_import *im, int x, int zero, int type, int *y, vt_err *e);
/* round(x times scale a times scale b over scale y) and so on: inputs a, b, y and y + 1, the zero point. */
vt_status vt_emit_requantised(vt_import *im, int x, const int scale[2], const int axis[2], int result, int *y,
                              vt_err *e);
