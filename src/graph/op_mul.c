/* SPDX-License-Identifier: MIT */
/* a b. */
#include "graph/elementwise.h"

VT_BINARY(mul, "Mul", vt_import_binary, VT_KEEP_X, a *b, b, a)
