/* SPDX-License-Identifier: MIT */
/* Hyperbolic tangent. */
#include "graph/elementwise.h"

VT_UNARY(tanh, "Tanh", vt_import_unary, VT_KEEP_Y, tanh(v), (1 - w * w))
