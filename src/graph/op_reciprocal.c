/* SPDX-License-Identifier: MIT */
/* 1 / x. */
#include "graph/elementwise.h"

VT_UNARY(reciprocal, "Reciprocal", vt_import_unary, VT_KEEP_Y, 1 / v, (-w * w))
