/* SPDX-License-Identifier: MIT */
/* Cosine. */
#include "graph/elementwise.h"

VT_UNARY(cos, "Cos", vt_import_unary, VT_KEEP_X, cos(v), -sin(v))
