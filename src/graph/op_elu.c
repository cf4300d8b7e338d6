/* SPDX-License-Identifier: MIT */
/* x above 0, alpha (e^x - 1) below. */
#include "graph/elementwise.h"

VT_UNARY(elu, "Elu", vt_import_unary, VT_KEEP_X | VT_KEEP_Y, v > 0 ? v : p * expm1(v), (v > 0 ? (real)1 : w + p),
         .attr = {{"alpha", 1}})
