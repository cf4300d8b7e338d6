/* SPDX-License-Identifier: MIT */
/* Hyperbolic cosine. */
#include "graph/elementwise.h"

VT_UNARY(cosh, "Cosh", vt_import_unary, VT_KEEP_X, cosh(v), sinh(v))
