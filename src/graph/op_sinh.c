/* SPDX-License-Identifier: MIT */
/* Hyperbolic sine. */
#include "graph/elementwise.h"

VT_UNARY(sinh, "Sinh", vt_import_unary, VT_KEEP_X, sinh(v), cosh(v))
