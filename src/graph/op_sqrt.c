/* SPDX-License-Identifier: MIT */
/* Square root. */
#include "graph/elementwise.h"

VT_UNARY(sqrt, "Sqrt", vt_import_unary, VT_KEEP_Y, sqrt(v), ((real)0.5 / w))
