/* SPDX-License-Identifier: MIT */
/* |x|; the derivative at 0 is 0. */
#include "graph/elementwise.h"

VT_UNARY(abs, "Abs", vt_import_unary, VT_KEEP_X, fabs(v), (v > 0 ? (real)1 : v < 0 ? (real)-1 : 0))
