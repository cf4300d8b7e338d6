/* SPDX-License-Identifier: MIT */
/* x above 0, alpha (e^(x/alpha) - 1) below. */
#include "graph/elementwise.h"

VT_UNARY(celu, "Celu", vt_import_unary, VT_KEEP_X, v > 0 ? v : p * expm1(v / p), (v > 0 ? (real)1 : exp(v / p)),
         .since = 12, .attr = {{"alpha", 1}})
