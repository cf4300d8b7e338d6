/* SPDX-License-Identifier: MIT */
/* Inverse hyperbolic cosine. */
#include "graph/elementwise.h"

VT_UNARY(acosh, "Acosh", vt_import_unary, VT_KEEP_X, acosh(v), (1 / sqrt(v * v - 1)))
