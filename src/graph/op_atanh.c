/* SPDX-License-Identifier: MIT */
/* Inverse hyperbolic tangent. */
#include "graph/elementwise.h"

VT_UNARY(atanh, "Atanh", vt_import_unary, VT_KEEP_X, atanh(v), (1 / (1 - v * v)))
