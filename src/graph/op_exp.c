/* SPDX-License-Identifier: MIT */
/* e^x. */
#include "graph/elementwise.h"

VT_UNARY(exp, "Exp", vt_import_unary, VT_KEEP_Y, exp(v), w)
