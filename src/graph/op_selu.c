/* SPDX-License-Identifier: MIT */
/* gamma times (x above 0, alpha (e^x - 1) below). */
#include "graph/elementwise.h"

VT_UNARY(selu, "Selu", vt_import_unary, VT_KEEP_X | VT_KEEP_Y, v > 0 ? q * v : q * p * expm1(v),
         (v > 0 ? q : w + q * p), .attr = {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}})
