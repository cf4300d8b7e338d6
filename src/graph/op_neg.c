/* SPDX-License-Identifier: MIT */
/* -x. */
#include "graph/elementwise.h"

VT_UNARY(neg, "Neg", vt_import_unary, 0, -v, -1)
