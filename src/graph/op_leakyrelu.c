/* SPDX-License-Identifier: MIT */
/* x above 0, alpha x below. */
#include "graph/elementwise.h"

VT_UNARY(leakyrelu, "LeakyRelu", vt_import_unary, VT_KEEP_X, v >= 0 ? v : p * v, (v > 0 ? (real)1 : p),
         .attr = {{"alpha", 0.01}})
