/* SPDX-License-Identifier: MIT */
/* x above alpha, else 0. */
#include "graph/elementwise.h"

VT_UNARY(thresholdedrelu, "ThresholdedRelu", vt_import_unary, VT_KEEP_X, v > p ? v : 0, (v > p ? (real)1 : 0),
         .attr = {{"alpha", 1}})
