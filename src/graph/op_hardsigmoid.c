/* SPDX-License-Identifier: MIT */
/* alpha x + beta, cut to [0,1]. */
#include "graph/elementwise.h"

VT_UNARY(hardsigmoid, "HardSigmoid", vt_import_unary, VT_KEEP_X, fmax((real)0, fmin((real)1, p *v + q)),
         (p * v + q > 0 && p * v + q < 1 ? p : 0), .attr = {{"alpha", 0.2}, {"beta", 0.5}})
