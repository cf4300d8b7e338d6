/* SPDX-License-Identifier: MIT */
/* Natural logarithm. */
#include "graph/elementwise.h"

VT_UNARY(log, "Log", vt_import_unary, VT_KEEP_X, log(v), (1 / v))
