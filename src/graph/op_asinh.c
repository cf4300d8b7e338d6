/* SPDX-License-Identifier: MIT */
/* Inverse hyperbolic sine. */
#include "graph/elementwise.h"

VT_UNARY(asinh, "Asinh", vt_import_unary, VT_KEEP_X, asinh(v), (1 / sqrt(v * v + 1)))
