/* SPDX-License-Identifier: MIT */
/* max(x, 0); the derivative at 0 is 0. */
#include "graph/elementwise.h"

VT_UNARY(relu, "Relu", vt_import_unary, VT_KEEP_Y, v > 0 ? v : 0, (w > 0 ? (real)1 : 0))
