/* SPDX-License-Identifier: MIT */
/* Tangent. */
#include "graph/elementwise.h"

VT_UNARY(tan, "Tan", vt_import_unary, VT_KEEP_Y, tan(v), (1 + w * w))
